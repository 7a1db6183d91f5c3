package operators

import (
	"context"
	"net/url"
	"strings"
	"time"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// lawyerActs lists the actions on lawyers.
func (p *Pages) lawyerActs() []Act {
	o := p.deps.Operator
	lawyers := backToSubject("lawyers")
	return []Act{
		{Name: "invite-lawyer", Path: Path("lawyers", "invite"), Roles: only(operator.InvitesOthers),
			Tells: ToldInvited, Fresh: true, Secrets: theLink, Back: backToSection("lawyers"),
			Fields: p.newLawyerFields,
			Check:  func(form url.Values) error { return operator.CheckLawyer(lawyerOf(form)) }, Do: p.inviteLawyer},
		{Name: "reinvite-lawyer", Path: on("lawyers", "reinvite"), Roles: only(operator.InvitesOthers),
			Tells: ToldLawyer, Fresh: true, Danger: true, Secrets: theLink, Back: lawyers, Do: p.reinviteLawyer},
		{Name: "skills", Path: on("lawyers", "skills"), Roles: only(staff.Support, staff.Security), Tells: ToldLawyer,
			Back: lawyers, Fields: p.skillFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				err := o.SetLawyerSkills(ctx, c.By, c.Subject, lawyer.Skills{Competences: c.Form["competences"],
					Languages: c.Form["languages"]})
				return Done{}, err
			}},
		{Name: "phone", Path: on("lawyers", "phone"), Roles: only(staff.Security), Tells: ToldLawyer, Fresh: true,
			Back:   lawyers,
			Fields: forms.Fixed[Call](forms.Field{Name: "phone", Label: "ops.field.phone", Type: "tel"}),
			Do: func(ctx context.Context, c Call) (Done, error) {
				return Done{}, o.SetLawyerPhone(ctx, c.By, c.Subject, c.Form.Get("phone"))
			}},
		{Name: "duty", Path: on("lawyers", "duty"), Roles: only(staff.Support, staff.Security), Tells: ToldLawyer,
			Back: lawyers, Fields: p.dutyFields, Do: p.setDuty},
		{Name: "check", Path: on("lawyers", "check"), Roles: only(staff.Security), Tells: ToldLawyer, Back: lawyers,
			Fields: p.checkFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				day, err := forms.Dated(c.Form, "until", time.DateOnly, forms.RuleDay)
				if err != nil {
					return Done{}, err
				}
				return Done{}, o.CheckLawyer(ctx, c.By, c.Subject, lawyer.Registration{Bar: c.Form.Get("bar"),
					Number: c.Form.Get("number"), CheckedUntil: day.AddDate(0, 0, 1),
					OtherBar: c.Form.Get("otherbar") == "yes"})
			}},
		{Name: "send-home", Path: on("lawyers", "home"), Roles: only(staff.Support, staff.Security),
			Tells: "no one: the lawyer sees it at the desk", Danger: true, Back: lawyers, Do: one(o.SendHome)},
		{Name: "suspend-lawyer", Path: on("lawyers", "suspend"), Roles: only(staff.Support, staff.Security),
			Tells: ToldLawyer, Fresh: true, Danger: true, Back: lawyers,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.SuspendLawyer(ctx, by, id)
				return err
			})},
		{Name: "resume-lawyer", Path: on("lawyers", "resume"), Roles: only(staff.Support, staff.Security),
			Tells: ToldLawyer, Fresh: true, Back: lawyers, Do: one(o.ResumeLawyer)},
	}
}

func (p *Pages) reinviteLawyer(ctx context.Context, c Call) (Done, error) {
	_, _, err := p.deps.Operator.ReinviteLawyer(ctx, c.By, c.Subject, c.Lang)
	return Done{}, err
}

func (p *Pages) newLawyerFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	skills, err := forms.SkillChoices(ctx, tx, p.deps.Catalog, c.Lang, lawyer.Skills{})
	list := append(append([]forms.Field(nil), personFields...),
		forms.Field{Name: "phone", Label: "ops.field.phone", Type: "tel"}, shell.LanguageField(c.Lang))
	return append(list, skills...), err
}

func (p *Pages) inviteLawyer(ctx context.Context, c Call) (Done, error) {
	l, _, err := p.deps.Operator.InviteLawyer(ctx, c.By, lawyerOf(c.Form), c.Form.Get("tongue"))
	return Done{Path("lawyers", l.ID) + "?done=invite-lawyer"}, err
}

func lawyerOf(form url.Values) lawyer.NewLawyer {
	return lawyer.NewLawyer{Email: form.Get("email"), Name: form.Get("name"), Phone: form.Get("phone"),
		Competences: form["competences"], Languages: form["languages"]}
}

func (p *Pages) dutyFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	d, err := p.deps.Lawyers.Duty(ctx, tx, c.Subject)
	hours := make([]string, len(d.Hours))
	for i, h := range d.Hours {
		hours[i] = h.String()
	}
	return []forms.Field{
		{Name: "zone", Label: "ops.field.zone", Hint: "ops.field.zone.hint", Type: "text", Value: d.TimeZone},
		{Name: "hours", Label: "ops.field.dutyhours", Hint: "ops.field.dutyhours.hint", Type: "lines",
			Value: strings.Join(hours, "\n"), Optional: true},
		{Name: "oncall", Label: "ops.field.oncall", Type: "checks",
			Options: []forms.Option{{Value: "yes", Text: "ops.field.oncall.yes", Key: true, Chosen: d.OnCall}}},
	}, err
}

// checkFields is filled in with the known registration. By default a check is valid for one year.
func (p *Pages) checkFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	r, err := p.deps.Lawyers.Registration(ctx, tx, c.Subject)
	return []forms.Field{
		{Name: "bar", Label: "ops.field.bar", Hint: "ops.field.bar.hint", Type: "text", Value: r.Bar,
			Known: lawyer.Bars()},
		{Name: "otherbar", Label: "ops.field.otherbar", Type: "checks",
			Options: []forms.Option{{Value: "yes", Text: "ops.field.otherbar.yes", Key: true}}},
		{Name: "number", Label: "ops.field.barnumber", Type: "text", Value: r.Number},
		{Name: "until", Label: "ops.field.checked", Hint: "ops.field.checked.hint", Type: "date",
			Value: tx.Now.AddDate(1, 0, 0).Format(time.DateOnly)},
	}, err
}

func (p *Pages) setDuty(ctx context.Context, c Call) (Done, error) {
	d := lawyer.Duty{TimeZone: strings.TrimSpace(c.Form.Get("zone")), OnCall: c.Form.Get("oncall") == "yes"}
	for line := range strings.Lines(c.Form.Get("hours")) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		hours, err := lawyer.ParseHours(line)
		if err != nil {
			return Done{}, err
		}
		d.Hours = append(d.Hours, hours...)
	}
	return Done{}, p.deps.Operator.SetLawyerDuty(ctx, c.By, c.Subject, d)
}

func (p *Pages) skillFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	if _, err := p.deps.Lawyers.Get(ctx, tx, c.Subject); err != nil {
		return nil, err
	}
	has, err := p.deps.Lawyers.Skills(ctx, tx, c.Subject)
	if err != nil {
		return nil, err
	}
	return forms.SkillChoices(ctx, tx, p.deps.Catalog, c.Lang, has)
}
