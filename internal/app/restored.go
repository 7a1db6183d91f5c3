package app

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/restore"
	"partnerd/internal/infra/postgres"
)

// Restored prepares a database that was restored to a point in time, or went back in a failover, see [restore.Settle].
// A zero time means the time since which processes found commits missing. lostURL is empty if the lost database is not
// available.
func (a *App) Restored(ctx context.Context, by operator.Act, to time.Time, lostURL string) (restore.Report, error) {
	if to.IsZero() {
		var err error
		if to, err = restore.LostSince(ctx, a.DB.Read()); err != nil {
			return restore.Report{}, err
		}
	}
	var lost *postgres.DB
	if lostURL != "" {
		var err error
		if lost, err = postgres.Open(ctx, lostURL, postgres.Options{MaxConns: 2}); err != nil {
			return restore.Report{}, fmt.Errorf("the lost database: %w", err)
		}
		defer lost.Close()
	}
	return restore.Settle(ctx, a.DB, lost, a.Privacy, by, to)
}
