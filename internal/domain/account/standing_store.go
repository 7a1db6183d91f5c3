package account

import (
	"context"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/infra/postgres"
)

// Closed reports whether a client is disabled or erased. The answer holds until the end of the transaction.
func Closed(ctx context.Context, tx postgres.Tx, clientID string) (bool, error) {
	r, err := gorm.G[clientRow](tx.Gorm(ctx), clause.Locking{Strength: clause.LockingStrengthShare}).
		Select("disabled_at").Where("id = ?", clientID).Take(ctx)
	if err != nil {
		return false, fmt.Errorf("look whether the client's account is closed: %w", err)
	}
	return r.DisabledAt != nil, nil
}
