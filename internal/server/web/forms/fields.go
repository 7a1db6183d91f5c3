package forms

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/portal"
	"partnerd/internal/infra/postgres"
)

// SentAgain fills fields with the values that were sent.
func SentAgain(list []Field, form url.Values) []Field {
	for i, f := range list {
		sent, ok := form[f.Name]
		if !ok && (f.Type != "checks" || form.Get("csrf") == "") { // unticked boxes are not sent
			continue
		}
		if len(f.Options) == 0 && f.Type != "tel" { // a phone number is never shown again, not even to its sender
			list[i].Value = strings.Join(sent, "\n")
		}
		for j, o := range f.Options {
			list[i].Options[j].Chosen = strings.Contains("\x00"+strings.Join(sent, "\x00")+"\x00",
				"\x00"+o.Value+"\x00")
		}
	}
	return list
}

// HoursField asks how long the previous secret stays valid.
func HoursField() Field {
	return Field{Name: "hours", Label: "ops.field.hours", Hint: "ops.field.hours.hint", Type: "number", Value: "24",
		Most: int(application.MaxSecretOverlap.Hours())}
}

// RotationOf returns the rotation of a client secret that a form requests. If the current secret ends now, there is no
// overlap.
func RotationOf(form url.Values, hours int) application.Rotation {
	if form.Get("end") == "newest" {
		return application.Rotation{KeepPrevious: true}
	}
	return application.Rotation{Overlap: time.Duration(hours) * time.Hour, EndPrevious: form.Get("end") == "yes"}
}

// EndPrevious asks which of two valid secrets the rotation ends. If there is no valid previous secret, it asks nothing.
func EndPrevious(now time.Time, until *time.Time) []Field {
	if until == nil || !now.Before(*until) {
		return nil
	}
	works := Field{Label: "ops.field.previous", Type: "shown", At: until}
	return []Field{works, {Name: "end", Label: "ops.field.end", Hint: "ops.field.end.hint", Type: "select",
		Of: "keepPrevious",
		Options: []Option{{Text: "ops.field.end.choose", Key: true},
			{Value: "yes", Text: "ops.field.end.yes", Key: true}, {Value: "newest", Text: "ops.field.end.newest",
				Key: true}}}}
}

// RoleField asks for the role of a member.
func RoleField(chosen portal.Role) Field {
	f := Field{Name: "role", Label: "dev.col.role", Hint: "dev.field.role.hint", Type: "select"}
	for _, r := range portal.Roles() {
		f.Options = append(f.Options, Option{Value: string(r), Text: "dev.role." + string(r), Key: true,
			Chosen: r == chosen})
	}
	return f
}

// Field is a field of an action's form.
type Field struct {
	Name, Label, Hint string
	Type              string // of the input; or select, checks, lines, shown
	Value             string
	At                *time.Time // shown time, if the value is a time
	Options           []Option
	Optional          bool
	Known             []string // values that the browser suggests
	Max               int      // in characters; 0 for no limit
	Least, Most       int      // of a number
	Of                string   // name in the domain, if different
	Faults            []Fault  // errors in the sent value
}

// Option is a choice of a field.
type Option struct {
	Value, Text string
	Key         bool // Text is a key
	Chosen      bool
}

var amountForm = regexp.MustCompile(`^([+-]?)([0-9]{1,6})(?:[.,]([0-9]{1,2}))?$`)

// Amount reads euros in the notation of both languages, with a point or a comma before one or two decimals. Thousands
// separators are refused. If empty is true, an empty text is 0.
func Amount(form url.Values, name string, empty bool) (money.Cents, error) {
	s := strings.TrimSpace(form.Get(name))
	if s == "" && empty {
		return 0, nil
	}
	if s == "" {
		return 0, RefuseInput(problem.RuleRequired, name)
	}
	m := amountForm.FindStringSubmatch(s)
	if m == nil {
		return 0, RefuseInput(RuleAmount, name, problem.Shown(s))
	}
	cents, err := strconv.ParseInt(m[2]+(m[3] + "00")[:2], 10, 64)
	if err != nil {
		return 0, RefuseInput(RuleAmount, name, problem.Shown(s))
	}
	total := money.Cents(cents)
	if m[1] == "-" {
		total = -total
	}
	return total, nil
}

// Fixed returns the fields of an action, called with C, that do not depend on its subject. Each call gets its own copy
// to fill in.
func Fixed[C any](list ...Field) func(context.Context, postgres.Tx, C) ([]Field, error) {
	return func(context.Context, postgres.Tx, C) ([]Field, error) {
		own := slices.Clone(list)
		for i := range own {
			own[i].Options = slices.Clone(own[i].Options)
		}
		return own, nil
	}
}

// RangeFields ask for the two points in time that [RangeOf] reads.
func RangeFields() []Field {
	return []Field{{Name: "from", Label: "ops.field.from", Hint: "ops.field.utc", Type: "datetime-local"},
		{Name: "to", Label: "ops.field.to", Hint: "ops.field.utc", Type: "datetime-local"}}
}

// SkillChoices returns the fields for a lawyer's competences and languages. Those in has are selected.
func SkillChoices(ctx context.Context, tx postgres.Tx, codes *catalog.Service, lang string, has lawyer.Skills,
) ([]Field, error) {
	competences, err := codes.Competences(ctx, tx, language.Make(lang))
	if err != nil {
		return nil, err
	}
	tongues, err := codes.Languages(ctx, tx, language.Make(lang))
	choices := func(name, label string, all []catalog.Entry, has []string) Field {
		f := Field{Name: name, Label: label, Type: "checks"}
		for _, e := range all {
			o := Option{Value: e.Code, Text: e.Label}
			for _, h := range has {
				o.Chosen = o.Chosen || h == e.Code
			}
			f.Options = append(f.Options, o)
		}
		return f
	}
	return []Field{choices("competences", "ops.field.competences", competences, has.Competences),
		choices("languages", "ops.field.languages", tongues, has.Languages)}, err
}

// Described returns the IDs of the elements that describe a field.
func (f Field) Described() string {
	var ids []string
	if f.Hint != "" {
		ids = append(ids, f.Name+"-hint")
	}
	if f.Faults != nil {
		ids = append(ids, f.Name+"-fault")
	}
	return strings.Join(ids, " ")
}
