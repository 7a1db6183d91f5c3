package payment

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// OldestDue returns when the oldest pending refund became due for an attempt, or nil if none is due.
func OldestDue(ctx context.Context, tx postgres.Tx) (since *time.Time, err error) {
	list, err := gorm.G[refundRow](tx.Gorm(ctx)).Select("next_at").
		Where("state = ? AND next_at <= ?", refundPending, tx.Now).Order("next_at").Limit(1).Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the oldest refund: %w", err)
	}
	if len(list) > 0 {
		since = &list[0].NextAt
	}
	return since, nil
}
