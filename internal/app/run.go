package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/id"
	"partnerd/internal/base/poll"
	"partnerd/internal/domain/restore"
	"partnerd/internal/server/edge"
)

const (
	shutdownTime = 10 * time.Second
	flushTime    = 2 * time.Second  // for what open requests counted
	answerTime   = time.Minute      // for a request, including writing its response
	requestTime  = 50 * time.Second // for a request, excluding the response; longer than an endpoint check
	streamPath   = "/api/desk/v1/events"
	// more than the program accepts, so that we word the rejection; incomplete requests use as much memory
	maxHeader = 128 << 10
)

// Run serves and works until ctx ends, then finishes what is in progress. If serve is false it only works; if work is
// false it only serves. started is called once requests are served.
//
// A serving process shuts down in this order:
//   - For Config.DrainDelay, /readyz returns 503 and every response asks the caller to open another connection.
//     Requests are still served, and work continues.
//   - Streams end, and work is handed over to other processes.
//   - The listener closes, and requests in progress finish.
func (a *App) Run(ctx context.Context, serve, work bool, started func()) error {
	if err := restore.Check(ctx, a.DB.Read()); err != nil {
		return err
	}
	if err := a.witness.Begin(ctx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	workers, stopWorkers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorkers()
	background := a.announcers()
	if work {
		background = a.workers()
	}
	background["desk announcements"] = a.Desk.Announce
	background["witness of the database"] = a.witness.Run
	if serve {
		background["log of uses"] = a.Access.Run
		background["log of requests"] = a.Requests.Run
		background["desks"] = a.Desk.Run
		background["certificate"] = func(ctx context.Context) error {
			return a.certificate.Watch(ctx, a.Config.BaseURL, a.Logger)
		}
		background["shared quotas"] = a.limiter.Run
		if a.Config.Sandbox() {
			// reports to this process; a process that only works cannot receive reports
			background["simulated payments"] = a.SimulatedPayments.Run
		}
		a.limiter.Connect(ctx)
	}
	for name, run := range background {
		wg.Go(func() { a.keepRunning(workers, name, run) })
	}
	if a.database.Cluster != nil {
		wg.Go(func() { a.database.Cluster.Keep(workers) })
	}
	if err := a.telemetry.SendMetrics(ctx); err != nil {
		return err
	}
	if a.Config.MetricsAddr != "" {
		stop, err := a.serveMetrics()
		if err != nil {
			return err
		}
		defer stop()
	}
	defer context.AfterFunc(ctx, func() {
		a.Logger.Info("shutting down", "drainDelay", a.Config.DrainDelay.String())
	})()
	if !serve {
		started()
		<-ctx.Done()
		a.ending.Store(true)
		return nil
	}
	return a.serve(ctx, started, stopWorkers)
}

// newRequestID returns an ID for a request that is rejected before it reaches the API.
func (a *App) newRequestID() string { return id.Minter{Test: a.Config.Sandbox()}.New("req") }

func (a *App) serve(ctx context.Context, started, stopWorkers func()) error {
	handler, err := a.Handler()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", a.Config.Addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{
		Handler: inTime(a.politely(handler)), MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: answerTime,
		IdleTimeout: 2 * time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(edge.Listener(listener, a.newRequestID, a.Logger)) }()
	started()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	a.ending.Store(true)
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-time.After(a.Config.DrainDelay):
	}
	stopWorkers()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if err = server.Shutdown(ending); err != nil {
		err = fmt.Errorf("end open requests: %w", err)
	}
	flushing, done := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer done()
	if lost := a.Access.Flush(flushing); lost != nil { // what a crash may lose is no reason to fail the shutdown
		a.Logger.Warn("the latest account uses were not recorded", "error", lost)
	}
	if lost := a.Requests.Flush(flushing); lost != nil {
		a.Logger.Warn("the latest requests were not written to the request log", "error", lost)
	}
	return err
}

// inTime cancels a request's work while there is still time to respond that it failed. Otherwise a database that
// neither responds nor disconnects would hold the request, and a connection, forever. A stream of events has no end and
// bounds each of its writes.
func inTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != streamPath {
			ctx, cancel := context.WithTimeout(r.Context(), requestTime)
			defer cancel()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// politely asks callers of a stopping process to open another connection, so that none is closed during a request.
func (a *App) politely(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.ending.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// workers are run by every working process. They react immediately to what this process commits or hears.
func (a *App) workers() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"webhooks":      a.Webhooks.Run,
		"consultations": a.Consultations.Run,
		"call commands": a.Telephony.RunCommands,
		"lead":          a.lead,
	}
}

// lead polls for due work while no other process does; standby processes need not poll. For a moment two processes may
// lead, so each part tolerates that.
func (a *App) lead(ctx context.Context) error {
	parts := map[string]func(context.Context) error{
		"sweep":             a.Consultations.Lead,
		"due webhooks":      a.Webhooks.Lead,
		"due call commands": a.Telephony.LeadCommands,
		"call poll":         func(ctx context.Context) error { return a.Telephony.RunPoll(ctx, a.callEvent) },
		"queue":             a.Queue.Run,
	}
	if a.Config.Sandbox() {
		parts["simulated lawyers"] = a.SimulatedLawyers.Run
		parts["simulated calls"] = func(ctx context.Context) error { return a.SimulatedCalls.Run(ctx, a.callEvent) }
	}
	// the clock may just have been set: all work due by it would be due at the same moment
	if ahead := a.DB.ClockAhead(); ahead.Abs() > clock.Step {
		a.Logger.Warn("the clocks of the database and of this machine differ: due work is delayed",
			"by", ahead.String(), "in", clock.Settled.String())
		poll.Pause(ctx, clock.Settled)
	}
	a.DB.Alone(ctx, "leader", a.Logger, func(ctx context.Context) {
		var running sync.WaitGroup
		defer running.Wait()
		for name, run := range parts {
			running.Go(func() { a.keepRunning(ctx, name, run) })
		}
	})
	return nil
}

// announcers run in a process without workers. They notify the working processes immediately of its commits.
func (a *App) announcers() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"webhook announcements":      a.Webhooks.Announce,
		"consultation announcements": a.Consultations.Announce,
	}
}

// keepRunning restarts a worker that fails, so that a temporary failure does not end it permanently.
func (a *App) keepRunning(ctx context.Context, name string, run func(context.Context) error) {
	for ctx.Err() == nil {
		if err := a.guard(ctx, run); err != nil && ctx.Err() == nil {
			a.Logger.Error("worker failed and is being restarted", "worker", name, "error", err)
			poll.Pause(ctx, time.Second)
		}
	}
}

func (a *App) guard(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if err = run(ctx); err == nil && ctx.Err() == nil {
		err = errors.New("worker stopped unexpectedly")
	}
	return err
}
