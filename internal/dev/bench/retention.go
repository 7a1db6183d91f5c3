package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/infra/postgres"
)

// retention removes a week of the request log in two ways: by dropping a partition and by deleting from a plain table.
// Each holds [Env.Rows] lines, written 2000 at a time.
func retention(ctx context.Context, e *Env) ([]Result, error) {
	url, drop, err := e.emptyDatabase(ctx)
	if err != nil {
		return nil, err
	}
	defer drop()
	if err := postgres.Migrate(ctx, url); err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var begins time.Time
	if err := conn.QueryRow(ctx, `SELECT begins FROM partitions() WHERE ends IS NULL`).Scan(&begins); err != nil {
		return nil, err
	}
	for _, sql := range []string{`CREATE TABLE bench_whole (LIKE api_requests_first INCLUDING ALL)`,
		`ALTER TABLE bench_whole DROP CONSTRAINT bench_whole_pkey, ADD PRIMARY KEY (application_id, id)`} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, err
		}
	}
	const week = 7 * 24 * time.Hour
	write := func(table string) func() error {
		return func() error {
			for i := 0; i < e.Rows; i += 2000 {
				if _, err := conn.Exec(ctx,
					`INSERT INTO `+table+` (application_id, id, at, method, path, status, duration_us, keyed, replayed)
					SELECT 'app_bench_' || i % 20, to_char(i, '"req_bench_"FM0000000000'), $1::timestamptz + i * interval '1 week' / $4, 'POST', '/api/v1/consultations', CASE WHEN i % 20 = 3 THEN 422 ELSE 201 END, 9000, true, false
					FROM generate_series($2::int, $3::int) i ON CONFLICT DO NOTHING`,
					begins, i, min(i+2000, e.Rows)-1, float64(e.Rows)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	say := func(sql string, args ...any) func() error {
		return func() error { _, err := conn.Exec(ctx, sql, args...); return err }
	}
	if err := say(`SELECT add_partition('api_requests', $1)`, begins.Add(week))(); err != nil {
		return nil, err
	}
	var results []Result
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"write, one table", write("bench_whole")},
		{"write, by week", write("api_requests")},
		{"delete a week", say(`DELETE FROM bench_whole WHERE at < $1`, begins.Add(week))},
		{"vacuum after it", say(`VACUUM bench_whole`)},
		{"drop a week", say(`SELECT drop_partitions('api_requests', $1)`, begins.Add(week))},
	} {
		if err := say(`CHECKPOINT`)(); err != nil {
			return nil, err
		}
		var before, after int64
		const position = `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`
		if err := conn.QueryRow(ctx, position).Scan(&before); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := step.do(); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		took := time.Since(began)
		if err := conn.QueryRow(ctx, position).Scan(&after); err != nil {
			return nil, err
		}
		results = append(results, Result{Measure: step.name, Value: float64(took.Microseconds()) / 1000, Unit: "ms"},
			Result{Measure: step.name + ", log", Value: float64(after-before) / (1 << 20), Unit: "MB"})
	}
	return results, nil
}
