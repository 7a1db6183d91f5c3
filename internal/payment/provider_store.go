package payment

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/clock"
	"partnerd/internal/money"
	"partnerd/internal/postgres"
)

// openSession marks, once, that the client is about to pay: the sandbox is told to take the money, or a provider is being
// asked for its session. It returns the address of its page if it has answered, and keeps the row locked.
func openSession(ctx context.Context, tx postgres.Tx, sessionID string) (url string, openedAt time.Time, err error) {
	var row struct {
		ProviderURL *string
		OpenedAt    time.Time
	}
	err = tx.Gorm(ctx).Raw(`UPDATE topup_sessions SET opened_at = coalesce(opened_at, ?) WHERE id = ? RETURNING provider_url, opened_at`,
		tx.Now, sessionID).Take(&row).Error
	if err != nil {
		return "", time.Time{}, fmt.Errorf("open checkout: %w", err)
	}
	return orEmpty(row.ProviderURL), clock.Truncate(row.OpenedAt), nil
}

// reopenSession forgets an attempt that the provider refused, unless another visit has done so.
func reopenSession(ctx context.Context, tx postgres.Tx, sessionID string, openedAt time.Time) error {
	return tx.Gorm(ctx).Exec(`UPDATE topup_sessions SET opened_at = NULL WHERE id = ? AND opened_at = ? AND provider_ref IS NULL`, sessionID, openedAt).Error
}

// mayBePaid is whether a session s that is not decided may still turn out to be paid: before its hour is over, as long as
// the provider's page lets it be paid, and when the money is on its way. What the sandbox was told to take is.
const mayBePaid = `(s.status = 'OPEN' AND (s.expires_at > ? OR s.opened_at > ? OR s.opened_at IS NOT NULL AND s.provider = '` + SandboxProvider + `'
	OR EXISTS (SELECT FROM payment_notices n WHERE n.topup_id = s.id AND n.outcome = 'pending')))`

