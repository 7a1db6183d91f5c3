package operators

import (
	"context"
	"strings"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// consultationActs lists the actions on consultations and on proposals to move money.
func (p *Pages) consultationActs() []Act {
	o := p.deps.Operator
	consultations := backToSubject("consultations")
	return []Act{
		{Name: "cancel", Path: on("consultations", "cancel"), Roles: only(staff.Support), Tells: toldByEvent,
			Danger: true, Back: consultations,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.CancelConsultation(ctx, by, id)
				return err
			})},
		{Name: "assign", Path: on("consultations", "assign"), Roles: only(staff.Support),
			Tells: "no one: the lawyer sees the offer at the desk", Back: consultations,
			Fields: forms.Fixed[Call](forms.Field{Name: "lawyer", Label: "ops.field.lawyer",
				Hint: "ops.field.lawyer.hint", Type: "text"}),
			Do: func(ctx context.Context, c Call) (Done, error) {
				chosen := strings.TrimSpace(c.Form.Get("lawyer"))
				if !shell.Identifier.MatchString(chosen) {
					return Done{}, lawyer.ErrNotFound
				}
				return Done{}, o.AssignByHand(ctx, c.By, c.Subject, chosen)
			}},
		{Name: "close", Path: on("consultations", "close"), Roles: only(staff.Support), Tells: toldByEvent, Fresh: true,
			Danger: true, Back: consultations, Fields: forms.Fixed[Call](CloseReasons()),
			Do: func(ctx context.Context, c Call) (Done, error) {
				proposal, err := o.Close(ctx, c.By, c.Subject, consultation.Reason(c.Form.Get("why")))
				return proposed(proposal, Path("consultations", c.Subject)), err
			}},
		{Name: "refund", Path: on("consultations", "refund"), Roles: operator.Proposers(operator.Refund),
			Tells: toldByEvent, Fresh: true, Danger: true, Back: consultations, Fields: p.refundFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				cents, err := forms.Amount(c.Form, "amount", true)
				if err == nil && cents < 0 {
					err = forms.RefuseInput(forms.RuleAmount, "amount", problem.Shown(c.Form.Get("amount")))
				}
				if err != nil {
					return Done{}, err
				}
				proposal, err := o.GiveBack(ctx, c.By, c.Subject, cents)
				return proposed(proposal, Path("consultations", c.Subject)), err
			}},
		{Name: "correct", Path: on("consultations", "correct"), Roles: only(staff.Support), Tells: ToldLawyer,
			Back: consultations, Do: one(o.AskForCorrection)},
		{Name: "confirm", Path: on("proposals", "confirm"), Roles: only(staff.Finance),
			Tells: "no one: as for the proposed action; for an adjustment, the client", Fresh: true, Danger: true,
			Back: func(string) string { return shell.OperatorDesk }, Fields: p.proposalFields,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.Confirm(ctx, by, id)
				return err
			})},
		{Name: "refuse", Path: on("proposals", "refuse"), Roles: only(staff.Finance), Tells: "no one: nothing changed",
			Back: func(string) string { return shell.OperatorDesk }, Fields: p.proposalFields,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.Refuse(ctx, by, id)
				return err
			})},
	}
}

// CloseReasons is the field for the reason to close a consultation without a note.
func CloseReasons() forms.Field {
	f := forms.Field{Name: "why", Label: "ops.field.why", Type: "select"}
	for _, r := range []consultation.Reason{
		consultation.WrongPerson, consultation.TooShort, consultation.TechnicalFault, consultation.NoteMissing,
		consultation.WithdrawnFrom,
	} {
		f.Options = append(f.Options, forms.Option{Value: string(r), Text: "ops.why." + string(r), Key: true})
	}
	return f
}

func (p *Pages) refundFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	got, err := p.deps.Consultations.Peek(ctx, tx, c.Subject)
	if err != nil {
		return nil, err
	}
	cents, err := p.deps.Consultations.ProposeRefund(ctx, tx, c.Subject)
	if cents == 0 {
		cents = got.Price
	}
	return []forms.Field{{Name: "amount", Label: "ops.field.amount", Hint: "ops.field.refund.hint", Type: "text",
		Value: AmountInput(cents, c.Lang), Optional: true}}, err
}

// proposalFields shows the proposal and who made it.
func (p *Pages) proposalFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	got, err := p.deps.Operator.Proposal(ctx, tx, c.Subject)
	if err != nil {
		return nil, err
	}
	by, err := p.deps.Staff.Get(ctx, tx, got.By)
	if err != nil {
		return nil, err
	}
	list := []forms.Field{
		{Label: "ops.col.kind", Type: "shown", Options: []forms.Option{{Text: KindKey(got)}}},
		{Label: "ops.col.subject", Type: "shown", Value: got.Subject},
		{Label: "ops.col.amount", Type: "shown", Value: got.Amount.Format(c.Lang)},
		{Label: "ops.col.by", Type: "shown", Value: by.Name},
		{Label: "ops.proposed.reason", Type: "shown", Value: got.Reason},
	}
	if got.Kind == operator.Adjustment {
		list, err = p.withAvailable(ctx, tx, list, got.Subject, c.Lang)
	}
	return list, err
}

// KindKey returns the text key of what a proposal does.
func KindKey(p operator.Proposal) string {
	if p.Close != "" {
		return "ops.kind.CLOSURE"
	}
	return "ops.kind." + string(p.Kind)
}
