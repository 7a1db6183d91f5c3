package account

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/infra/postgres"
)

// ErasedSince lists the clients erased at or after a time.
func ErasedSince(ctx context.Context, tx postgres.Tx, since time.Time) ([]string, error) {
	var ids []string
	if err := tx.Gorm(ctx).Model(&clientRow{}).Where("erased_at >= ?", since).Order("id").
		Pluck("id", &ids).Error; err != nil {
		return nil, fmt.Errorf("list erased clients: %w", err)
	}
	return ids, nil
}

// EndAllSessions signs all clients out of all browsers and returns the number of sessions ended.
func EndAllSessions(ctx context.Context, tx postgres.Tx) (int, error) {
	return sessions.EndAll(ctx, tx)
}
