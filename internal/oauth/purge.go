package oauth

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/postgres"
)

// Retention of what is only history: how long after its end a grant is kept.
const Retention = 30 * 24 * time.Hour

// Purge deletes grants, with their codes and tokens, that ended or were never activated more than [Retention] ago, and
// returns how many. Used refresh tokens of a grant that is alive stay: a replay must be recognized whenever it comes.
func (s *Service) Purge(ctx context.Context) (deleted int, err error) {
	err = s.db.InTx(ctx, func(tx postgres.Tx) error {
		if deleted, err = deleteEndedGrants(ctx, tx, tx.Now.Add(-Retention)); err != nil {
			return err
		}
		if err = deleteRetiredSigningKeys(ctx, tx, tx.Now.Add(-Retention)); err != nil {
			return err
		}
		return deleteEvents(ctx, tx, tx.Now.Add(-eventRetention), tx.Now.Add(-refreshedRetention))
	})
	if err != nil {
		return 0, fmt.Errorf("purge grants: %w", err)
	}
	return deleted, nil
}
