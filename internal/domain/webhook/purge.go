package webhook

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/base/poll"
	"partnerd/internal/infra/postgres"
)

// DefaultRetention is how long events can be listed and redelivered (decision H23).
const DefaultRetention = 30 * 24 * time.Hour

const (
	purgeBatch = 500                   // events per transaction
	purgePause = 20 * time.Millisecond // between transactions, so that deliveries can continue
)

// Purge removes events older than Config.Retention, with their deliveries and attempts, in short transactions. It
// returns how many events it removed. Events with a pending delivery, however old, and events redelivered within the
// retention stay.
func (s *Service) Purge(ctx context.Context) (removed int, err error) {
	cutoff := s.db.Clock().Now().Add(-s.cfg.Retention)
	for after := ""; ; {
		var found, n int
		err := s.db.InTx(ctx, func(tx postgres.Tx) error {
			events, last, err := selectExpired(ctx, tx, after, cutoff, purgeBatch)
			if err != nil || last == "" {
				found = 0
				return err
			}
			found, after = 1, last
			n, err = deleteEvents(ctx, tx, events)
			return err
		})
		if err != nil {
			return removed, fmt.Errorf("purge webhook events: %w", err)
		}
		removed += n
		if found == 0 || !poll.Pause(ctx, purgePause) {
			return removed, nil
		}
	}
}
