package bench

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/domain/webhook"
)

// hooksLargeTables measures all frequent operations on tables full of delivered events, half of them past their
// retention.
func hooksLargeTables(ctx context.Context, e *Env) ([]Result, error) {
	const rate = 200
	r, err := newHookRig(ctx, e, 50, int(e.Load.Seconds())*rate)
	if err != nil {
		return nil, err
	}
	defer r.close()
	started := time.Now()
	if err := r.past(ctx, e.Rows); err != nil {
		return nil, err
	}
	fill := time.Since(started)
	list, err := timed(20, func() error {
		_, _, err := r.svc.Deliveries(ctx, r.db.Read(), r.apps[7], webhook.DeliveryFilter{Limit: 100})
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := r.svc.Events(ctx, r.apps[7], 0, 100); err != nil { // numbers the first batch
		return nil, err
	}
	feed, err := timed(20, func() error { _, err := r.svc.Events(ctx, r.apps[7], 0, 100); return err })
	if err != nil {
		return nil, err
	}
	r.deliver(ctx, r.svc)
	n, err := r.emitAt(ctx, rate, e.Load/2, func(i int) webhook.Subject { return r.subjects[i] })
	if err != nil {
		return nil, err
	}
	if err := r.settled(ctx, n); err != nil {
		return nil, err
	}
	alone := r.latencies().Percentile(99)
	// The purge runs while events are being sent.
	r.received.Clear()
	purged := make(chan error, 1)
	purging, stop := context.WithTimeout(ctx, e.Load)
	defer stop()
	var removed int
	began := time.Now()
	go func() { var err error; removed, err = r.svc.Purge(purging); purged <- err }()
	n2, err := r.emitAt(ctx, rate, e.Load/2, func(i int) webhook.Subject { return r.subjects[n+i] })
	if err != nil {
		return nil, err
	}
	if err := r.settled(ctx, n+n2); err != nil {
		return nil, err
	}
	during := r.latencies().Percentile(99)
	if err := <-purged; err != nil && purging.Err() == nil {
		return nil, err
	}
	return []Result{
		{Measure: fmt.Sprintf("rows made before (%.0f s)", fill.Seconds()), Value: float64(e.Rows), Unit: "events"},
		{Measure: "page of 100 deliveries", Value: list, Unit: "ms"},
		{Measure: "page of 100 events", Value: feed, Unit: "ms"},
		{Measure: "commit to arrival at 200/s, p99", Value: alone, Unit: "ms", AtMost: 50},
		{Measure: "the same while the purge runs, p99", Value: during, Unit: "ms", AtMost: 100},
		{Measure: "purged", Value: float64(removed) / time.Since(began).Seconds(), Unit: "events/s"},
	}, nil
}

// past creates n delivered events, each with a delivery and an attempt, over the last 60 days, oldest first.
func (r *hookRig) past(ctx context.Context, n int) error {
	const part = 500_000
	for _, table := range []string{"consultations", "webhook_events", "webhook_deliveries", "webhook_attempts"} {
		// The inserted data is known to be consistent; checking every row would double the time.
		if err := execute(ctx, r.db, "ALTER TABLE "+table+" DISABLE TRIGGER ALL"); err != nil {
			return err
		}
	}
	for from := 0; from < n; from += part {
		to := min(from+part, n) - 1
		for _, sql := range []string{
			`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed, recording_consent, price_cents,
				phone_sealed, created_at, updated_at, search_started_at, cancelled_at)
			SELECT 'con_past_' || to_char(n, 'FM000000000'), 'app_bench_' || to_char(n % $4, 'FM0000'), 'cli_bench', 'CANCELLED', 'HOUSING', 'FR', '\x00', false, 2000, '\x00', t, t, t, t
			FROM generate_series($1::int, $2::int, 10) n, LATERAL (SELECT now() - interval '60 days' * (1 - n::float8 / $3::int)) x(t)`,
			`INSERT INTO webhook_events (id, application_id, consultation_id, sequence, type, body, created_at)
			SELECT 'evt_0' || to_char(n, 'FM0000000000000'), 'app_bench_' || to_char((n - n % 10) % $4, 'FM0000'), 'con_past_' || to_char(n - n % 10, 'FM000000000'), n % 10 + 1, 'consultation.matching', convert_to(repeat('x', 250), 'UTF8'), t
			FROM generate_series($1::int, $2::int) n, LATERAL (SELECT now() - interval '60 days' * (1 - n::float8 / $3::int)) x(t)`,
			`INSERT INTO webhook_deliveries (id, event_id, application_id, consultation_id, sequence, state, attempts, next_at, created_at, ended_at)
			SELECT 'dlv_0' || to_char(n, 'FM0000000000000'), 'evt_0' || to_char(n, 'FM0000000000000'), 'app_bench_' || to_char((n - n % 10) % $4, 'FM0000'), 'con_past_' || to_char(n - n % 10, 'FM000000000'), n % 10 + 1, 'DELIVERED', 1, t, t, t
			FROM generate_series($1::int, $2::int) n, LATERAL (SELECT now() - interval '60 days' * (1 - n::float8 / $3::int)) x(t)`,
			`INSERT INTO webhook_attempts (delivery_id, attempt, started_at, duration_ms, status_code)
			SELECT 'dlv_0' || to_char(n, 'FM0000000000000'), 1, t, 12, 204
			FROM generate_series($1::int, $2::int) n, LATERAL (SELECT now() - interval '60 days' * (1 - n::float8 / $3::int)) x(t), (SELECT $4::int) unused`,
		} {
			if err := execute(ctx, r.db, sql, from, to, n, len(r.apps)); err != nil {
				return err
			}
		}
	}
	for _, table := range []string{"consultations", "webhook_events", "webhook_deliveries", "webhook_attempts"} {
		if err := execute(ctx, r.db, "ALTER TABLE "+table+" ENABLE TRIGGER ALL"); err != nil {
			return err
		}
	}
	if err := execute(ctx, r.db, "VACUUM ANALYZE"); err != nil {
		return err
	}
	return execute(ctx, r.db, "CHECKPOINT") // flushing all this to disk is not part of the measurement
}

// timed returns the median duration of f in milliseconds.
func timed(times int, f func() error) (float64, error) {
	l := &Latencies{}
	for range times {
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		l.Add(time.Since(start))
	}
	return l.Percentile(50), nil
}
