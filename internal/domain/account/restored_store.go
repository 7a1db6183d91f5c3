package account

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/infra/postgres"
)

// ErasedSince lists the clients that were erased at or after an instant.
func ErasedSince(ctx context.Context, tx postgres.Tx, since time.Time) ([]string, error) {
	var ids []string
	if err := tx.Gorm(ctx).Model(&clientRow{}).Where("erased_at >= ?", since).Order("id").
		Pluck("id", &ids).Error; err != nil {
		return nil, fmt.Errorf("list erased clients: %w", err)
	}
	return ids, nil
}

// EndAllSessions signs every client out of every browser, and tells how many sessions those were.
func EndAllSessions(ctx context.Context, tx postgres.Tx) (int, error) {
	return sessions.EndAll(ctx, tx)
}
