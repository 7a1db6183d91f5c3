package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
)

// largeScenarios measure what recurring work costs on small and on large tables.
func largeScenarios() []Scenario {
	return []Scenario{{"large/statements", largeStatements}, {"retention/week", retention}}
}

// largeShare divides the rows for the first measurement. The past must be large enough that the second measurement uses
// the plans of large tables.
const largeShare = 50

// largeStatements measures with a fiftieth of the rows, then adds all of them and measures again.
func largeStatements(ctx context.Context, e *Env) ([]Result, error) {
	r, err := newLargeRig(ctx, e)
	if err != nil {
		return nil, err
	}
	defer r.close()
	small, large := past{0, max(1000, e.Rows/largeShare)}, past{1, e.Rows}
	var fill [2]time.Duration
	measured := [2]map[string][]taken{}
	for i, p := range []past{small, large} {
		began := time.Now()
		if err := errors.Join(p.fill(ctx, r.url), r.settle(ctx)); err != nil {
			return nil, err
		}
		fill[i] = time.Since(began)
		if measured[i], err = r.measure(ctx, p); err != nil {
			return nil, err
		}
	}
	size, err := r.size(ctx)
	if err != nil {
		return nil, err
	}
	results := []Result{
		{Measure: fmt.Sprintf("consultations (filled in %.0f s)", fill[1].Seconds()), Value: float64(e.Rows),
			Unit: "rows"},
		{Measure: "database", Value: float64(size) / (1 << 30), Unit: "GB"},
	}
	for _, a := range r.asks(large) {
		was, is := total(measured[0][a.name]), total(measured[1][a.name])
		results = append(results, Result{Measure: a.name, Value: is,
			Unit: fmt.Sprintf("ms (× %.1f)", is/max(was, 0.01))})
	}
	scans, err := r.scans(ctx, measured[1], e.Rows)
	if err != nil {
		return nil, err
	}
	for _, s := range scans {
		results = append(results, Result{Measure: s, Value: 1, Unit: "scan", AtMost: 0.5})
	}
	return append(results, Result{Measure: "statements with a plan", Value: float64(r.explained), Unit: "statements"}),
		nil
}

// largeRig is the program on its own database. No background work runs.
type largeRig struct {
	app       *app.App
	url       string
	watch     *watch
	once      bool // only statements and plans matter, not durations
	explained int
	stop      []func()
}

func (r *largeRig) close() {
	for i := len(r.stop) - 1; i >= 0; i-- {
		r.stop[i]()
	}
}

func newLargeRig(ctx context.Context, e *Env) (*largeRig, error) {
	url, drop, err := e.emptyDatabase(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "partnerd-bench-*")
	if err != nil {
		drop()
		return nil, err
	}
	r := &largeRig{url: url, stop: []func(){drop, func() { os.RemoveAll(dir) }}}
	if err := r.open(ctx, config.Config{Env: "sandbox", Addr: "127.0.0.1:0", DataDir: dir, DatabaseURL: url,
		DatabaseConns: 4, RateApplication: 1_000_000, RateClient: 1_000_000, RateUnauthorized: 1,
		RateTokenFailures: 1}); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// open opens the program and writes what exists before the past. The database has no schema yet, or the latest.
func (r *largeRig) open(ctx context.Context, cfg config.Config) (err error) {
	r.watch = &watch{}
	cfg.Tracer = r.watch
	if r.app, err = app.Open(ctx, cfg, slog.New(slog.NewJSONHandler(io.Discard, nil))); err != nil { //nolint:sloglint // as walletRig's
		return err
	}
	r.stop = append(r.stop, r.app.Close)
	for _, sql := range house {
		if err := r.exec(ctx, sql); err != nil {
			return err
		}
	}
	return r.holdOpen(ctx)
}

// settle runs VACUUM ANALYZE and a checkpoint, which Postgres would do by itself minutes later.
func (r *largeRig) settle(ctx context.Context) error {
	return errors.Join(r.exec(ctx, "VACUUM ANALYZE"), r.exec(ctx, "CHECKPOINT"))
}

// taken is a statement of a call and its median duration in milliseconds.
type taken struct {
	statement seenStatement
	ms        float64
	times     int // per call
}

func total(list []taken) (ms float64) {
	for _, t := range list {
		ms += t.ms * float64(t.times)
	}
	return ms
}

// measure makes every call and returns its statements by name of the call.
func (r *largeRig) measure(ctx context.Context, p past) (map[string][]taken, error) {
	all := map[string][]taken{}
	for _, a := range r.asks(p) {
		times := cmp.Or(a.times, 12)
		if r.once {
			times = 1
		}
		var seen []seenStatement
		for i := range times + min(times-1, 2) { // the first calls read from disk and prepare statements
			r.watch.begin()
			err := a.do(ctx)
			list := r.watch.end()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", a.name, err)
			}
			if i >= min(times-1, 2) {
				seen = append(seen, list...)
			}
		}
		all[a.name] = byText(seen, times)
	}
	return all, nil
}

// byText summarises the statements of a number of calls.
func byText(seen []seenStatement, calls int) (list []taken) {
	of := map[string][]seenStatement{}
	for _, s := range seen {
		key := fmt.Sprint(s.byIndex, s.sql)
		of[key] = append(of[key], s)
	}
	for _, same := range of {
		slices.SortFunc(same, func(a, b seenStatement) int { return cmp.Compare(a.took, b.took) })
		middle := same[len(same)/2]
		list = append(list, taken{middle, float64(middle.took.Microseconds()) / 1000, max(1, len(same)/calls)})
	}
	slices.SortFunc(list, func(a, b taken) int { return strings.Compare(a.statement.sql, b.statement.sql) })
	return list
}

func short(sql string) string {
	text := strings.Join(strings.Fields(sql), " ")
	if len(text) > 100 {
		text = text[:100] + "…"
	}
	return text
}
