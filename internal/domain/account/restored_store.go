package account

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

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
	n, err := gorm.G[sessionRow](tx.Gorm(ctx)).Where("true").Delete(ctx)
	if err != nil {
		return 0, fmt.Errorf("end sessions: %w", err)
	}
	return n, nil
}
