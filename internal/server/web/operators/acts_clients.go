package operators

import (
	"context"

	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
)

// clientActs lists the actions on clients.
func (p *Pages) clientActs() []Act {
	o := p.deps.Operator
	clients := backToSubject("clients")
	return []Act{
		{Name: "adjust", Path: on("clients", "adjust"), Roles: operator.Proposers(operator.Adjustment),
			Tells: ToldClient, Fresh: true, Danger: true, Back: clients,
			Fields: p.adjustFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				cents, err := forms.Amount(c.Form, "amount", false)
				if err != nil {
					return Done{}, err
				}
				proposal, err := o.Adjust(ctx, c.By, c.Subject, cents)
				return proposed(proposal, Path("clients", c.Subject)), err
			}},
		{Name: "return-money", Path: on("clients", "return"), Roles: only(staff.Finance), Tells: ToldClient,
			Fresh: true, Danger: true, Back: clients, Do: one(o.ReturnMoney)},
		{Name: "disable-client", Path: on("clients", "disable"), Roles: only(staff.Security), Tells: ToldClient,
			Fresh: true, Danger: true, Back: clients, Do: one(o.DisableClient)},
		{Name: "enable-client", Path: on("clients", "enable"), Roles: only(staff.Security), Tells: ToldClient,
			Fresh: true, Back: clients, Do: one(o.EnableClient)},
		{Name: "signout-client", Path: on("clients", "signout"), Roles: only(staff.Support, staff.Security),
			Tells: ToldClient, Danger: true, Back: clients,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.SignOutClient(ctx, by, id)
				return err
			})},
		{Name: "unlink-client", Path: on("clients", "unlink"), Roles: only(staff.Support, staff.Security),
			Tells: ToldClient, Danger: true, Back: clients, Fields: p.linkFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				_, err := o.UnlinkClient(ctx, c.By, c.Subject, c.Form.Get("application"))
				return Done{}, err
			}},
	}
}

func (p *Pages) adjustFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	list, err := p.withAvailable(ctx, tx, nil, c.Subject, c.Lang)
	return append(list, forms.Field{Name: "amount", Label: "ops.field.amount",
		Hint: "ops.field.adjust.hint", Type: "text"}), err
}

// withAvailable adds the available balance of a client's wallet, which is the most that an adjustment can take.
func (p *Pages) withAvailable(ctx context.Context, tx postgres.Tx, list []forms.Field,
	clientID, lang string,
) ([]forms.Field, error) {
	b, err := p.deps.Wallet.Balance(ctx, tx, clientID)
	return append(list, forms.Field{Label: "ops.col.available", Type: "shown", Value: b.Available.Format(lang)}), err
}

func (p *Pages) linkFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	connections, err := p.deps.OAuth.Connections(ctx, tx, c.Subject)
	f := forms.Field{Name: "application", Label: "ops.field.application", Type: "select",
		Options: []forms.Option{{Text: "ops.field.all", Key: true}}}
	for _, link := range connections {
		f.Options = append(f.Options, forms.Option{Value: link.Application.ID, Text: link.Application.Name})
	}
	return []forms.Field{f}, err
}
