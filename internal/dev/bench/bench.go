// Package bench measures the program against a durable Postgres on this machine and prints a table. Every scenario
// bounds its load in count and time, uses loopback only, and checks that the results were correct.
//
// One file per area adds its scenarios to [Scenarios]. To compare figures between machines, use the ratio to pgbench,
// which is measured in the same run on the same cluster.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/infra/cluster"
	"partnerd/internal/infra/postgres"
)

// Scenario is one situation to measure.
type Scenario struct {
	Name string // area/what, for example "webhooks/backlog"
	Run  func(ctx context.Context, e *Env) ([]Result, error)
}

// Scenarios lists all scenarios in the order of the table.
func Scenarios() []Scenario {
	return slices.Concat(webhookScenarios(), oauthScenarios(), walletScenarios(), apiScenarios(), matchScenarios(),
		lifeScenarios(), largeScenarios())
}

// Result is one line of the table.
type Result struct {
	Measure string
	Value   float64
	Unit    string  // for example "events/s", "ms", "%"
	AtLeast float64 // target; 0 means none
	AtMost  float64 // target; 0 means none
	PGBench int     // clients of the pgbench run to compare a rate with; 0 means none
}

// holds reports whether the result is within its targets.
func (r Result) holds() bool {
	return (r.AtLeast == 0 || r.Value >= r.AtLeast) && (r.AtMost == 0 || r.Value <= r.AtMost)
}

func (r Result) target() string {
	switch {
	case r.AtLeast != 0:
		return "≥ " + figure(r.AtLeast)
	case r.AtMost != 0:
		return "≤ " + figure(r.AtMost)
	}
	return ""
}

// Config holds the settings of a run.
type Config struct {
	Dir   string         // folder of the cluster, kept between runs
	Load  time.Duration  // duration of a scenario with a rate; 0 means 10 s
	Count int            // number of items in a scenario with a count; 0 means 20 000
	Rows  int            // number of existing rows in a scenario with large tables; 0 means 200 000
	Only  *regexp.Regexp // selects scenarios by name; nil selects all
	// Trace is the share of traces to record and send, in life, match, wallet and api. 0 turns tracing off.
	Trace float64
	Stat  bool // print for benchstat instead of the table, to compare runs of two builds
	Out   io.Writer
}

// Env is the environment of a scenario.
type Env struct {
	Load  time.Duration
	Count int
	Rows  int
	Log   *slog.Logger // discards everything

	cluster   *cluster.Cluster
	sink      *sink // receives traces; nil for none
	databases int
	reference map[int]float64 // pgbench transactions/s by clients
}

// ErrMissed means that a result missed its target or that a scenario failed. The table says which.
var ErrMissed = errors.New("not every scenario met its targets")

// Run measures and prints the table. It returns [ErrMissed] if a result missed its target or a scenario failed.
func Run(ctx context.Context, cfg Config) error {
	e := &Env{Load: cmp.Or(cfg.Load, 10*time.Second), Count: cmp.Or(cfg.Count, 20_000), Rows: cmp.Or(cfg.Rows, 200_000),
		Log: slog.New(slog.DiscardHandler), reference: map[int]float64{}}
	var err error
	if e.cluster, err = cluster.Start(ctx, cluster.Options{Dir: cfg.Dir}); err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_ = e.cluster.Stop(stopping) // the next run adopts a server that is still running
	}()
	free, err := e.alone(ctx)
	if err != nil {
		return err
	}
	defer free()
	if cfg.Trace > 0 {
		if e.sink, err = newSink(cfg.Trace); err != nil {
			return err
		}
		defer e.sink.close()
	}
	const line = "%-28s %-42s %9s %-15s %-9s %-7s %s\n"
	if !cfg.Stat {
		fmt.Fprintf(cfg.Out, line, "SCENARIO", "MEASURE", "VALUE", "UNIT", "TARGET", "", "× PGBENCH")
	}
	missed := false
	for _, s := range Scenarios() {
		if cfg.Only != nil && !cfg.Only.MatchString(s.Name) {
			continue
		}
		results, err := s.Run(ctx, e)
		if err != nil {
			missed = true
			fmt.Fprintf(cfg.Out, "%-28s failed: %s\n", s.Name, strings.ReplaceAll(err.Error(), "\n", " "))
		}
		for _, r := range results {
			if cfg.Stat {
				fmt.Fprintln(cfg.Out, r.stat(s.Name))
				continue
			}
			verdict := "ok"
			if !r.holds() {
				verdict, missed = "MISSED", true
			}
			fmt.Fprintf(cfg.Out, line, s.Name, r.Measure, figure(r.Value), r.Unit, r.target(), verdict, e.ratio(ctx, r))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if missed {
		return ErrMissed
	}
	return nil
}

// stat returns a line in Go's benchmark format.
func (r Result) stat(scenario string) string {
	word := strings.NewReplacer(" ", "-", ",", "", ":", "")
	name, _, _ := strings.Cut(r.Measure, ", BEGIN and COMMIT") // the explanation of a measure is not part of its name
	return fmt.Sprintf("Benchmark%s/%s 1 %g %s", word.Replace(scenario), word.Replace(name), r.Value,
		cmp.Or(word.Replace(r.Unit), "ratio"))
}

func (e *Env) ratio(ctx context.Context, r Result) string {
	if r.PGBench == 0 {
		return ""
	}
	tps, err := e.PGBench(ctx, r.PGBench)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.2f (of %s tps, %d clients)", r.Value/tps, figure(tps), r.PGBench)
}

// Database creates an empty database with the latest schema; close drops it.
func (e *Env) Database(ctx context.Context, conns int) (db *postgres.DB, close func(), err error) {
	e.databases++
	name := fmt.Sprintf("bench_%d", e.databases)
	if err := e.admin(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)", "CREATE DATABASE "+name); err != nil {
		return nil, nil, err
	}
	if err := postgres.Migrate(ctx, e.cluster.LocalURL(name)); err != nil {
		return nil, nil, err
	}
	db, err = postgres.Open(ctx, e.cluster.LocalURL(name), postgres.Options{MaxConns: conns, Test: true})
	if err != nil {
		return nil, nil, err
	}
	return db, func() {
		db.Close()
		dropping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_ = e.admin(dropping, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") // the next run drops leftovers
	}, nil
}

// alone ensures that no other run measures on the same cluster until free is called.
func (e *Env) alone(ctx context.Context) (free func(), err error) {
	conn, err := pgx.Connect(ctx, e.cluster.URL("postgres"))
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	free = func() { conn.Close(context.WithoutCancel(ctx)) }
	var got bool
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtext('bench'))").Scan(&got); err != nil || !got {
		free()
		return nil, errors.Join(errors.New("another run measures on this cluster; choose another --dir"), err)
	}
	return free, nil
}

func (e *Env) admin(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, e.cluster.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// figure formats a number with about three significant digits.
func figure(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
