package sandbox

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/payment"
	"partnerd/internal/postgres"
)

type dueNotice struct {
	ID       string
	Body     []byte
	Attempts int // with this one
}

func readDecision(ctx context.Context, tx postgres.Tx, sessionID string) (kind payment.Kind, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT kind FROM sandbox_payment_notices WHERE session_id = ?`, sessionID).Scan(&kind).Error
	return kind, err
}

// insertDecision tells whether this is the first decision. Another one under way is waited for.
func insertDecision(ctx context.Context, tx postgres.Tx, n payment.Notice, body []byte) (bool, error) {
	res := tx.Gorm(ctx).Exec(`INSERT INTO sandbox_payment_notices (id, session_id, kind, body, due_at)
		VALUES (?, ?, ?, ?, ?) ON CONFLICT (session_id) DO NOTHING`, n.ID, n.SessionID, n.Type, body, tx.Now)
	return res.RowsAffected == 1, res.Error
}

// claimNotices takes due notices for one attempt each. They are due again after the lease, should this process die.
func claimNotices(ctx context.Context, tx postgres.Tx, limit int, lease time.Duration) ([]dueNotice, error) {
	var due []dueNotice
	err := tx.Gorm(ctx).Raw(`UPDATE sandbox_payment_notices SET attempts = attempts + 1, due_at = ?
		WHERE id IN (SELECT id FROM sandbox_payment_notices WHERE delivered_at IS NULL AND due_at <= ?
			ORDER BY due_at LIMIT ? FOR UPDATE SKIP LOCKED)
		RETURNING id, body, attempts`, tx.Now.Add(lease), tx.Now, limit).Scan(&due).Error
	return due, err
}

func postponeNotice(ctx context.Context, tx postgres.Tx, noticeID string, d time.Duration) error {
	err := tx.Gorm(ctx).Exec(`UPDATE sandbox_payment_notices SET due_at = ? WHERE id = ? AND delivered_at IS NULL`, tx.Now.Add(d), noticeID).Error
	if err != nil {
		return fmt.Errorf("postpone notice: %w", err)
	}
	return nil
}

func settleNotice(ctx context.Context, tx postgres.Tx, noticeID string) error {
	err := tx.Gorm(ctx).Exec(`UPDATE sandbox_payment_notices SET delivered_at = ? WHERE id = ? AND delivered_at IS NULL`, tx.Now, noticeID).Error
	if err != nil {
		return fmt.Errorf("settle notice: %w", err)
	}
	return nil
}
