package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/privacy"
)

type consultationCmd struct {
	Show   consultationShowCmd   `cmd:"" help:"Show a consultation without its texts."`
	Proof  consultationProofCmd  `cmd:"" help:"Print the evidence of the client's waiver as JSON, with instructions for verifying it."`
	Cancel consultationCancelCmd `cmd:"" help:"Cancel a consultation before its call and release the money."`
	Close  consultationCloseCmd  `cmd:"" help:"Close a consultation whose call ended without a note and release the money."`
	Refund consultationRefundCmd `cmd:"" help:"Refund a completed consultation once, in full or in part."`
}

type ofConsultation struct {
	output
	Consultation string `arg:"" help:"ID of the consultation."`
}

func (o ofConsultation) show(c consultation.Consultation, proposed money.Cents, err error) error {
	switch {
	case errors.Is(err, problem.ErrNotFound):
		return fmt.Errorf("there is no consultation %q", o.Consultation)
	case errors.Is(err, consultation.ErrReason):
		return errors.New("--why too_short is only for calls shorter than a minute")
	case errors.Is(err, operator.ErrNoAmount):
		return errors.New("set --amount-cents: the client did not declare a withdrawal during the call")
	case err != nil:
		return err
	}
	at := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.Format(stamp)
	}
	call := "none"
	if c.CallStartedAt != nil {
		call = at(c.CallStartedAt) + " to " + at(c.CallEndedAt)
	}
	if c.DurationSec != nil {
		call += fmt.Sprintf(", %d s", *c.DurationSec)
	}
	lines := []string{"id           " + c.ID, "status       " + string(c.Status), "client       " + c.ClientID,
		"application  " + c.ApplicationID, "lawyer       " + none(c.LawyerID),
		"competence   " + c.Competence + " in " + c.Language, "created      " + c.CreatedAt.Format(stamp),
		"call         " + call, "reason       " + none(string(c.EndReason)),
		"price        " + c.Price.Format("en") + ", refunded " + c.Refunded.Format("en")}
	if proposed > 0 {
		lines = append(lines, "withdrawal   declared "+
			"during the call: refund "+proposed.Format("en")+" in proportion to the time not used")
	}
	return o.print(map[string]any{"id": c.ID, "status": c.Status, "clientId": c.ClientID,
		"applicationId": c.ApplicationID, "lawyerId": c.LawyerID, "competence": c.Competence, "language": c.Language,
		"createdAt": c.CreatedAt, "callStartedAt": c.CallStartedAt, "callEndedAt": c.CallEndedAt,
		"durationSec": c.DurationSec, "endReason": c.EndReason, "priceCents": c.Price, "refundedCents": c.Refunded,
		"proposedRefundCents": proposed}, lines...)
}

type consultationShowCmd struct{ ofConsultation }

func (o *consultationShowCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		c, err := a.Consultations.Peek(ctx, a.DB.Read(), o.Consultation)
		if err != nil {
			return o.show(c, 0, err)
		}
		proposed, err := a.Consultations.ProposeRefund(ctx, a.DB.Read(), o.Consultation)
		return o.show(c, proposed, err)
	})
}

type consultationProofCmd struct {
	Consultation string `arg:"" help:"ID of the consultation."`
}

func (o *consultationProofCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		p, err := a.Consultations.ProofFor(ctx, a.DB.Read(), o.Consultation)
		if errors.Is(err, problem.ErrNotFound) {
			return fmt.Errorf("there is no consultation %q", o.Consultation)
		}
		if err != nil {
			return err
		}
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(privacy.PackOf(p))
	})
}

type consultationCancelCmd struct {
	ofConsultation
	act
}

func (o *consultationCancelCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		c, err := a.Operator.CancelConsultation(ctx, o.by(), o.Consultation)
		return o.show(c, 0, err)
	})
}

type consultationCloseCmd struct {
	ofConsultation
	act
	Why string `required:"" enum:"wrong_person,too_short,technical_fault,note_missing,withdrawn_from" help:"wrong_person, too_short (under a minute), technical_fault, note_missing or withdrawn_from (client withdrew)."`
}

func (o *consultationCloseCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		c, err := a.Operator.CloseConsultation(ctx, o.by(), o.Consultation, consultation.Reason(o.Why))
		return o.show(c, 0, err)
	})
}

type consultationRefundCmd struct {
	ofConsultation
	act
	AmountCents *int64 `help:"Cents to refund. Default, after a withdrawal during the call: the price in proportion to the time not used."`
}

func (o *consultationRefundCmd) Run(ctx context.Context, cfg *config.Config) error {
	var amount money.Cents
	if o.AmountCents != nil {
		if amount = money.Cents(*o.AmountCents); amount <= 0 || amount > consultation.Price {
			return fmt.Errorf("--amount-cents must be between 1 and %d", consultation.Price)
		}
	}
	return with(ctx, cfg, func(a *app.App) error {
		c, err := a.Operator.RefundConsultation(ctx, o.by(), o.Consultation, amount)
		return o.show(c, 0, err)
	})
}
