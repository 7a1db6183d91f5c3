package payment

import (
	"context"
	"fmt"
	"slices"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
)

// Missing is a paid top-up that a restored database does not know as paid.
type Missing struct {
	ID       string      `json:"id"`
	ClientID string      `json:"clientId"`
	Amount   money.Cents `json:"amountCents" gorm:"column:amount_cents"`
}

// MissingSince compares the restored database (tx) with the lost one and returns the top-ups paid there at or after
// since.
func MissingSince(ctx context.Context, tx, lost postgres.Tx, since time.Time) (list []Missing, err error) {
	err = lost.Gorm(ctx).Model(&sessionRow{}).Where("status = ? AND ended_at >= ?", Paid, since).Order("id").
		Select("id, client_id, amount_cents").Find(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list top-ups of the lost database: %w", err)
	}
	ids := make(postgres.Array[string], len(list))
	for i, m := range list {
		ids[i] = m.ID
	}
	var paid []string
	if err := tx.Gorm(ctx).Model(&sessionRow{}).Where("id = ANY(?) AND status = ?", ids, Paid).
		Pluck("id", &paid).Error; err != nil {
		return nil, fmt.Errorf("list top-ups: %w", err)
	}
	return slices.DeleteFunc(list, func(m Missing) bool { return slices.Contains(paid, m.ID) }), nil
}
