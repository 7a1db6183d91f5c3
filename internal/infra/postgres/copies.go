package postgres

import (
	"context"
	"fmt"
	"time"
)

// copiesSQL hides the lag from a role that may not see the activity of others (pg_read_all_stats).
var copiesSQL = SQL(Backend, `SELECT
	(SELECT count(*) FROM pg_stat_replication),
	NOT EXISTS (SELECT FROM pg_stat_replication WHERE state IS NULL),
	coalesce((SELECT extract(epoch FROM max(replay_lag)) FROM pg_stat_replication), 0)::float8,
	(SELECT last_failed_time IS NOT NULL AND last_failed_time > coalesce(last_archived_time, '-infinity') FROM pg_stat_archiver)`)

// Copies is how the copies of the database keep up with it.
type Copies struct {
	Standbys       int
	LagKnown       bool          // this role may see it
	Lag            time.Duration // of the standby that is furthest behind
	ArchiveFailing bool          // the last segment of the log was not archived
}

// ReadCopies asks the database for its standbys and its archive.
func ReadCopies(ctx context.Context, tx Tx) (c Copies, err error) {
	var lag float64
	if err := tx.QueryRow(ctx, copiesSQL).Scan(&c.Standbys, &c.LagKnown, &lag, &c.ArchiveFailing); err != nil {
		return Copies{}, fmt.Errorf("read the copies of the database: %w", err)
	}
	c.Lag = seconds(lag)
	return c, nil
}
