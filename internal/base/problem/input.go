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

// Rule is why a value is refused. Pages put it into words by its key, in the language of the reader; the APIs and the
// commands say it in English. A value that is part of the wording is given with [Shown].
type Rule struct{ Key, Code, English string }

var rules []*Rule

// DeclareRule makes a rule and adds it to [Rules]. Call it from package-level variables only. English is a sentence
// that [fmt.Sprintf] puts the arguments of [Rule.At] into.
func DeclareRule(key, code, english string) *Rule {
	r := &Rule{key, code, english}
	rules = append(rules, r)
	return r
}

// Rules returns every declared rule, in no particular order.
func Rules() []*Rule { return slices.Clone(rules) }

// Why is the rule that an issue comes from, and what its wording names.
type Why struct {
	Rule *Rule
	Args []any
}

// At is the issue that the value at path breaks the rule.
func (r *Rule) At(path string, args ...any) Issue {
	return Issue{Path: path, Code: r.Code, Message: fmt.Sprintf(r.English, args...), Why: &Why{r, args}}
}

// Rules that several kinds of values have.
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

// Refusal is the fault of a domain package that names the values it is about.
type Refusal struct {
	Of     error // what callers look for with errors.Is
	Issues []Issue
}

// Refuse makes a [Refusal].
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

// Unwrap returns what callers look for.
func (r *Refusal) Unwrap() error { return r.Of }

// IssuesOf returns the issues that err names, wherever they are in its chain.
func IssuesOf(err error) []Issue {
	if r := (*Refusal)(nil); errors.As(err, &r) {
		return r.Issues
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Issues
	}
	return nil
}

// Invalid is [ErrValidation] with the issues of a [Refusal]; their paths are renamed by pairs of old and new names.
// Another error stays what it is.
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

const maxShown = 80 // characters of a value in a message

// Shown is a value as a message names it: not longer than people compare, and without what is not seen.
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

// Choice says that a value is none of those to choose from, or that there is none.
func Choice(path, value string) Issue {
	if value == "" {
		return RuleRequired.At(path)
	}
	return RuleUnknown.At(path, Shown(value))
}

// Address says that a value is no email address, or that there is none.
func Address(path, value string) Issue {
	if value == "" {
		return RuleRequired.At(path)
	}
	return RuleEmail.At(path, Shown(value))
}

// Name says why a value is refused as the name of a person or an application; nil when it is not.
// Mails and pages show such names to other people, so a name holds nothing that leads anywhere: see [text.Leads].
func Name(path, value string, most int) []Issue {
	issues := Line(path, value, most, text.InName)
	if issues == nil && text.Leads(value) {
		issues = []Issue{RuleNoLink.At(path)}
	}
	return issues
}

// Line says why a value is refused that has 1 to most characters, all of which fit; nil when it is not.
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
