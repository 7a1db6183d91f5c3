package payment

import (
	"context"
	"fmt"

	"partnerd/internal/postgres"
)

// UnderWay tells whether the client has a top-up that may still be paid or is being paid back.
func (s *Service) UnderWay(ctx context.Context, tx postgres.Tx, clientID string) (some bool, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT EXISTS (SELECT FROM topup_sessions WHERE client_id = ? AND status = 'OPEN' AND expires_at > ?)`,
		clientID, tx.Now).Row().Scan(&some)
	if err != nil {
		return false, fmt.Errorf("look for top-ups under way: %w", err)
	}
	return some, nil
}
