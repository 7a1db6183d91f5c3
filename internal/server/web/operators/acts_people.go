package operators

import (
	"context"

	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// personActs lists the actions on operators.
func (p *Pages) personActs() []Act {
	o := p.deps.Operator
	people := backToSubject("people")
	return []Act{
		{Name: "invite", Path: Path("people", "invite"), Roles: only(operator.InvitesStaff), Tells: ToldInvited,
			Fresh: true, Secrets: theLink, Back: backToSection("people"), Fields: p.newPersonFields,
			Do: p.inviteOperator},
		{Name: "roles", Path: on("people", "roles"), Roles: only(staff.Admin), Tells: ToldPerson, Fresh: true,
			Danger: true, Back: people, Fields: p.roleFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				return Done{}, o.SetRoles(ctx, c.By, c.Subject, roles(c.Form["roles"]))
			}},
		{Name: "reinvite", Path: on("people", "reinvite"), Roles: only(operator.InvitesStaff), Tells: ToldPerson,
			Fresh: true, Danger: true, Secrets: theLink, Back: people, Fields: p.endingFields, Do: p.reinvite},
		{Name: "disable", Path: on("people", "disable"), Roles: only(staff.Admin), Tells: ToldPerson, Fresh: true,
			Danger: true, Back: people, Fields: p.endingFields, Do: one(o.DisablePerson)},
	}
}

// endingFields shows the proposals that end if the person is disabled or invited again.
func (p *Pages) endingFields(ctx context.Context, tx postgres.Tx, c Call) (list []forms.Field, err error) {
	return p.openProposals(ctx, tx, c, "ops.field.ends")
}

// openProposals shows the open proposals of the person, each under a label.
func (p *Pages) openProposals(ctx context.Context, tx postgres.Tx, c Call,
	label string,
) (list []forms.Field, err error) {
	open, err := p.deps.Operator.ProposalsOf(ctx, tx, c.Subject)
	for _, o := range open {
		list = append(list, forms.Field{Label: label, Type: "shown", Options: []forms.Option{{Text: KindKey(o)}}},
			forms.Field{Label: "ops.col.amount", Type: "shown", Value: o.Amount.Format(c.Lang) + ", " + o.Subject})
	}
	return list, err
}

var personFields = []forms.Field{{Name: "name", Label: "ops.field.name", Type: "text"},
	{Name: "email", Label: "ops.field.email", Type: "email"}}

func (p *Pages) newPersonFields(_ context.Context, _ postgres.Tx, c Call) ([]forms.Field, error) {
	return append(append([]forms.Field(nil), personFields...), shell.LanguageField(c.Lang), rolesField(nil)), nil
}

func rolesField(has []staff.Role) forms.Field {
	f := forms.Field{Name: "roles", Label: "ops.field.roles", Type: "checks"}
	for _, r := range staff.Roles() {
		chosen := false
		for _, h := range has {
			chosen = chosen || h == r
		}
		f.Options = append(f.Options, forms.Option{Value: string(r), Text: "ops.role." + string(r),
			Key: true, Chosen: chosen})
	}
	return f
}

func (p *Pages) roleFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	person, err := p.deps.Staff.Get(ctx, tx, c.Subject)
	if err == nil && person.Kind != staff.Operator {
		err = staff.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	open, err := p.openProposals(ctx, tx, c, "ops.field.ends.role")
	return append(open, rolesField(person.Roles)), err
}

func roles(sent []string) (list []staff.Role) {
	for _, r := range sent {
		list = append(list, staff.Role(r))
	}
	return list
}

// theLink is shown after an invitation in a sandbox, where no email is sent.
var theLink = []string{"ops.secret.link"}

func (p *Pages) inviteOperator(ctx context.Context, c Call) (Done, error) {
	person, _, err := p.deps.Operator.InviteOperator(ctx, c.By, staff.NewPerson{Email: c.Form.Get("email"),
		Name: c.Form.Get("name"), Language: c.Form.Get("tongue"), Roles: roles(c.Form["roles"])})
	return Done{Path("people", person.ID) + "?done=invite"}, err
}

func (p *Pages) reinvite(ctx context.Context, c Call) (Done, error) {
	_, _, err := p.deps.Operator.ReinvitePerson(ctx, c.By, c.Subject)
	return Done{}, err
}
