package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"partnerd/internal/app"
	"partnerd/internal/base/poll"
)

const (
	matchLawyers = 10_000
	matchPairs   = 60
	matchWorkers = 8 // processes of "partnerd work"
	matchTimers  = 2_000
	matchSkew    = 15 * time.Second
	matchSettle  = 15 * time.Second // for consultations not yet offered and timers not yet fired
)

func matchScenarios() []Scenario {
	return []Scenario{
		{Name: "match/topologies", Run: matchTopologies},
		{Name: "match/timers", Run: func(ctx context.Context, e *Env) ([]Result, error) {
			return matchTimersDue(ctx, e, false)
		}},
		{Name: "match/timers, a fast clock",
			Run: func(ctx context.Context, e *Env) ([]Result, error) { return matchTimersDue(ctx, e, true) }},
		{Name: "match/starved", Run: matchStarved},
		{Name: "match/simulated", Run: matchSimulated},
	}
}

// matchTopologies creates consultations over HTTP, at two rates in each topology of real processes. The lawyers let
// offers time out. Latency is measured from the row of the consultation to the row of its first offer.
func matchTopologies(ctx context.Context, e *Env) (results []Result, err error) {
	r, err := newMatchRig(ctx, e)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.lawyers(ctx, matchLawyers, false); err != nil {
		return nil, err
	}
	perConsultation := map[int]float64{} // database time in ms by number of processes, at the lower rate
	for _, t := range []struct {
		name  string
		serve []string
		work  int
	}{
		{"serve", []string{"serve"}, 0},
		{"serve, 7 work", []string{"serve"}, matchWorkers - 1},
		{"serve --no-work, 8 work", []string{"serve", "--no-work"}, matchWorkers},
	} {
		for _, rate := range []struct {
			perSecond int
			p99       float64
		}{{10, 100}, {30, 250}} {
			m, err := r.measure(ctx, e.Load, rate.perSecond, t.serve, t.work)
			if err != nil {
				return results, fmt.Errorf("%s: %w", t.name, err)
			}
			what := fmt.Sprintf("%s, %d/s: ", t.name, rate.perSecond)
			results = append(results,
				Result{Measure: what + "p50", Value: m.took.Percentile(50), Unit: "ms"},
				Result{Measure: what + "p99", Value: m.took.Percentile(99), Unit: "ms", AtMost: rate.p99},
				Result{Measure: what + "never", Value: float64(m.created - m.took.Count()),
					Unit: "of " + fmt.Sprint(m.created), AtMost: 0.5},
				Result{Measure: what + "database", Value: m.database, Unit: "ms each"})
			if rate.perSecond == 10 && t.serve[len(t.serve)-1] == "serve" {
				perConsultation[1+t.work] = m.database
			}
		}
	}
	if one := perConsultation[1]; one > 0 {
		results = append(results, Result{Measure: "database time, 8 processes to 1",
			Value: perConsultation[matchWorkers] / one, Unit: "×", AtMost: 1.3})
	}
	return results, nil
}

