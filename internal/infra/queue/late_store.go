package queue

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"partnerd/internal/infra/postgres"
)

// oldestSQL reads one entry of the engine's index by state, queue and priority, for each state in which a job waits.
var oldestSQL = postgres.SQL(postgres.Report, `SELECT least(
		(SELECT scheduled_at FROM river.river_job WHERE state = 'available' AND queue = 'default' AND priority = 1 AND scheduled_at <= $1 ORDER BY scheduled_at LIMIT 1),
		(SELECT scheduled_at FROM river.river_job WHERE state = 'scheduled' AND queue = 'default' AND priority = 1 AND scheduled_at <= $1 ORDER BY scheduled_at LIMIT 1),
		(SELECT scheduled_at FROM river.river_job WHERE state = 'retryable' AND queue = 'default' AND priority = 1 AND scheduled_at <= $1 ORDER BY scheduled_at LIMIT 1))`)

// OldestDue returns when the longest-waiting job became due, or nil if no job is waiting for a worker. A failed job is
// due when its next attempt is.
func OldestDue(ctx context.Context, tx postgres.Tx) (since *time.Time, err error) {
	if err := tx.QueryRow(ctx, oldestSQL, tx.Now).Scan(&since); err != nil {
		return nil, fmt.Errorf("read the oldest job: %w", err)
	}
	return since, nil
}

// retryingSQL reads the engine's index by state, queue and priority, limited to what a scrape has time for.
var retryingSQL = postgres.SQL(postgres.Report, `SELECT coalesce(args->>'name', ''), count(*) FROM (
		SELECT args FROM river.river_job WHERE state = 'retryable' AND queue = 'default' AND priority = 1 LIMIT 10000) r GROUP BY 1 ORDER BY 1`)

// Count is the number of jobs with a name.
type Count struct {
	Job  string
	Jobs int
}

// Retrying returns how many failed jobs wait for their next attempt, counting up to 10 000.
func Retrying(ctx context.Context, tx postgres.Tx) ([]Count, error) {
	var list []Count
	err := tx.Rows(ctx, retryingSQL, func(rows *sql.Rows) error {
		var c Count
		err := rows.Scan(&c.Job, &c.Jobs)
		list = append(list, c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count the jobs that failed: %w", err)
	}
	return list, nil
}
