package payment

import (
	"context"
	"fmt"

	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
)

// Reversed says what happened to a session's money that its provider took back, by a dispute or a refund that we did
// not request. The sum of its fields is what the provider took.
type Reversed struct {
	Taken     money.Cents `gorm:"column:reversed_cents"`  // taken out of the wallet
	Uncovered money.Cents `gorm:"column:uncovered_cents"` // not in the wallet, or not from this payment
}

type reversalKind string

const (
	reversalDispute  reversalKind = "DISPUTE"
	reversalRefund   reversalKind = "REFUND"
	reversalRefunded reversalKind = "REFUNDED" // total refunded, without ours
)

// due returns what the provider keeps of a payment. A refund is reported by itself and in the total of its charge. It
// counts once, also if only one of the two reports it.
func due(all []reversalRow) money.Cents {
	var disputed, each, failed, sum money.Cents
	for _, r := range all {
		switch {
		case r.Kind == reversalRefunded:
			sum += r.AmountCents
		case r.Kind == reversalRefund && r.Back:
			failed += r.AmountCents
		case !r.Gone || r.Back:
		case r.Kind == reversalDispute:
			disputed += r.AmountCents
		default:
			each += r.AmountCents
		}
	}
	return disputed + max(each, sum-failed)
}

// settled returns r after the provider keeps due. If due grew, the increase is taken from available. If due is less
// than was taken, the difference is returned.
//
// A wallet that could not cover a reversal is not charged again for the same reversal. It never gives more than most,
// which is what it has of the payment. The provider may report more, such as a dispute of what we refunded.
func (r Reversed) settled(due, available, most money.Cents) Reversed {
	if due > r.Taken+r.Uncovered {
		r.Taken += min(due-r.Taken, available)
	}
	r.Taken = min(r.Taken, due, most)
	return Reversed{Taken: r.Taken, Uncovered: due - r.Taken}
}

// decideReversal returns the outcome of a notice about a dispute or refund. session is nil if no credited payment has
// that reference. ours says whether we requested the refund. foreign is the amount without our refunds.
func decideReversal(n Notice, session *Session, ours bool, foreign money.Cents) Outcome {
	switch {
	case n.Currency != money.Currency:
		return CurrencyMismatch
	case session == nil:
		return UnknownPayment
	case ours && n.Reversal.Back:
		return RefundFailed
	case ours || foreign == 0:
		return RefundConfirmed
	case n.Type == PaymentDisputed:
		return Disputed
	}
	return RefundedAtProvider
}

// reverse locks the payment, so that notices about it queue, and records n unless it was already recorded. It takes out
// of the wallet what the provider took from us, and sets the session in n. For an unknown payment it stores the
// reversal until the payment is credited.
func (s *Service) reverse(ctx context.Context, tx postgres.Tx, provider string,
	n *Notice,
) (outcome Outcome, fresh bool, err error) {
	if err := lockPayment(ctx, tx, provider, n.PaymentRef); err != nil {
		return "", false, err
	}
	session, err := lockSession(ctx, tx, "provider = ? AND payment_ref = ? AND status = ?", provider,
		n.PaymentRef, Paid)
	if err != nil {
		return "", false, err
	}
	ours, foreign := false, n.AmountCents
	if session != nil {
		n.SessionID = session.ID
		if ours, foreign, err = s.withoutOurRefunds(ctx, tx, *session, *n); err != nil {
			return "", false, fmt.Errorf("read refunds: %w", err)
		}
	}
	outcome = decideReversal(*n, session, ours, foreign)
	fresh, err = insertNotice(ctx, tx, provider, *n, outcome)
	if err != nil || !fresh {
		return outcome, false, err
	}
	switch outcome {
	case RefundFailed:
		return outcome, true, failRefund(ctx, tx, session.ID, n.Reversal.RefundID, n.Reversal.Ref)
	case RefundConfirmed, CurrencyMismatch:
		return outcome, true, nil
	default: // money was taken or returned
	}
	if err := keepReversal(ctx, tx, provider, *n, foreign); err != nil {
		return "", false, fmt.Errorf("keep reversal: %w", err)
	}
	if session != nil {
		_, err = s.settle(ctx, tx, *session)
	}
	return outcome, true, err
}

// withoutOurRefunds reports whether n is about a refund of ours, and returns its amount without our refunds.
//
// The total of a charge includes our refunds requested before the notice. Because two clocks differ, a refund requested
// slightly later counts as before. A refund made at the provider at the same time as ours may then show up in the
// ledger check. That is better than charging a client twice.
func (s *Service) withoutOurRefunds(ctx context.Context, tx postgres.Tx, session Session,
	n Notice,
) (ours bool, foreign money.Cents, err error) {
	switch n.Type {
	case PaymentRefunded:
		ours, err = isOurRefund(ctx, tx, session.ID, n.Reversal.RefundID, n.Reversal.Ref)
	case PaymentRefundSum:
		var sum money.Cents
		sum, err = refundedBefore(ctx, tx, session.ID, n.CreatedAt.Add(tolerance))
		return false, max(n.AmountCents-sum, 0), err
	default: // a dispute is never ours
	}
	return ours, n.AmountCents, err
}

// settle adjusts what the wallet gave for a session to its disputes and refunds. The caller has locked the session, so
// our refunds come before or after.
func (s *Service) settle(ctx context.Context, tx postgres.Tx, session Session) (Reversed, error) {
	if session.PaymentRef == "" {
		return session.Reversed, nil
	}
	all, err := reversalsOf(ctx, tx, session.Provider, session.PaymentRef)
	if err != nil {
		return Reversed{}, fmt.Errorf("read reversals: %w", err)
	}
	held, err := s.wallet.Lock(ctx, tx, session.ClientID)
	if err != nil {
		return Reversed{}, err
	}
	ours, err := refundedInAll(ctx, tx, session.ID)
	if err != nil {
		return Reversed{}, fmt.Errorf("read refunds: %w", err)
	}
	next := session.Reversed.settled(due(all), held.Available, session.Amount-ours)
	if next == session.Reversed {
		return next, nil
	}
	if change := session.Reversed.Taken - next.Taken; change != 0 {
		if err := s.wallet.Reverse(ctx, tx, session.ClientID, session.ID, change); err != nil {
			return Reversed{}, err
		}
	}
	if err := updateReversed(ctx, tx, session.ID, next); err != nil {
		return Reversed{}, fmt.Errorf("record reversal: %w", err)
	}
	return next, nil
}
