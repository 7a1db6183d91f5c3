package payment

import (
	"context"
	"fmt"

	"partnerd/internal/postgres"
)

// Erase takes the addresses of partners out of the client's top-ups, which may name the client.
func (s *Service) Erase(ctx context.Context, tx postgres.Tx, clientID string) error {
	if err := tx.Gorm(ctx).Exec(`UPDATE topup_sessions SET return_url = '' WHERE client_id = ?`, clientID).Error; err != nil {
		return fmt.Errorf("erase from top-ups: %w", err)
	}
	return nil
}
