package payment

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/money"
	"partnerd/internal/postgres"
)

// lockPayment lets notices about one payment queue, also before it is known which session it pays. Notices without a
// payment pass.
func lockPayment(ctx context.Context, tx postgres.Tx, provider, paymentRef string) error {
	if paymentRef == "" {
		return nil
	}
	err := tx.Gorm(ctx).Exec(`SELECT pg_advisory_xact_lock(hashtextextended('payment ' || ? || ' ' || ?, 0))`, provider, paymentRef).Error
	if err != nil {
		return fmt.Errorf("lock payment: %w", err)
	}
	return nil
}

// lockPaidBy returns nil when no session was paid by that payment.
func lockPaidBy(ctx context.Context, tx postgres.Tx, provider, paymentRef string) (*Session, error) {
	var row sessionRow
	err := tx.Gorm(ctx).Raw(`SELECT `+sessionColumns+` FROM topup_sessions WHERE provider = ? AND payment_ref = ? AND status = 'PAID' FOR NO KEY UPDATE`,
		provider, paymentRef).Take(&row).Error
	if postgres.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := row.session(tx.Now)
	return &s, nil
}

// keepReversal adds to what is known of the object.
func keepReversal(ctx context.Context, tx postgres.Tx, provider string, n Notice, amount money.Cents) error {
	kind := map[Kind]reversalKind{PaymentDisputed: reversalDispute, PaymentRefunded: reversalRefund, PaymentRefundSum: reversalRefunded}[n.Type]
	return tx.Gorm(ctx).Exec(`INSERT INTO payment_reversals AS r (provider, ref, payment_ref, kind, amount_cents, gone, back)
		VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (provider, ref) DO UPDATE SET amount_cents = greatest(r.amount_cents, excluded.amount_cents),
			gone = r.gone OR excluded.gone, back = r.back OR excluded.back`,
		provider, n.Reversal.Ref, n.PaymentRef, kind, amount, n.Reversal.Gone, n.Reversal.Back).Error
}

func reversalsOf(ctx context.Context, tx postgres.Tx, provider, paymentRef string) ([]reversal, error) {
	var all []reversal
	err := tx.Gorm(ctx).Raw(`SELECT kind, amount_cents AS amount, gone, back FROM payment_reversals WHERE provider = ? AND payment_ref = ?`,
		provider, paymentRef).Scan(&all).Error
	return all, err
}

func updateReversed(ctx context.Context, tx postgres.Tx, sessionID string, r Reversed) error {
	return tx.Gorm(ctx).Exec(`UPDATE topup_sessions SET reversed_cents = ?, uncovered_cents = ? WHERE id = ?`, r.Taken, r.Uncovered, sessionID).Error
}

// isOurRefund finds one by our identifier, or by the provider's where that has lost ours.
func isOurRefund(ctx context.Context, tx postgres.Tx, sessionID, refundID, ref string) (ours bool, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT EXISTS (SELECT FROM topup_refunds WHERE topup_id = ? AND (id = ? OR provider_ref = ?))`,
		sessionID, refundID, ref).Row().Scan(&ours)
	return ours, err
}

func refundedBefore(ctx context.Context, tx postgres.Tx, sessionID string, before time.Time) (money.Cents, error) {
	var cents int64
	err := tx.Gorm(ctx).Raw(`SELECT coalesce(sum(amount_cents), 0)::bigint FROM topup_refunds WHERE topup_id = ? AND created_at <= ?`,
		sessionID, before).Row().Scan(&cents)
	return money.Cents(cents), err
}

// failRefund ends a refund of ours that the provider had taken on, and that came to nothing.
func failRefund(ctx context.Context, tx postgres.Tx, sessionID, refundID, ref string) error {
	err := tx.Gorm(ctx).Exec(`UPDATE topup_refunds SET state = 'FAILED', ended_at = ?, provider_ref = ?, last_error = 'it came to nothing at the provider'
		WHERE topup_id = ? AND (id = ? OR provider_ref = ?)`, tx.Now, ref, sessionID, refundID, ref).Error
	if err != nil {
		return fmt.Errorf("end refund: %w", err)
	}
	return nil
}

type incidentCount struct {
	Outcome Outcome
	Count   int64
}

func countIncidents(ctx context.Context, tx postgres.Tx) (counts []incidentCount, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT outcome, count(*) AS count FROM payment_notices WHERE outcome IN ? GROUP BY outcome`, incidentOutcomes).Scan(&counts).Error
	return counts, err
}
