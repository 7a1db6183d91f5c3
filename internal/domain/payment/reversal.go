package payment

import (
	"context"
	"fmt"

	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
)

// Reversed is what became of the money of a session that its provider took back, by a dispute or a refund that we did
// not ask for. Their sum is what the provider took.
type Reversed struct {
	Taken     money.Cents `gorm:"column:reversed_cents"`  // out of the wallet
	Uncovered money.Cents `gorm:"column:uncovered_cents"` // the wallet did not have it, or not of this payment
}

type reversalKind string

const (
	reversalDispute  reversalKind = "DISPUTE"
	reversalRefund   reversalKind = "REFUND"
	reversalRefunded reversalKind = "REFUNDED" // in all, without ours
)

// due is what the provider keeps of a payment. A refund is told by itself and in the sum of its charge: it counts once,
// and what is told in one of the two ways alone counts, too.
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

// settled is r when the provider keeps due: more than before is taken from what is available, and what was taken for
// more than that is given back. A wallet that could not cover a reversal is not asked again for the same one. It never
// gives more than most, which is what it has of the payment: the provider may tell of more, as a dispute of what we
// refunded.
func (r Reversed) settled(due, available, most money.Cents) Reversed {
	if due > r.Taken+r.Uncovered {
		r.Taken += min(due-r.Taken, available)
	}
	r.Taken = min(r.Taken, due, most)
	return Reversed{Taken: r.Taken, Uncovered: due - r.Taken}
}

// decideReversal says what a notice of a dispute or refund means; session is nil when no credited payment is known by
// its name, ours is whether we asked for the refund, foreign what remains of the amount without our refunds.
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

// reverse locks the payment, so that notices about it queue, keeps what n says of it unless n was handled before, and
// takes out of the wallet what the provider has taken from us. It names the session in n. A payment that is not known
// is kept for its credit to come.
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
		if ours, foreign, err = s.withoutOurs(ctx, tx, *session, *n); err != nil {
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
	default: // money is gone, or back
	}
	if err := keepReversal(ctx, tx, provider, *n, foreign); err != nil {
		return "", false, fmt.Errorf("keep reversal: %w", err)
	}
	if session != nil {
		_, err = s.settle(ctx, tx, *session)
	}
	return outcome, true, err
}

// withoutOurs tells whether n is about a refund of ours, and what is left of its amount without them. The sum of a
// charge holds ours that were asked for before it was told; by the clocks of two, a little later counts as before:
// rather does a refund made at the provider at the same moment as ours show in the books than that a client pays twice.
func (s *Service) withoutOurs(ctx context.Context, tx postgres.Tx, session Session,
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

// settle brings what the wallet gave for a session to what its disputes and refunds ask for. The session is locked, so
// that refunds of ours come before or after it.
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
