// Package queue runs work that can wait but must not be lost: emails, text messages, reports, purges.
//
// A job is inserted in the transaction of its cause and runs after the commit, at least once, in any worker process.
// Handlers must therefore tolerate running twice. Webhook deliveries and consultation timers are not jobs: they are
// rows of their own domains.
//
// The engine is River; only this package knows it.
package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"partnerd/internal/base/telemetry"
	"partnerd/internal/infra/postgres"
)

const (
	jobTimeout = time.Minute
	// a job whose process died is run again after this time, or after its own limit; longer than jobTimeout
	rescue  = 2 * time.Minute
	workers = 16
	poll    = 2 * time.Second // finds jobs whose notification was lost
)

// Queue inserts jobs, and runs them while [Queue.Run] runs. It is safe for concurrent use once all handlers are
// registered.
type Queue struct {
	db       *postgres.DB
	log      *slog.Logger
	insert   *river.Client[pgx.Tx]
	handlers map[string]handler
	periodic []*river.PeriodicJob
	metrics  metrics

	Tracer *telemetry.Tracer // records jobs; nil for none. Set it before anything runs
}

// New returns a queue on the database.
func New(db *postgres.DB, log *slog.Logger) (*Queue, error) {
	log = slog.New(quiet{log.Handler()})
	// Every job sends a notification. By default, a job within 100 ms of another sends none and waits for the next
	// poll.
	c, err := river.NewClient(riverpgxv5.New(db.Pool()), &river.Config{Schema: postgres.QueueSchema, Logger: log,
		FetchCooldown: river.FetchCooldownMin})
	if err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	return &Queue{db: db, log: log, insert: c, handlers: map[string]handler{}, metrics: newMetrics()}, nil
}

type handler struct {
	do    func(context.Context, []byte) error
	limit time.Duration // time limit of a run
	every bool          // periodic: it belongs to no request, so the text of its errors may be logged
}

// job is the only kind known to the engine; our jobs are distinguished by Name.
type job struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`

	TraceParent string `json:"traceParent,omitempty"` // the span that inserted it
}

// Kind implements river.JobArgs.
func (job) Kind() string { return "partnerd" }

// Handle registers the handler for jobs of this name. Call it before Run. A run may take a minute at most. After an
// error the job is retried with growing delays, up to 25 times in about three weeks, unless the error is [Final].
func Handle[Args any](q *Queue, name string, do func(context.Context, Args) error) {
	handle(q, name, handler{limit: jobTimeout}, do)
}

func handle[Args any](q *Queue, name string, h handler, do func(context.Context, Args) error) {
	q.metrics.begin(name)
	h.do = func(ctx context.Context, raw []byte) error {
		var args Args
		if err := json.Unmarshal(raw, &args); err != nil {
			return Final(fmt.Errorf("read arguments of %s: %w", name, err))
		}
		return do(ctx, args)
	}
	q.handlers[name] = h
}

// Every runs a job without arguments at startup and then at an interval. A run may take a minute or, if longer, the
// interval. It may run late, and twice after a change of leader.
func (q *Queue) Every(name string, interval time.Duration, do func(context.Context) error) {
	handle(q, name, handler{limit: max(jobTimeout, interval), every: true},
		func(ctx context.Context, _ struct{}) error { return do(ctx) })
	q.periodic = append(q.periodic, river.NewPeriodicJob(river.PeriodicInterval(interval),
		func() (river.JobArgs, *river.InsertOpts) {
			return job{Name: name, Args: json.RawMessage("{}")},
				&river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByPeriod: interval}}
		}, &river.PeriodicJobOpts{RunOnStart: true}))
}

// Insert adds a job to the transaction. args must not contain secrets in plain text: they stay in the table until the
// job is purged.
func (q *Queue) Insert(ctx context.Context, tx postgres.Tx, name string, args any) error {
	raw, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("write arguments of %s: %w", name, err)
	}
	err = tx.Pgx(ctx, func(t pgx.Tx) error {
		_, err := q.insert.InsertTx(ctx, t, job{Name: name, Args: raw, TraceParent: telemetry.Carry(ctx)}, nil)
		return err
	})
	if err != nil {
		return fmt.Errorf("insert job %s: %w", name, err)
	}
	return nil
}

// Run processes jobs until ctx ends, then gives running jobs a few seconds to finish.
func (q *Queue) Run(ctx context.Context) error {
	w := river.NewWorkers()
	river.AddWorker(w, &worker{queue: q})
	c, err := river.NewClient(riverpgxv5.New(q.db.Pool()), &river.Config{
		Schema: postgres.QueueSchema, Logger: q.log, Workers: w, PeriodicJobs: q.periodic,
		Queues:     map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		JobTimeout: jobTimeout, RescueStuckJobsAfter: rescue, FetchPollInterval: poll,
		ErrorHandler:        failures{q},
		ReindexerIndexNames: []string{}, // only the owner of an index can rebuild it, and the program owns none
	})
	if err != nil {
		return fmt.Errorf("open queue: %w", err)
	}
	if err := c.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start queue: %w", err)
	}
	<-ctx.Done()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := c.Stop(ending); err != nil {
		return c.StopAndCancel(context.WithoutCancel(ctx))
	}
	return nil
}

// quiet drops the errors that the library reports only because it was stopped. It lowers the library's periodic figures
// to level debug.
type quiet struct{ slog.Handler }

// Handle implements slog.Handler.
func (h quiet) Handle(ctx context.Context, r slog.Record) error {
	stopped := false
	r.Attrs(func(a slog.Attr) bool {
		stopped = a.Key == "error" && a.Value.String() == context.Canceled.Error()
		return !stopped
	})
	if r.Level == slog.LevelInfo {
		r.Level = slog.LevelDebug
	}
	if stopped || !h.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h quiet) WithAttrs(a []slog.Attr) slog.Handler { return quiet{h.Handler.WithAttrs(a)} }

// WithGroup implements slog.Handler.
func (h quiet) WithGroup(name string) slog.Handler { return quiet{h.Handler.WithGroup(name)} }

type worker struct {
	river.WorkerDefaults[job]
	queue *Queue
}

// Timeout implements river.Worker. A job without a handler has the default limit.
func (w *worker) Timeout(j *river.Job[job]) time.Duration { return w.queue.handlers[j.Args.Name].limit }

// Work implements river.Worker.
func (w *worker) Work(ctx context.Context, j *river.Job[job]) error {
	h, ok := w.queue.handlers[j.Args.Name]
	if !ok {
		return fmt.Errorf("no handler for job %q", j.Args.Name)
	}
	ctx, span := w.queue.Tracer.Resume(ctx, "job", j.Args.TraceParent, w.queue.db.Clock().Now().Sub(j.CreatedAt))
	span.Set(telemetry.JobName, j.Args.Name)
	span.SetInt(telemetry.Attempt, int64(j.Attempt))
	err := h.do(ctx, j.Args.Args)
	span.End(err)
	return err
}
