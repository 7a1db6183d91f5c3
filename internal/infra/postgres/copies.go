package postgres

import (
	"context"
	"fmt"
	"time"
)

// copiesSQL hides the lag from a role that may not see other sessions (pg_read_all_stats).
var copiesSQL = SQL(Backend, `SELECT
	(SELECT count(*) FROM pg_stat_replication),
	NOT EXISTS (SELECT FROM pg_stat_replication WHERE state IS NULL),
	coalesce((SELECT extract(epoch FROM max(replay_lag)) FROM pg_stat_replication), 0)::float8,
	(SELECT last_failed_time IS NOT NULL AND last_failed_time > coalesce(last_archived_time, '-infinity') FROM pg_stat_archiver)`)

// Copies describes how far the standbys and the WAL archive keep up with the database.
type Copies struct {
	Standbys       int
	LagKnown       bool          // whether this role may see the lag
	Lag            time.Duration // of the furthest standby
	ArchiveFailing bool          // the most recent WAL segment was not archived
}

// ReadCopies queries the database for its standbys and its archive.
func ReadCopies(ctx context.Context, tx Tx) (c Copies, err error) {
	var lag float64
	if err := tx.QueryRow(ctx, copiesSQL).Scan(&c.Standbys, &c.LagKnown, &lag, &c.ArchiveFailing); err != nil {
		return Copies{}, fmt.Errorf("read the copies of the database: %w", err)
	}
	c.Lag = seconds(lag)
	return c, nil
}
