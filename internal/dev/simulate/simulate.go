package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/infra/cluster"
	"partnerd/internal/infra/postgres"
)

// Config holds the settings of a run.
type Config struct {
	Dir    string // folder of the database cluster, kept between runs
	Report string // folder of the report
	Day    Plan
	Single []Single // compared with theory
	Out    io.Writer
}

// ErrMissed means that a target was missed. The report says which.
var ErrMissed = errors.New("not every target was met")

// DefaultPlan returns a day for which, by theory and a prototype, the lawyers are just enough.
func DefaultPlan(lawyers, pairs, consultations int, seed uint64) Plan {
	return Plan{Lawyers: lawyers, Pairs: pairs, Consultations: consultations, Seed: seed,
		Decline: 0.07, Miss: 0.07, Unreachable: 0.03, Wait: 0.6, Cancel: 0.05, Call: 11 * time.Minute,
		Writing: 4 * time.Minute}
}

// Singles returns the queues to compare with theory: a calm one, a busy one, and an overloaded one.
func Singles(arrivals, seeds int) []Single {
	return []Single{
		{Lawyers: 5, Load: 0.7, Service: 5 * time.Minute, Patience: 4 * time.Minute, Arrivals: arrivals, Seeds: seeds},
		{Lawyers: 20, Load: 0.95, Service: 5 * time.Minute, Patience: 4 * time.Minute, Arrivals: arrivals,
			Seeds: seeds},
		{Lawyers: 10, Load: 1.3, Service: 5 * time.Minute, Patience: 4 * time.Minute, Arrivals: arrivals, Seeds: seeds},
	}
}

// Run simulates and writes the report. It returns [ErrMissed] if a target was missed.
func Run(ctx context.Context, cfg Config) error {
	c, err := cluster.Start(ctx, cluster.Options{Dir: cfg.Dir, Fast: true})
	if err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_ = c.Stop(stopping) // the next run adopts a server that is still running
	}()
	d := &databases{cluster: c}
	var r played
	for _, s := range cfg.Single {
		got, err := compare(ctx, d, s, cfg.Day.Seed)
		if err != nil {
			return fmt.Errorf("simulate %d lawyers: %w", s.Lawyers, err)
		}
		r.theory = append(r.theory, got)
		fmt.Fprintf(cfg.Out, "%d lawyers at %.2f: waits %.3f (theory %.3f), leaves %.3f (%.3f), mean wait "+
			"%.1f s (%.1f s)\n", s.Lawyers, s.Load,
			got.Simulated.Waits, got.Theory.Waits, got.Simulated.Leaves, got.Theory.Leaves, got.Simulated.Mean,
			got.Theory.Mean)
	}
	if cfg.Day.Consultations > 0 {
		if r.day, err = playDay(ctx, d, cfg.Day, cfg.Out); err != nil {
			return fmt.Errorf("simulate the day: %w", err)
		}
	}
	if err := os.MkdirAll(cfg.Report, 0o700); err != nil {
		return err
	}
	page, err := r.html()
	if err != nil {
		return err
	}
	file := filepath.Join(cfg.Report, "report.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		return err
	}
	missed := false
	for _, f := range r.figures() {
		verdict := "ok"
		if !f.Kept {
			verdict, missed = "MISSED", true
		}
		fmt.Fprintf(cfg.Out, "%-70s %-24s %-18s %s\n", f.What, f.Value, f.Target, verdict)
	}
	fmt.Fprintln(cfg.Out, "report:", file)
	if missed {
		return ErrMissed
	}
	return nil
}

// databases creates databases on the simulation's own cluster.
type databases struct {
	cluster *cluster.Cluster
	made    int
}

// fresh creates a database with the latest schema; drop removes it.
func (d *databases) fresh(ctx context.Context) (url string, drop func(), err error) {
	d.made++
	name := fmt.Sprintf("simulate_%d_%d", os.Getpid(), d.made)
	if err := d.admin(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	drop = func() {
		dropping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_ = d.admin(dropping, "DROP DATABASE "+name+" WITH (FORCE)") // a leftover does no harm
	}
	url = d.cluster.URL(name)
	if err := postgres.Migrate(ctx, url); err != nil {
		drop()
		return "", nil, err
	}
	return url, drop, nil
}

func (d *databases) admin(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, d.cluster.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}
