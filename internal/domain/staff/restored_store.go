package staff

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// EndAllSessions signs out everybody who works here or for a partner, and tells how many sessions those were.
func EndAllSessions(ctx context.Context, tx postgres.Tx) (int, error) {
	n, err := gorm.G[sessionRow](tx.Gorm(ctx)).Where("true").Delete(ctx)
	if err != nil {
		return 0, fmt.Errorf("end sessions: %w", err)
	}
	return n, nil
}
