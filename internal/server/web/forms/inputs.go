package forms

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"partnerd/internal/base/password"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/account"
)

// Input is one input of a form, as the template "field" shows it. Texts are keys.
type Input struct {
	ID, Label, Type, Autocomplete string
	InputMode                     string
	Value                         string
	Hint, Fault                   string
	FaultArgs                     []any
	Focus                         bool
}

// Require says so at each field that was sent empty, and tells whether one was.
func Require(fields []Input, form url.Values) (missing bool) {
	for i, f := range fields {
		if sent := form.Get(f.ID); sent == "" || f.Type != "password" && strings.TrimSpace(sent) == "" {
			fields[i].Fault, fields[i].Focus = "rule.required", !missing
			missing = true
		}
	}
	return missing
}

// Refuse says at each field what err refuses of its value, by the rule and in the reader's language, and tells whether
// it refuses any.
func Refuse(fields []Input, err error) (refused bool) {
	for _, issue := range problem.IssuesOf(err) {
		at := slices.IndexFunc(fields, func(f Input) bool { return f.ID == issue.Path })
		if at < 0 || issue.Why == nil {
			continue
		}
		fields[at].Fault, fields[at].FaultArgs, fields[at].Focus = "rule."+issue.Why.Rule.Key, issue.Why.Args, !refused
		refused = true
	}
	return refused
}

// Fact is a labelled value.
type Fact struct {
	Label string // key
	Value any    // a string, or an instant as HTML
}

// PasswordFault is the text about a password that may not be chosen; length is that about one that is too short or too
// long.
func PasswordFault(err error, length string) string {
	var w password.Weakness
	errors.As(err, &w)
	switch w {
	case password.Own:
		return "password.weak.own"
	case password.Common:
		return "password.weak.common"
	case password.Pattern:
		return "password.weak.pattern"
	case password.Length:
	}
	return length
}

// RecoveryView is what else can be ended with a new password: an intruder may have left it behind.
type RecoveryView struct {
	Items    []RecoveryItem
	Sessions []SessionView // which all end
}

// RecoveryItem is something that a reset can end, with its tick.
type RecoveryItem struct {
	ID, Name string
	Kind     string // key of the text that says what it is
	Since    time.Time
	Ticked   bool
}

// SessionView is a session as its owner reads it.
type SessionView struct {
	account.BrowserSession
	Browser string // as far as it can be recognised
}

// PresentPasswordField asks for the password that the person has now.
func PresentPasswordField(fault string) Input {
	return Input{ID: "present", Label: "security.password.present", Type: "password", Autocomplete: "current-password",
		Fault: fault, Focus: fault != ""}
}

// View is a page with one form.
type View struct {
	Heading  string // key
	Lead     string // key
	Args     []any  // of Lead
	Action   string
	Hidden   map[string]string
	Fields   []Input
	Recovery *RecoveryView // of the reset alone
	Error    string        // key of what is wrong with the whole form
	Done     string        // key of what was done just before
	Button   string        // key
	Links    []Link
}

// Link is an address with the key of its text.
type Link struct{ URL, Text string }

// EmailField asks for an email address.
func EmailField(value string) Input {
	return Input{ID: "email", Label: "login.email", Type: "email", Autocomplete: "username", Value: value}
}

// NewPasswordField asks for a new password.
func NewPasswordField() Input {
	return Input{ID: "password", Label: "password.new", Type: "password", Autocomplete: "new-password",
		Hint: "password.rule"}
}

// CodeField asks for a code that is used once.
func CodeField(label, hint string) Input {
	return Input{ID: "code", Label: label, Type: "text", Autocomplete: "one-time-code", Hint: hint}
}

// Tick puts the ticks as the form was sent.
func (v *RecoveryView) Tick(ids []string) {
	if v == nil {
		return
	}
	for i := range v.Items {
		v.Items[i].Ticked = slices.Contains(ids, v.Items[i].ID)
	}
}

// Faulty tells whether something is wrong with what was sent.
func (v View) Faulty() bool {
	for _, f := range v.Fields {
		if f.Fault != "" {
			return true
		}
	}
	return v.Error != ""
}

// LinkTo is a link with the key of its text.
func LinkTo(url, text string) Link { return Link{url, text} }

// FactOf is a value, a string or an instant as HTML, with the key of its label.
func FactOf(label string, value any) Fact { return Fact{label, value} }
