package forms

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"partnerd/internal/base/problem"
	"partnerd/internal/base/text"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/wallet"
)

// Fault is why a form is refused. It is shown at its field, and above the form with a link to the field.
type Fault struct {
	Key   string
	Args  []any
	Field string // name; empty for an error of the whole form
	Label string // text key of the field's label
	Links []Link // ways to resolve it
}

// ErrInput is the error for values that this package refuses.
var ErrInput = errors.New("the form's values are refused")

// The rules of this package.
var (
	ruleInstant = problem.DeclareRule("instant", problem.IssueInvalidValue, `"%s" is not a date and time.`)
	RuleDay     = problem.DeclareRule("day", problem.IssueInvalidValue, `"%s" is not a date.`)
	RuleAmount  = problem.DeclareRule("amount", problem.IssueInvalidValue,
		`"%s" is not an amount in euros, such as 1234.50. Leave out thousands separators.`)
	RuleEuros    = problem.DeclareRule("euros", problem.IssueInvalidValue, `"%s" is not an amount from 0 to %d euros.`)
	RuleDelivery = problem.DeclareRule("delivery", problem.IssueInvalidValue,
		`"%s" is not the ID of a delivery of this application (dlv_…).`)
)

// RefuseInput refuses a value of a form.
func RefuseInput(why *problem.Rule, name string, args ...any) error {
	return problem.Refuse(ErrInput, why.At(name, args...))
}

// WholeNumber reads a number from a field.
func WholeNumber(form url.Values, name string, least, most int) (int, error) {
	sent := strings.TrimSpace(form.Get(name))
	if sent == "" {
		return 0, RefuseInput(problem.RuleRequired, name)
	}
	n, err := strconv.Atoi(sent)
	if err != nil || n < least || n > most {
		return 0, RefuseInput(problem.RuleNumber, name, problem.Shown(sent), least, most)
	}
	return n, nil
}

// Dated reads a time in the given layout from a field.
func Dated(form url.Values, name, layout string, otherwise *problem.Rule) (time.Time, error) {
	sent := form.Get(name)
	if sent == "" {
		return time.Time{}, RefuseInput(problem.RuleRequired, name)
	}
	t, err := time.Parse(layout, sent)
	if err != nil {
		return time.Time{}, RefuseInput(otherwise, name, problem.Shown(sent))
	}
	return t, nil
}

// toTheMinute is the format in which browsers send a date and time.
const toTheMinute = "2006-01-02T15:04"

// RangeOf reads two points in time from a form.
func RangeOf(form url.Values) (from, to time.Time, err error) {
	from, err = Dated(form, "from", toTheMinute, ruleInstant)
	to, otherwise := Dated(form, "to", toTheMinute, ruleInstant)
	return from, to, BothRefused(err, otherwise)
}

// BothRefused joins the issues of all refusals.
func BothRefused(all ...error) error {
	var issues []problem.Issue
	for _, err := range all {
		issues = append(issues, problem.IssuesOf(err)...)
	}
	if issues == nil {
		return nil
	}
	return problem.Refuse(ErrInput, issues...)
}

// ValuesOf refuses a form with all of its errors: those that fields find by their type, and those that the domain finds
// in the other fields.
func ValuesOf(fields []Field, form url.Values, domain []problem.Issue) error {
	var issues []problem.Issue
	refused := map[string]bool{}
	for _, f := range fields {
		own := f.Refuses(form)
		issues, refused[f.Name] = append(issues, own...), own != nil
	}
	for _, i := range domain {
		f := Fault{}
		if f.place(fields, i.Path); f.Field == "" || !refused[f.Field] {
			issues = append(issues, i)
		}
	}
	if issues == nil {
		return nil
	}
	return problem.Refuse(ErrInput, issues...)
}

// Refuses returns the errors that a field finds by its type: a missing required value, a choice that it does not offer,
// and an invalid number, date or address.
func (f Field) Refuses(form url.Values) (issues []problem.Issue) {
	sent := strings.TrimSpace(form.Get(f.Name))
	var err error
	switch {
	case f.Type == "shown":
	case f.Type == "select" || f.Type == "checks":
		return f.choices(form[f.Name])
	case sent == "" && !f.Optional:
		return []problem.Issue{problem.RuleRequired.At(f.Name)}
	case sent == "":
	case f.Type == "number":
		_, err = WholeNumber(form, f.Name, f.Least, f.Most)
	case f.Type == "date":
		_, err = Dated(form, f.Name, time.DateOnly, RuleDay)
	case f.Type == "datetime-local":
		_, err = Dated(form, f.Name, toTheMinute, ruleInstant)
	case f.Type == "email" && !text.IsEmail(sent):
		return []problem.Issue{problem.Address(f.Name, sent)}
	}
	return problem.IssuesOf(err)
}

// choices refuses a chosen value that is not offered, and an empty choice where one is required. A single box may stay
// empty.
func (f Field) choices(chosen []string) (issues []problem.Issue) {
	none := slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == "" })
	if len(chosen) == 0 && !f.Optional && !none && (f.Type == "select" || len(f.Options) > 1) {
		return []problem.Issue{problem.RuleRequired.At(f.Name)}
	}
	for _, sent := range chosen {
		if !slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == sent }) {
			issues = append(issues, problem.Choice(f.Name, sent))
		}
	}
	return issues
}

