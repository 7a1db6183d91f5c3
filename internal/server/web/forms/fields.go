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

// SentAgain fills fields with what was sent.
func SentAgain(list []Field, form url.Values) []Field {
	for i, f := range list {
		sent, ok := form[f.Name]
		if !ok && (f.Type != "checks" || form.Get("csrf") == "") { // boxes that are not ticked are not sent
			continue
		}
		if len(f.Options) == 0 && f.Type != "tel" { // a number is not shown, not even to who sent it
			list[i].Value = strings.Join(sent, "\n")
		}
		for j, o := range f.Options {
			list[i].Options[j].Chosen = strings.Contains("\x00"+strings.Join(sent, "\x00")+"\x00",
				"\x00"+o.Value+"\x00")
		}
	}
	return list
}

// HoursField asks how long the previous secret goes on working.
func HoursField() Field {
	return Field{Name: "hours", Label: "ops.field.hours", Hint: "ops.field.hours.hint", Type: "number", Value: "24",
		Most: int(application.MaxSecretOverlap.Hours())}
}

// RotationOf is the rotation of a client secret that a form asks for. When the newest secret ends now, there is no
// overlap.
func RotationOf(form url.Values, hours int) application.Rotation {
	if form.Get("end") == "newest" {
		return application.Rotation{KeepPrevious: true}
	}
	return application.Rotation{Overlap: time.Duration(hours) * time.Hour, EndPrevious: form.Get("end") == "yes"}
}

// EndPrevious asks, while a previous secret works, which of the two the rotation ends; otherwise it asks nothing.
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

// Field is a field of an act's form.
type Field struct {
	Name, Label, Hint string
	Type              string // of the input; or select, checks, lines, shown
	Value             string
	At                *time.Time // what is shown, when that is an instant
	Options           []Option
	Optional          bool
	Known             []string // values that the browser suggests
	Max               int      // characters; 0: no bound
	Least, Most       int      // of a number
	Of                string   // what the domain calls it, when that is not its name
	Faults            []Fault  // of what was sent
}

// Option is a choice of a field.
type Option struct {
	Value, Text string
	Key         bool // Text is a key
	Chosen      bool
}

var amountForm = regexp.MustCompile(`^([+-]?)([0-9]{1,6})(?:[.,]([0-9]{1,2}))?$`)

// Amount reads euros from a field, as people of both languages type them: with a point or a comma before one or two
// digits. What could separate thousands is refused. An empty text is 0 where that is allowed.
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

// Fixed are the fields of an act, called with C, that knows nothing of its subject: a copy, which is filled in.
func Fixed[C any](list ...Field) func(context.Context, postgres.Tx, C) ([]Field, error) {
	return func(context.Context, postgres.Tx, C) ([]Field, error) {
		own := slices.Clone(list)
		for i := range own {
			own[i].Options = slices.Clone(own[i].Options)
		}
		return own, nil
	}
}

// RangeFields ask for the two instants that [RangeOf] reads.
func RangeFields() []Field {
	return []Field{{Name: "from", Label: "ops.field.from", Hint: "ops.field.utc", Type: "datetime-local"},
		{Name: "to", Label: "ops.field.to", Hint: "ops.field.utc", Type: "datetime-local"}}
}

// SkillChoices are the fields for what a lawyer does; chosen is what they do already.
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

// Described are the identifiers of what a reader is told of a field.
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
