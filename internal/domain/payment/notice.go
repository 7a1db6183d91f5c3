package payment

import (
	"context"
	"errors"
	"fmt"

	"partnerd/internal/domain/account"
	"partnerd/internal/infra/postgres"
)

// SignatureHeader returns the HTTP header that carries the signature of a provider's notices, or "" for an unknown
// provider.
func (s *Service) SignatureHeader(provider string) string {
	if p := s.provider(provider); p != nil {
		return p.SignatureHeader()
	}
	return ""
}

// HandleNotice processes a notice: body, with the value of its [Service.SignatureHeader].
//
// It returns ErrUnknownProvider, ErrBadSignature or ErrBadNotice for a rejected notice, and stores nothing. Otherwise
// it records the notice and returns nil, whatever the outcome, so that the provider stops sending it. Irrelevant kinds
// and [ErrForeignNotice] are not recorded. A repeated notice changes nothing. A notice that does not match is logged as
// an error and recorded as an incident. After any other error the provider must send the notice again.
func (s *Service) HandleNotice(ctx context.Context, provider string, body []byte, signature string) error {
	p := s.provider(provider)
	if p == nil {
		return ErrUnknownProvider
	}
	if len(body) > maxNotice {
		return fmt.Errorf("%w: longer than %d bytes", ErrBadNotice, maxNotice)
	}
	n, acted, err := p.ReadNotice(body, signature, s.db.Clock().Now())
	if errors.Is(err, ErrForeignNotice) {
		s.foreign.Add(1)
		s.log.WarnContext(ctx, "payment notice is ignored", "provider", provider, "notice", n.ID, "kind", n.Type,
			"error", err)
		return nil
	}
	if err != nil {
		return err
	}
	if !acted {
		s.log.InfoContext(ctx, "payment notice is of no concern", "provider", provider, "notice", n.ID, "kind", n.Type)
		return nil
	}
	if err := n.check(); err != nil {
		return err
	}
	var outcome Outcome
	var fresh bool
	err = s.db.InTx(ctx, func(tx postgres.Tx) error {
		if n.Reversal != nil {
			outcome, fresh, err = s.reverse(ctx, tx, provider, &n)
		} else {
			outcome, fresh, err = s.apply(ctx, tx, provider, n)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("handle payment notice: %w", err)
	}
	if fresh && outcome.Incident() {
		s.log.ErrorContext(ctx, "payment incident", "outcome", outcome, "provider", provider, "notice", n.ID,
			"session", n.SessionID, "payment", n.PaymentRef, "amountCents", n.AmountCents, "currency", n.Currency)
	}
	return nil
}

// apply locks the session, so that notices about it queue, and applies n unless it was already handled. It then locks
// the client. A concurrent erasure is either seen here, or comes later and sees the money.
func (s *Service) apply(ctx context.Context, tx postgres.Tx, provider string,
	n Notice,
) (outcome Outcome, fresh bool, err error) {
	if err := lockPayment(ctx, tx, provider, n.PaymentRef); err != nil {
		return "", false, err
	}
	session, err := lockSession(ctx, tx, "id = ? AND provider = ?", n.SessionID, provider)
	if err != nil {
		return "", false, err
	}
	outcome = decide(n, session)
	if outcome.credits() {
		closed, err := account.Closed(ctx, tx, session.ClientID)
		if err != nil {
			return "", false, err
		}
		if closed {
			outcome = CreditedToClosed
		}
	}
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
		session.PaymentRef = n.PaymentRef
		err = s.credit(ctx, tx, *session, outcome)
	}
	return outcome, true, err
}

// credit credits a paid session to the wallet. It then takes out what earlier notices of disputes or refunds require.
// If the client's account is closed, it refunds the rest to its source.
func (s *Service) credit(ctx context.Context, tx postgres.Tx, session Session, o Outcome) error {
	if err := endSession(ctx, tx, session.ID, Paid, session.PaymentRef); err != nil {
		return err
	}
	if err := s.wallet.TopUp(ctx, tx, session.ClientID, session.ApplicationID, session.ID, session.Amount); err != nil {
		return err
	}
	if s.cfg.ToppedUp != nil && o != CreditedToClosed {
		if err := s.cfg.ToppedUp(ctx, tx, session.ClientID); err != nil {
			return err
		}
	}
	reversed, err := s.settle(ctx, tx, session)
	if err != nil || o != CreditedToClosed || reversed.Taken >= session.Amount {
		return err
	}
	_, err = s.queueRefunds(ctx, tx, RefundCommand{ClientID: session.ClientID, Actor: "partnerd",
		Reason: "Paid into an account that is closed."},
		[]RefundPart{{TopUpID: session.ID, Amount: session.Amount - reversed.Taken}})
	return err
}