// Said maps refusals of the domain to their own text and, if the form has it, their field. The first match applies.
var Said = []struct {
	err   error
	key   string
	field string
}{
	{consultation.ErrNotCancellable, "ops.fault.cancel", ""}, {consultation.ErrNotClosable, "ops.fault.close", ""},
	{consultation.ErrReason, "ops.fault.why", "why"}, {consultation.ErrNotWithdrawn, "ops.fault.withdrawn", ""},
	{consultation.ErrNotRefundable, "ops.fault.refund", ""}, {consultation.ErrNotCorrectable, "ops.fault.correct", ""},
	{operator.ErrProposed, "ops.fault.proposed", ""}, {operator.ErrDecided, "ops.fault.decided", ""},
	{operator.ErrOwn, "ops.fault.own", ""}, {operator.ErrNoAmount, "ops.fault.amount", "amount"},
	{wallet.ErrTooMuch, "ops.fault.toomuch", "amount"}, {wallet.ErrInsufficientFunds, "ops.fault.funds", "amount"},
	{staff.ErrEmailTaken, "ops.fault.email", "email"}, {lawyer.ErrEmailTaken, "ops.fault.email", "email"},
	{staff.ErrLastAdmin, "ops.fault.admin", ""}, {operator.ErrMayNot, "ops.fault.maynot", ""},
	{consultation.ErrNotAssignable, "ops.fault.assign", ""},
	{consultation.ErrLawyerUnable, "ops.fault.unable", "lawyer"}, {lawyer.ErrNotFound, "ops.fault.nolawyer", "lawyer"},
	{lawyer.ErrSuspended, "ops.fault.suspended", "lawyer"}, {portal.ErrMember, "dev.fault.member", "email"},
	{problem.ErrPreviousSecret, "ops.fault.previous", "end"}, {problem.ErrNoPreviousSecret, "ops.fault.noprevious", ""},
	{portal.ErrLastOwner, "dev.fault.owner", ""},
	{lawyer.ErrUnknownBar, "ops.fault.bar", "bar"}, {lawyer.ErrBarTaken, "ops.fault.bartaken", "number"},
	{lawyer.ErrBarNumber, "ops.fault.barnumber", "number"},
	{operator.ErrErased, "ops.fault.erased", ""}, {payment.ErrNothingToRefund, "ops.fault.nothingback", ""},
	{portal.ErrSuspended, "dev.fault.suspended", ""}, {sandbox.ErrLimit, "dev.fault.limit", ""},
	{problem.ErrUnavailable, "dev.fault.unavailable", ""},
}

// FaultsOf returns the texts of a refusal, each with its field of the form. It returns none if err is not a refusal.
func FaultsOf(err error, fields []Field) (list []Fault) {
	for _, i := range problem.IssuesOf(err) {
		f := Fault{Key: "rule.code." + i.Code}
		if i.Why != nil {
			f.Key, f.Args = "rule."+i.Why.Rule.Key, slices.Clone(i.Why.Args)
		}
		if n := slices.Index(f.Args, any(fmt.Sprintf("U+%04X", nul))); n >= 0 {
			f.Args[n] = "U+0000"
		}
		f.place(fields, i.Path)
		list = append(list, f)
	}
	if list != nil {
		return list
	}
	for _, one := range Said {
		if errors.Is(err, one.err) {
			f := Fault{Key: one.key}
			f.place(fields, one.field)
			return []Fault{f}
		}
	}
	if declared := (*problem.Error)(nil); errors.As(err, &declared) && declared.Kind != problem.NotFound {
		return []Fault{{Key: "dev.fault.other", Args: []any{declared.Code}}}
	}
	return nil
}

// place finds the field of a path by its name, or by its name in the domain.
func (f *Fault) place(fields []Field, path string) {
	name, _, _ := strings.Cut(path, ".")
	for _, field := range fields {
		if name != "" && (field.Name == name || field.Of == name) {
			f.Field, f.Label = field.Name, field.Label
		}
	}
}

// Placed assigns faults to their fields.
func Placed(fields []Field, faults []Fault) []Field {
	for i := range fields {
		for _, f := range faults {
			if f.Field != "" && f.Field == fields[i].Name {
				fields[i].Faults = append(fields[i].Faults, f)
			}
		}
	}
	return fields
}

// unreadable replaces values of a form that are not valid text. It is the ASCII substitute character, which the rules
// of each field refuse at the field.
const unreadable = "\x1a"

// nul replaces U+0000, which the database cannot store. It is an unused control character that no field accepts.
const nul = '\u0080'

// Readable converts the values of a form to text that the database can store.
func Readable(form url.Values) {
	for _, values := range form {
		for i, v := range values {
			if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
				values[i] = strings.ReplaceAll(strings.ToValidUTF8(v, unreadable), "\x00", string(nul))
			}
		}
	}
}

// InSentence reports whether a character is allowed in a single-line text.
func InSentence(r rune) bool { return text.IsFree(string(r), false) }
