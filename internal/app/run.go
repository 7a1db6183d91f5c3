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
	flushTime    = 2 * time.Second  // of what open requests counted
	answerTime   = time.Minute      // of a request, with the writing of its answer
	requestTime  = 50 * time.Second // of a request, without: more than an examination of a receiver takes
	streamPath   = "/api/desk/v1/events"
	// more than the program accepts, so that the refusal is ours to word; half-sent requests keep as much
	maxHeader = 128 << 10
)

// Run serves and works until ctx ends, then finishes what is under way. With serve false it only works; with work
// false it only serves. started is called when requests are answered.
//
// A process that serves ends in this order: /readyz says so and every answer asks its caller for another connection,
// while requests are served and work goes on as before, for Config.DrainDelay; streams end and the work is handed back;
// the listener closes, and requests under way end.
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
			// reports to this process, which a process that only works cannot
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

// newRequestID names a request that is refused before the API sees it.
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
	if lost := a.Access.Flush(flushing); lost != nil { // what may be lost in a crash is no reason to end badly
		a.Logger.Warn("the latest account uses were not recorded", "error", lost)
	}
	if lost := a.Requests.Flush(flushing); lost != nil {
		a.Logger.Warn("the latest requests were not written to the request log", "error", lost)
	}
	return err
}

// inTime ends what a request waits for while there is still time to answer that it could not be done: a database that
// neither answers nor goes away would keep it, and a connection, for ever. A stream of events has no end and bounds
// each of its writes.
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

// politely asks who still sends to a process that ends for another connection, so that none is closed under a request.
func (a *App) politely(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.ending.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// workers are what every process does that works: at once, what follows from what it commits or hears.
func (a *App) workers() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"webhooks":      a.Webhooks.Run,
		"consultations": a.Consultations.Run,
		"call commands": a.Telephony.RunCommands,
		"lead":          a.lead,
	}
}

// lead looks again and again for what is due, while no other process does: who stands by has nothing to look for.
// Several may do so for a moment, so each part bears it.
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
	// it may just have been set: all that is due by it would be due at the same time
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

// announcers are what a process without workers runs instead: the processes with workers learn at once what it commits.
func (a *App) announcers() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"webhook announcements":      a.Webhooks.Announce,
		"consultation announcements": a.Consultations.Announce,
	}
}

// keepRunning starts a worker again when it fails, so that one bad moment does not end it for good.
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