// underWay tells whether one of the client's sessions may still be paid, or a refund has not reached its source.
func underWay(ctx context.Context, tx postgres.Tx, clientID string) (some bool, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT EXISTS (SELECT FROM topup_sessions s WHERE s.client_id = ? AND `+mayBePaid+`)
		OR EXISTS (SELECT FROM topup_refunds WHERE client_id = ? AND state = 'PENDING')`,
		clientID, tx.Now, tx.Now.Add(-shortestCheckout), clientID).Row().Scan(&some)
	return some, err
}

// begunElsewhere sums the client's other sessions that were begun and may still turn out to be paid.
func begunElsewhere(ctx context.Context, tx postgres.Tx, session Session) (money.Cents, error) {
	var cents int64
	err := tx.Gorm(ctx).Raw(`SELECT coalesce(sum(s.amount_cents), 0)::bigint FROM topup_sessions s
		WHERE s.client_id = ? AND s.id <> ? AND s.opened_at IS NOT NULL AND `+mayBePaid,
		session.ClientID, session.ID, tx.Now, tx.Now.Add(-shortestCheckout)).Row().Scan(&cents)
	return money.Cents(cents), err
}

func storeCheckout(ctx context.Context, tx postgres.Tx, sessionID string, c Checkout) error {
	return tx.Gorm(ctx).Exec(`UPDATE topup_sessions SET provider_ref = ?, provider_url = ? WHERE id = ? AND provider_ref IS NULL`, c.Ref, c.URL, sessionID).Error
}

// cancelOpenSession leaves a session alone that a notice has decided meanwhile.
func cancelOpenSession(ctx context.Context, tx postgres.Tx, sessionID string) error {
	err := tx.Gorm(ctx).Exec(`UPDATE topup_sessions SET status = 'CANCELLED', ended_at = ? WHERE id = ? AND status = 'OPEN'`, tx.Now, sessionID).Error
	if err != nil {
		return fmt.Errorf("cancel checkout: %w", err)
	}
	return nil
}

func isPending(ctx context.Context, tx postgres.Tx, sessionID string) (bool, error) {
	var pending bool
	err := tx.Gorm(ctx).Raw(`SELECT EXISTS (SELECT FROM payment_notices n JOIN topup_sessions s ON s.id = n.topup_id
		WHERE n.topup_id = ? AND n.outcome = 'pending' AND s.status = 'OPEN')`, sessionID).Scan(&pending).Error
	return pending, err
}

// lockPaid returns the client's paid sessions, the last paid first, locked so that refunds of one client queue. Two
// statements: the second must see what the first one waited for.
func lockPaid(ctx context.Context, tx postgres.Tx, clientID string) ([]topUp, error) {
	err := tx.Gorm(ctx).Exec(`SELECT 1 FROM (SELECT id FROM topup_sessions WHERE client_id = ? AND status = 'PAID' ORDER BY id FOR NO KEY UPDATE) locked`, clientID).Error
	if err != nil {
		return nil, err
	}
	var rows []struct {
		ID               string
		Amount, Refunded int64
		PaidAt           time.Time
	}
	err = tx.Gorm(ctx).Raw(`SELECT s.id, s.amount_cents AS amount, s.ended_at AS paid_at,
			s.reversed_cents + s.uncovered_cents + (SELECT coalesce(sum(r.amount_cents), 0)::bigint FROM topup_refunds r WHERE r.topup_id = s.id) AS refunded
		FROM topup_sessions s WHERE s.client_id = ? AND s.status = 'PAID' ORDER BY s.ended_at DESC, s.id DESC`, clientID).Scan(&rows).Error
	list := make([]topUp, len(rows))
	for i, r := range rows {
		list[i] = topUp{ID: r.ID, Amount: money.Cents(r.Amount), Refunded: money.Cents(r.Refunded), PaidAt: r.PaidAt}
	}
	return list, err
}

func insertRefund(ctx context.Context, tx postgres.Tx, c RefundCommand, p RefundPart) error {
	return tx.Gorm(ctx).Exec(`INSERT INTO topup_refunds (id, topup_id, client_id, amount_cents, state, reason, next_at, created_at)
		VALUES (?, ?, ?, ?, 'PENDING', ?, ?, ?)`, p.ID, p.TopUpID, c.ClientID, p.Amount, c.Reason, tx.Now, tx.Now).Error
}

type dueRefund struct {
	ID, TopUpID, Provider, PaymentRef string
	AmountCents                       int64
	Attempts                          int
}

// claimRefunds counts an attempt for each due refund and keeps others off it for a while.
func claimRefunds(ctx context.Context, tx postgres.Tx, limit int, lease time.Duration) ([]dueRefund, error) {
	var due []dueRefund
	err := tx.Gorm(ctx).Raw(`UPDATE topup_refunds r SET attempts = r.attempts + 1, next_at = ?
		FROM topup_sessions s
		WHERE s.id = r.topup_id AND r.id IN (SELECT id FROM topup_refunds WHERE state = 'PENDING' AND next_at <= ? ORDER BY next_at LIMIT ? FOR UPDATE SKIP LOCKED)
		RETURNING r.id, r.topup_id AS top_up_id, r.amount_cents, r.attempts, s.provider, coalesce(s.payment_ref, '') AS payment_ref`,
		tx.Now.Add(lease), tx.Now, limit).Scan(&due).Error
	return due, err
}

func postponeRefund(ctx context.Context, tx postgres.Tx, refundID, why string, pause time.Duration) error {
	err := tx.Gorm(ctx).Exec(`UPDATE topup_refunds SET next_at = ?, last_error = ? WHERE id = ? AND state = 'PENDING'`, tx.Now.Add(pause), why, refundID).Error
	if err != nil {
		return fmt.Errorf("postpone refund: %w", err)
	}
	return nil
}

func endRefund(ctx context.Context, tx postgres.Tx, refundID, state, ref, why string) error {
	err := tx.Gorm(ctx).Exec(`UPDATE topup_refunds SET state = ?, provider_ref = nullif(?, ''), last_error = nullif(?, ''), ended_at = ?
		WHERE id = ? AND state = 'PENDING'`, state, ref, why, tx.Now, refundID).Error
	if err != nil {
		return fmt.Errorf("end refund: %w", err)
	}
	return nil
}

func incidents(ctx context.Context, tx postgres.Tx, limit int) ([]Incident, error) {
	var list []Incident
	err := tx.Gorm(ctx).Raw(`SELECT n.provider, n.notice_id, n.topup_id AS session_id, n.payment_ref, n.amount_cents AS amount, n.currency, n.outcome,
			coalesce(s.reversed_cents, 0) AS taken, coalesce(s.uncovered_cents, 0) AS uncovered, n.received_at
		FROM payment_notices n LEFT JOIN topup_sessions s ON s.id = n.topup_id
		WHERE n.outcome IN ? ORDER BY n.received_at DESC LIMIT ?`, incidentOutcomes, limit).Scan(&list).Error
	return list, err
}

func openRefunds(ctx context.Context, tx postgres.Tx, limit int) ([]RefundState, error) {
	var list []RefundState
	err := tx.Gorm(ctx).Raw(`SELECT id, topup_id AS top_up_id, amount_cents AS amount, state, attempts, coalesce(last_error, '') AS last_error, created_at
		FROM topup_refunds WHERE state <> 'SENT' ORDER BY created_at DESC LIMIT ?`, limit).Scan(&list).Error
	return list, err
}
