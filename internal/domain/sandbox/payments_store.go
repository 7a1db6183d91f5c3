package sandbox

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/domain/payment"
	"partnerd/internal/infra/postgres"
)

// noticeRow is a row of sandbox_payment_notices: a client's decision about a checkout and its notice.
type noticeRow struct {
	ID          string       `gorm:"column:id;primaryKey"`
	SessionID   string       `gorm:"column:session_id"`
	Kind        payment.Kind `gorm:"column:kind"`
	Body        []byte       `gorm:"column:body"`
	DueAt       time.Time    `gorm:"column:due_at"`
	Attempts    int          `gorm:"column:attempts"`
	DeliveredAt *time.Time   `gorm:"column:delivered_at"`
}

// TableName implements [schema.Tabler].
func (noticeRow) TableName() string { return "sandbox_payment_notices" }

// readDecision returns "" if there is no decision yet.
func readDecision(ctx context.Context, tx postgres.Tx, sessionID string) (payment.Kind, error) {
	r, err := gorm.G[noticeRow](tx.Gorm(ctx)).Select("kind").Where("session_id = ?", sessionID).Take(ctx)
	if postgres.IsNotFound(err) {
		return "", nil
	}
	return r.Kind, err
}

// insertDecision stores a decision and reports whether it is the first. It waits for a concurrent one.
func insertDecision(ctx context.Context, tx postgres.Tx, n payment.Notice, body []byte,
	after time.Duration,
) (bool, error) {
	inserted := gorm.WithResult()
	err := gorm.G[noticeRow](tx.Gorm(ctx), clause.OnConflict{Columns: []clause.Column{{Name: "session_id"}},
		DoNothing: true}, inserted).
		Create(ctx, &noticeRow{ID: n.ID, SessionID: n.SessionID, Kind: n.Type, Body: body, DueAt: tx.Now.Add(after)})
	return err == nil && inserted.RowsAffected == 1, err
}

var claimNoticesSQL = postgres.SQL(postgres.Claim,
	`UPDATE sandbox_payment_notices n SET attempts = attempts + 1, due_at = $1
	WHERE id IN (SELECT id FROM sandbox_payment_notices WHERE delivered_at IS NULL AND due_at <= $2 ORDER BY due_at LIMIT $3 FOR UPDATE SKIP LOCKED)
	RETURNING `+postgres.Columns[noticeRow]("n"))

// claimNotices claims due notices for one attempt each, which it counts. If this process dies, they are due again when
// the lease ends.
func claimNotices(ctx context.Context, tx postgres.Tx, limit int, lease time.Duration) ([]noticeRow, error) {
	return postgres.Query[noticeRow](ctx, tx, claimNoticesSQL, tx.Now.Add(lease), tx.Now, limit)
}

func postponeNotice(ctx context.Context, tx postgres.Tx, noticeID string, d time.Duration) error {
	_, err := gorm.G[noticeRow](tx.Gorm(ctx)).Where("id = ? AND delivered_at IS NULL", noticeID).
		Update(ctx, "due_at", tx.Now.Add(d))
	if err != nil {
		return fmt.Errorf("postpone notice: %w", err)
	}
	return nil
}

func settleNotice(ctx context.Context, tx postgres.Tx, noticeID string) error {
	_, err := gorm.G[noticeRow](tx.Gorm(ctx)).Where("id = ? AND delivered_at IS NULL", noticeID).
		Update(ctx, "delivered_at", tx.Now)
	if err != nil {
		return fmt.Errorf("settle notice: %w", err)
	}
	return nil
}
