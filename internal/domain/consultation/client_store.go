package consultation

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
)

// withdrawalRow is a row of consultation_withdrawals, which is append-only.
type withdrawalRow struct {
	ConsultationID string    `gorm:"column:consultation_id;primaryKey"`
	ClientID       string    `gorm:"column:client_id"`
	DeclaredAt     time.Time `gorm:"column:declared_at"`
	Status         Status    `gorm:"column:status"` // of the consultation at the declaration
}

// TableName implements [schema.Tabler].
func (withdrawalRow) TableName() string { return "consultation_withdrawals" }

func getOwned(ctx context.Context, tx postgres.Tx, clientID, consultationID string) (openRow, error) {
	return one[openRow](openRows(ctx, tx).Where("c.id = ? AND c.client_id = ?", consultationID, clientID))
}

func peek(ctx context.Context, tx postgres.Tx, consultationID string) (row, error) {
	return one[row](rows(ctx, tx).Where("c.id = ?", consultationID))
}

func listOwned(ctx context.Context, tx postgres.Tx, clientID string, before Position, limit int) ([]openRow, error) {
	return page(openRows(ctx, tx).Where("c.client_id = ?", clientID), before, limit)
}

func usageOf(ctx context.Context, tx postgres.Tx, clientID string) (map[string]Usage, error) {
	var rows []struct {
		ApplicationID string
		Started       int
		Spent         money.Cents
	}
	err := gorm.G[row](tx.Gorm(ctx)).Where("client_id = ?", clientID).Group("application_id").
		Select(`application_id, count(*) AS started,
			coalesce(sum(price_cents - coalesce(refunded_cents, 0)) FILTER (WHERE status = 'COMPLETED'), 0)::bigint AS spent`).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read usage of applications: %w", err)
	}
	out := map[string]Usage{}
	for _, r := range rows {
		out[r.ApplicationID] = Usage{Started: r.Started, Spent: r.Spent}
	}
	return out, nil
}

// openOf lists the client's open consultations in their locking order, restricted to an application unless that is
// empty.
func openOf(ctx context.Context, tx postgres.Tx, clientID, applicationID string) ([]string, error) {
	q := gorm.G[row](tx.Gorm(ctx)).Where("client_id = ? AND "+isOpen, clientID)
	if applicationID != "" {
		q = q.Where("application_id = ?", applicationID)
	}
	var ids []string
	if err := q.Select("id").Order("id").Scan(ctx, &ids); err != nil {
		return nil, fmt.Errorf("list open consultations: %w", err)
	}
	return ids, nil
}

func insertWithdrawal(ctx context.Context, tx postgres.Tx, clientID string, w Withdrawal) error {
	err := gorm.G[withdrawalRow](tx.Gorm(ctx)).Create(ctx, &withdrawalRow{ConsultationID: w.ConsultationID,
		ClientID: clientID, DeclaredAt: w.DeclaredAt, Status: w.Status})
	if err != nil {
		return fmt.Errorf("insert withdrawal: %w", err)
	}
	return nil
}

func findWithdrawal(ctx context.Context, tx postgres.Tx, consultationID string) (w Withdrawal, found bool, err error) {
	err = tx.Gorm(ctx).Table("consultation_withdrawals w").Joins("JOIN consultations c ON c.id = w.consultation_id").
		Where("w.consultation_id = ?", consultationID).
		Select("w.consultation_id, w.declared_at, w.status, c.price_cents AS price").Take(&w).Error
	if postgres.IsNotFound(err) {
		return Withdrawal{}, false, nil
	}
	if err != nil {
		return Withdrawal{}, false, fmt.Errorf("read withdrawal: %w", err)
	}
	return w, true, nil
}

// eraseOwned destroys the texts of the client's consultations and returns their IDs.
func eraseOwned(ctx context.Context, tx postgres.Tx, clientID string) ([]string, error) {
	ids, err := postgres.Query[string](ctx, tx, eraseSQL, tx.Now, clientID)
	if err != nil {
		return nil, fmt.Errorf("erase consultations: %w", err)
	}
	return ids, nil
}

// eraseSQL is the only statement that changes columns that are otherwise written once.
var eraseSQL = postgres.SQL(postgres.Batch, `UPDATE consultations SET subject_sealed = NULL, description_sealed = NULL, phone_sealed = NULL, external_ref = NULL,
	erased_at = $1, updated_at = $1 WHERE client_id = $2 AND erased_at IS NULL RETURNING id`)
