package problem

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"partnerd/internal/base/text"
)

// Rule is a reason for rejecting a value. Pages show it by its key, in the reader's language; the APIs and the commands
// use English. A value that is part of the message is passed through [Shown].
type Rule struct{ Key, Code, English string }

var rules []*Rule

// DeclareRule creates a rule and adds it to [Rules]. Call it from package-level variables only. English is a format for
// [fmt.Sprintf] with the arguments of [Rule.At].
func DeclareRule(key, code, english string) *Rule {
	r := &Rule{key, code, english}
	rules = append(rules, r)
	return r
}

// Rules returns every declared rule, in no particular order.
func Rules() []*Rule { return slices.Clone(rules) }

// Why is the rule behind an issue, and the arguments of its message.
type Why struct {
	Rule *Rule
	Args []any
}

// At returns the issue that the value at path violates the rule.
func (r *Rule) At(path string, args ...any) Issue {
	return Issue{Path: path, Code: r.Code, Message: fmt.Sprintf(r.English, args...), Why: &Why{r, args}}
}

// Rules that apply to several kinds of values.
var (
	RuleRequired = DeclareRule("required", IssueInvalidValue, "A value is required.")
	RuleTooLong  = DeclareRule("toolong", IssueTooLong, "Has %d characters; at most %d are allowed.")
	RuleUnseen   = DeclareRule("unseen", IssueInvalidValue, "Contains the character %s, which is not allowed here.")
	RuleNoLink   = DeclareRule("nolink", IssueInvalidValue,
		"A name must not contain a web address, an email address or \"@\". Put a space after each dot in a name.")
	RuleEmail   = DeclareRule("email", IssueInvalidValue, `"%s" is not an email address.`)
	RuleUnknown = DeclareRule("unknown", IssueInvalidValue, `"%s" is not one of the allowed values.`)
	RuleCatalog = DeclareRule("catalog", IssueNotInCatalog, `"%s" is not in the catalogue.`)
	RuleNumber  = DeclareRule("number", IssueInvalidValue, `"%s" is not a whole number from %d to %d.`)
	RuleZone    = DeclareRule("zone", IssueInvalidValue,
		`"%s" is not an IANA time zone, such as Europe/Paris.`)
	RulePhone = DeclareRule("phone", IssueInvalidValue,
		"This phone number cannot be called. Use the international format, such as +33612345678.")
	RuleUncharged = DeclareRule("phone.costly", IssueInvalidValue,
		"Premium-rate, satellite and international network numbers cannot be used.")
)

// Refusal is an error of a domain package that names the values it concerns.
type Refusal struct {
	Of     error // the error that callers match with errors.Is
	Issues []Issue
}

// Refuse returns a [Refusal].
func Refuse(of error, issues ...Issue) error { return &Refusal{of, issues} }

// Error implements error.
func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString(r.Of.Error())
	for _, i := range r.Issues {
		b.WriteString(": " + i.Path + ": " + i.Message)
	}
	return b.String()
}

// Unwrap returns the error that callers match.
func (r *Refusal) Unwrap() error { return r.Of }

// IssuesOf returns the issues in err, wherever they are in its chain.
func IssuesOf(err error) []Issue {
	if r := (*Refusal)(nil); errors.As(err, &r) {
		return r.Issues
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Issues
	}
	return nil
}

// Invalid returns [ErrValidation] with the issues of a [Refusal]. Paths are renamed by pairs of old and new names. Any
// other error is returned unchanged.
func Invalid(err error, rename ...string) error {
	r := (*Refusal)(nil)
	if !errors.As(err, &r) {
		return err
	}
	issues := slices.Clone(r.Issues)
	for i := range issues {
		for j := 0; j < len(rename); j += 2 {
			if issues[i].Path == rename[j] {
				issues[i].Path = rename[j+1]
			}
		}
	}
	return ErrValidation.With(issues...)
}

const maxShown = 80 // maximum length of a value in a message, in characters

// Shown returns a value as messages display it: truncated to a readable length, with invisible characters replaced.
func Shown(value string) string {
	value = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, value)
	if runes := []rune(value); len(runes) > maxShown {
		return string(runes[:maxShown]) + "…"
	}
	return value
}

// Choice returns the issue that a value is not one of the options, or is missing.
func Choice(path, value string) Issue {
	if value == "" {
		return RuleRequired.At(path)
	}
	return RuleUnknown.At(path, Shown(value))
}

// Address returns the issue that a value is not an email address, or is missing.
func Address(path, value string) Issue {
	if value == "" {
		return RuleRequired.At(path)
	}
	return RuleEmail.At(path, Shown(value))
}

// Name returns why a value is rejected as the name of a person or an application, or nil. Emails and pages show such
// names to other people, so a name must not lead anywhere: see [text.Leads].
func Name(path, value string, most int) []Issue {
	issues := Line(path, value, most, text.InName)
	if issues == nil && text.Leads(value) {
		issues = []Issue{RuleNoLink.At(path)}
	}
	return issues
}

// Line returns why a value is rejected that must have 1 to most characters accepted by fits, or nil.
func Line(path, value string, most int, fits func(rune) bool) []Issue {
	if value == "" {
		return []Issue{RuleRequired.At(path)}
	}
	if n := utf8.RuneCountInString(value); n > most {
		return []Issue{RuleTooLong.At(path, n, most)}
	}
	for _, r := range value {
		if !fits(r) || r == utf8.RuneError && !utf8.ValidString(value) {
			return []Issue{RuleUnseen.At(path, fmt.Sprintf("U+%04X", r))}
		}
	}
	return nil
}