// matchTimersDue lets many searches end at the same time. The clock of the database dates the change.
func matchTimersDue(ctx context.Context, e *Env, fast bool) ([]Result, error) {
	r, err := newMatchRig(ctx, e)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.exec(ctx, `
		CREATE TABLE bench_changed (id text PRIMARY KEY, changed_at timestamptz NOT NULL);
		CREATE FUNCTION bench_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO bench_changed VALUES (new.id, clock_timestamp()) ON CONFLICT DO NOTHING; RETURN NULL; END $$;
		CREATE TRIGGER bench_change AFTER UPDATE OF status ON consultations
			FOR EACH ROW WHEN (old.status <> new.status) EXECUTE FUNCTION bench_change()`); err != nil {
		return nil, err
	}
	for range matchWorkers {
		if err := r.start(ctx, "work"); err != nil {
			return nil, err
		}
	}
	if fast {
		if err := r.startFast(ctx); err != nil {
			return nil, err
		}
	}
	begins := 5 * time.Second
	if fast {
		begins += matchSkew // when the replica with the fast clock would act
	}
	due, err := r.wait(ctx, matchTimers, begins)
	if err != nil {
		return nil, err
	}
	if !poll.Pause(ctx, time.Until(due)) {
		return nil, ctx.Err()
	}
	var late Latencies
	for end := time.Now().Add(2 * matchSettle); ; {
		changed, err := r.count(ctx, "SELECT count(*) FROM bench_changed")
		if err != nil {
			return nil, err
		}
		if changed == matchTimers || time.Now().After(end) {
			break
		}
		if !poll.Pause(ctx, 200*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
	if err := r.alive(); err != nil {
		return nil, err
	}
	if err := r.latencies(ctx, &late,
		"SELECT extract(epoch FROM changed_at - $1)::float8 FROM bench_changed WHERE changed_at >= $1",
		due); err != nil {
		return nil, err
	}
	early, err := r.count(ctx, "SELECT count(*) FROM bench_changed WHERE changed_at < $1", due)
	if err != nil {
		return nil, err
	}
	return []Result{
		{Measure: "late, p50", Value: late.Percentile(50), Unit: "ms"},
		{Measure: "late, p99", Value: late.Percentile(99), Unit: "ms"},
		{Measure: "late, last", Value: late.Percentile(100), Unit: "ms", AtMost: 2000},
		{Measure: "early", Value: float64(early), Unit: "of " + fmt.Sprint(matchTimers), AtMost: 0.5},
		{Measure: "not fired", Value: float64(matchTimers - late.Count() - early),
			Unit: "of " + fmt.Sprint(matchTimers), AtMost: 0.5},
	}, nil
}

// matchStarved makes many consultations wait while no lawyer is idle, and measures the processor time.
func matchStarved(ctx context.Context, e *Env) ([]Result, error) {
	r, err := newMatchRig(ctx, e)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if _, err := r.wait(ctx, matchLawyers, time.Hour); err != nil {
		return nil, err
	}
	for range matchWorkers {
		if err := r.start(ctx, "work"); err != nil {
			return nil, err
		}
	}
	if !poll.Pause(ctx, 5*time.Second) { // until the processes have started
		return nil, ctx.Err()
	}
	before, err := r.cpu(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if !poll.Pause(ctx, e.Load) {
		return nil, ctx.Err()
	}
	after, err := r.cpu(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.alive(); err != nil {
		return nil, err
	}
	took := time.Since(start).Seconds()
	program, database := (after.program-before.program).Seconds()/took*100,
		(after.database-before.database).Seconds()/took*100
	return []Result{
		{Measure: "8 work", Value: program, Unit: "% of a core"},
		{Measure: "Postgres", Value: database, Unit: "% of a core"},
		{Measure: "both", Value: program + database, Unit: "% of a core", AtMost: 5},
	}, nil
}

// matchSimulated measures one process that simulates as many lawyers as the other scenarios find in the database.
func matchSimulated(ctx context.Context, e *Env) ([]Result, error) {
	r, err := newMatchRig(ctx, e)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.lawyers(ctx, matchLawyers, true); err != nil {
		return nil, err
	}
	m, err := r.measure(ctx, e.Load, 10, []string{"serve"}, 0)
	if err != nil {
		return nil, err
	}
	return []Result{
		{Measure: "serve, 10/s: p50", Value: m.took.Percentile(50), Unit: "ms"},
		{Measure: "serve, 10/s: p99", Value: m.took.Percentile(99), Unit: "ms", AtMost: 100},
		{Measure: "serve, 10/s: never", Value: float64(m.created - m.took.Count()), Unit: "of " + fmt.Sprint(m.created),
			AtMost: 0.5},
	}, nil
}

// startFast adds a replica in this process whose clock is ahead of the machine's.
func (r *matchRig) startFast(ctx context.Context) error {
	cfg := r.config()
	cfg.Machine = func() time.Time { return time.Now().Add(matchSkew) }
	a, err := app.Open(ctx, cfg, r.log)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	done, started := make(chan error, 1), make(chan struct{})
	go func() { done <- a.Run(running, false, true, func() { close(started) }) }()
	r.onClose(func() { stop(); <-done; a.Close() })
	select {
	case <-started:
		return nil
	case err := <-done:
		done <- nil
		return errors.Join(errors.New("the replica with a fast clock ended"), err)
	}
}
