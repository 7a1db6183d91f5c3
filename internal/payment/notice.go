package payment

import (
	"context"
	"fmt"

	"partnerd/internal/postgres"
)

// SignatureHeader returns the HTTP header with the signature of a provider's notices; empty for an unknown provider.
func (s *Service) SignatureHeader(provider string) string {
	if p := s.provider(provider); p != nil {
		return p.SignatureHeader()
	}
	return ""
}

// HandleNotice acts on what a provider posted: body, with the value of its [Service.SignatureHeader]. ErrUnknownProvider,
// ErrBadSignature and ErrBadNotice refuse it and leave nothing behind. Otherwise it is recorded (unless it is of a kind
// that does not concern us) and nil returned, so that the provider stops sending it, whatever came of it: a repeated one
// changes nothing, one that does not fit is logged as an error and kept as an incident. Any other error means: send it
// again.
func (s *Service) HandleNotice(ctx context.Context, db *postgres.DB, provider string, body []byte, signature string) error {
	p := s.provider(provider)
	if p == nil {
		return ErrUnknownProvider
	}
	if len(body) > maxNotice {
		return fmt.Errorf("%w: longer than %d bytes", ErrBadNotice, maxNotice)
	}
	n, acted, err := p.ReadNotice(body, signature, db.Clock().Now())
	if err != nil || !acted {
		return err
	}
	if err := n.check(); err != nil {
		return err
	}
	var outcome Outcome
	var fresh bool
	err = db.InTx(ctx, func(tx postgres.Tx) error {
		outcome, fresh, err = s.apply(ctx, tx, provider, n)
		return err
	})
	if err != nil {
		return fmt.Errorf("handle payment notice: %w", err)
	}
	if fresh && outcome.Incident() {
		s.cfg.Logger.ErrorContext(ctx, "payment notice does not fit", "outcome", outcome, "provider", provider, "notice", n.ID,
			"session", n.SessionID, "amountCents", n.AmountCents, "currency", n.Currency)
	}
	return nil
}

// apply locks the session, so that notices about it queue, and does what n means for it unless n was handled before.
func (s *Service) apply(ctx context.Context, tx postgres.Tx, provider string, n Notice) (outcome Outcome, fresh bool, err error) {
	session, err := lockSession(ctx, tx, provider, n.SessionID)
	if err != nil {
		return "", false, fmt.Errorf("lock top-up session: %w", err)
	}
	outcome = decide(n, session)
	fresh, err = insertNotice(ctx, tx, provider, n, outcome)
	if err != nil {
		return "", false, fmt.Errorf("record notice: %w", err)
	}
	switch {
	case !fresh:
		return outcome, false, nil
	case outcome == Closed:
		err = endSession(ctx, tx, session.ID, Cancelled, "")
	case outcome.credits():
		if err = endSession(ctx, tx, session.ID, Paid, n.PaymentRef); err == nil {
			err = s.wallet.TopUp(ctx, tx, session.ClientID, session.ApplicationID, session.ID, session.Amount)
		}
	}
	return outcome, true, err
}
