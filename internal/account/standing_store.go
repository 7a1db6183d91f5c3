package account

import (
	"context"
	"fmt"

	"partnerd/internal/postgres"
)

// Closed tells whether a client is disabled or erased, and keeps it so until the end of the transaction.
func Closed(ctx context.Context, tx postgres.Tx, clientID string) (closed bool, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT disabled_at IS NOT NULL FROM clients WHERE id = ? FOR SHARE`, clientID).Row().Scan(&closed)
	if err != nil {
		return false, fmt.Errorf("look whether the client's account is closed: %w", err)
	}
	return closed, nil
}
