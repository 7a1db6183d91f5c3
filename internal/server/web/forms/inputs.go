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

// Require marks each field that was sent empty, and reports whether there is one.
func Require(fields []Input, form url.Values) (missing bool) {
	for i, f := range fields {
		if sent := form.Get(f.ID); sent == "" || f.Type != "password" && strings.TrimSpace(sent) == "" {
			fields[i].Fault, fields[i].Focus = "rule.required", !missing
			missing = true
		}
	}
	return missing
}

// Refuse marks each field whose value err refuses, by the rule and in the reader's language. It reports whether there
// is one.
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
	Label string // text key
	Value any    // a string, or a time as HTML
}

// PasswordFault returns the text about a password that is not allowed. length is the text for a wrong length.
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

// RecoveryView lists what else can end with a new password, because an intruder may have added it.
type RecoveryView struct {
	Items    []RecoveryItem
	Sessions []SessionView // all of them end
}

// RecoveryItem is something that a reset can end, with its tick box.
type RecoveryItem struct {
	ID, Name string
	Kind     string // text key that describes it
	Since    time.Time
	Ticked   bool
}

// SessionView is a session as its owner sees it.
type SessionView struct {
	account.BrowserSession
	Browser string // if it can be recognised
}

// PresentPasswordField asks for the current password.
func PresentPasswordField(fault string) Input {
	return Input{ID: "present", Label: "security.password.present", Type: "password", Autocomplete: "current-password",
		Fault: fault, Focus: fault != ""}
}

// View is a page with one form.
type View struct {
	Heading  string // text key
	Lead     string // text key
	Args     []any  // of Lead
	Action   string
	Hidden   map[string]string
	Fields   []Input
	Recovery *RecoveryView // only for a password reset
	Error    string        // text key of an error in the whole form
	Done     string        // text key of the action that has just succeeded
	Button   string        // text key
	Links    []Link
}

// Link is a URL with its text key.
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

// CodeField asks for a one-time code.
func CodeField(label, hint string) Input {
	return Input{ID: "code", Label: label, Type: "text", Autocomplete: "one-time-code", Hint: hint}
}

// Tick restores the ticks of the sent form.
func (v *RecoveryView) Tick(ids []string) {
	if v == nil {
		return
	}
	for i := range v.Items {
		v.Items[i].Ticked = slices.Contains(ids, v.Items[i].ID)
	}
}

// Faulty reports whether the sent form has errors.
func (v View) Faulty() bool {
	for _, f := range v.Fields {
		if f.Fault != "" {
			return true
		}
	}
	return v.Error != ""
}

// LinkTo creates a link with its text key.
func LinkTo(url, text string) Link { return Link{url, text} }

// FactOf creates a fact from a string, or from a time as HTML, with the text key of its label.
func FactOf(label string, value any) Fact { return Fact{label, value} }
