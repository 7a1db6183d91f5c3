package webhook

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"partnerd/internal/base/poll"
	"partnerd/internal/infra/postgres"
)

const (
	maxClaim   = 500 // deliveries per statement
	maxBatch   = 500 // results per statement
	linger     = 5 * time.Millisecond
	queueConns = 2  // one claims, one records
	idlePolls  = 10 // polling interval of a process that does not lead, in units of Config.Poll
	helpAfter  = 500 * time.Millisecond

	claimTime = 5 * time.Second
	// shutdownTime is the time to record results after the last attempt, when the program ends.
	shutdownTime = time.Second
)

// Run delivers until ctx ends. It then claims nothing more, lets attempts in progress finish (each within
// Config.Timeout), records them and returns nil. Any number of processes may run it on one database; one must also run
// [Service.Lead].
func (s *Service) Run(ctx context.Context) error {
	d, err := newDispatcher(ctx, s)
	if err != nil {
		return err
	}
	defer d.queue.Close()
	s.delivering.Store(true)
	defer s.delivering.Store(false)
	d.run(ctx)
	return nil
}

// Lead makes this process, which also runs [Service.Run], poll for due deliveries every Config.Poll. It also marks held
// deliveries and sends notifications, until ctx ends. One process should lead; more are harmless but cost more.
func (s *Service) Lead(ctx context.Context) error {
	queue, err := s.db.ByIndex(ctx, 1)
	if err != nil {
		return err
	}
	defer queue.Close()
	s.leading.Store(true)
	defer s.leading.Store(false)
	var steps sync.WaitGroup
	defer steps.Wait()
	steps.Go(func() { s.markHeld(ctx, queue) })
	steps.Go(func() { s.runNotices(ctx) })
	for ok := true; ok; ok = poll.Pause(ctx, s.cfg.Poll) {
		signal(s.wake)
	}
	return nil
}

// result is the result of an attempt.
type result struct {
	message
	outcome
}

// dispatcher claims due deliveries, starts a goroutine per attempt and records results in batches.
type dispatcher struct {
	*Service
	queue   *postgres.DB // of claims and results
	slots   *slots
	results chan result
	helping atomic.Bool // will soon claim what other processes have no capacity for
}

func newDispatcher(ctx context.Context, s *Service) (*dispatcher, error) {
	queue, err := s.db.ByIndex(ctx, queueConns)
	if err != nil {
		return nil, err
	}
	return &dispatcher{
		Service: s, queue: queue, slots: newSlots(s.cfg.Slots, s.cfg.EndpointConcurrency),
		results: make(chan result, s.cfg.Slots),
	}, nil
}

func (d *dispatcher) run(ctx context.Context) {
	// Attempts and results outlive ctx, because they have their own time limits.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		d.record(work)
	}()
	var listening, attempts sync.WaitGroup
	listening.Go(func() { d.others.Listen(ctx, d.onRemoteCommit) })
	d.claimUntil(ctx, func(m message) {
		attempts.Go(func() { d.results <- d.attempt(work, m) })
	})
	listening.Wait()
	attempts.Wait()
	time.AfterFunc(shutdownTime, cancel)
	close(d.results)
	<-recorded
	d.sender.close()
}

// onRemoteCommit wakes the dispatcher for an event of another process. An idle process that does not lead first waits a
// moment, so that one event does not make all processes claim. It then claims the deliveries that the others have no
// capacity for.
func (d *dispatcher) onRemoteCommit(string) {
	if d.leading.Load() || !d.slots.onlyInFlight(0) {
		signal(d.wake)
		return
	}
	if d.helping.CompareAndSwap(false, true) {
		time.AfterFunc(helpAfter/2+mathrand.N(helpAfter/2), func() {
			d.helping.Store(false)
			signal(d.wake)
		})
	}
}

// claimUntil starts attempts until ctx ends.
func (d *dispatcher) claimUntil(ctx context.Context, start func(message)) {
	loop := poll.Loop{Name: "webhook deliveries cannot be claimed", Every: idlePolls * d.cfg.Poll, Wake: d.wake,
		Log: d.log}
	_ = loop.Run(ctx, func(ctx context.Context) (bool, error) { return d.claim(ctx, start) }) // until ctx ends
}

// claim leases due deliveries within the available capacity. more reports that the statement's limit was reached.
// Unless an endpoint may have more due deliveries, it returns only when the next claim may start, so that events
// accumulate.
func (d *dispatcher) claim(ctx context.Context, start func(message)) (more bool, err error) {
	soonest, running := poll.Soonest(), ctx
	now := d.db.Clock().Now()
	free, rooms := d.slots.plan(now)
	if free <= 0 {
		return false, nil
	}
	c := claim{
		now: now, leaseUntil: now.Add(d.cfg.Lease), token: rand.Text(), room: d.cfg.EndpointConcurrency, rooms: rooms,
		limit: min(maxClaim, free),
	}
	// The end of ctx does not cancel the statement. Otherwise the deliveries it leased would wait for the end of their
	// lease.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTime)
	defer cancel()
	rows, err := claimDue(ctx, d.queue.Read(), c)
	if err != nil {
		return false, err
	}
	messages := make([]message, 0, len(rows))
	for _, r := range rows {
		m, err := d.message(r, c.token)
		if err != nil {
			d.log.Error("webhook delivery cannot be signed; it is tried again when its lease ends",
				"application", r.ApplicationID, "delivery", r.ID, "error", err)
			continue
		}
		messages = append(messages, m)
	}
	waits, filled := d.slots.take(messages, rooms), fills(messages, rooms, c.room)
	if waits {
		time.AfterFunc(refill, func() { signal(d.wake) })
	}
	d.metrics.inFlight.Add(float64(len(messages)))
	for _, m := range messages {
		start(m)
	}
	if !filled {
		poll.Await(running, soonest)
	}
	return len(rows) == c.limit, nil
}

func (d *dispatcher) message(r claimedRow, token string) (message, error) {
	secret, previous, err := d.openSecrets(r.ApplicationID, sealedSecrets{r.SecretSealed, r.PreviousSecretSealed})
	if err != nil {
		return message{}, err
	}
	return message{
		url: r.URL, secret: secret, previousSecret: previous, deliveryID: r.ID, kind: r.Type,
		sequence: r.Sequence, attempt: r.Attempts + 1, body: r.Body, applicationID: r.ApplicationID,
		consultationID: r.ConsultationID, token: token, scheduleFrom: r.ScheduleFrom, createdAt: r.CreatedAt,
		test: r.ConsultationID == "" && r.ClientID == "", traceParent: r.TraceParent,
	}, nil
}

func (d *dispatcher) attempt(ctx context.Context, m message) result {
	if m.startIn > 0 {
		poll.Pause(ctx, m.startIn)
	}
	startedAt := d.db.Clock().Now()
	ctx, span := d.cfg.Tracer.Call(ctx, "webhook delivery", m.traceParent, startedAt.Sub(m.createdAt))
	if m.attempt == 1 {
		d.metrics.firstDelay.Observe(max(0, startedAt.Sub(m.createdAt).Seconds()))
	}
	o := d.sender.send(ctx, m)
	o.startedAt = startedAt
	d.metrics.attempted(purposeDelivery, o)
	level := slog.LevelInfo
	if o.class != "" {
		level = slog.LevelWarn
	}
	m.describe(span, o)
	span.End(nil)
	d.log.With("application", m.applicationID, "consultation", m.consultationID, "delivery", m.deliveryID,
		"event", m.kind, "sequence", m.sequence, "attempt", m.attempt).Log(ctx, level, "webhook attempt", o.logged()...)
	return result{m, o}
}

// record writes results in batches until the channel is closed and empty.
func (d *dispatcher) record(ctx context.Context) {
	for r := range d.results {
		batch := d.collect(r)
		d.flush(ctx, batch)
		d.release(batch)
	}
}

// collect waits briefly for more results, unless no other attempt in progress could bring one.
func (d *dispatcher) collect(first result) []result {
	batch := []result{first}
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for len(batch) < maxBatch {
		if d.slots.onlyInFlight(len(batch)) {
			return batch
		}
		select {
		case r, ok := <-d.results:
			if !ok {
				return batch
			}
			batch = append(batch, r)
		case <-timer.C:
			return batch
		}
	}
	return batch
}

// flush retries until the batch is recorded, its leases have ended, or ctx ends. Deliveries with a lost result are sent
// again, with the same ID, when their lease ends.
func (d *dispatcher) flush(ctx context.Context, batch []result) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Lease)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := d.write(ctx, batch)
		if err == nil {
			return
		}
		d.log.Error("webhook attempts cannot be recorded", "attempts", len(batch), "error", err)
		if !poll.Pause(ctx, wait) {
			return
		}
	}
}

func (d *dispatcher) write(ctx context.Context, batch []result) error {
	tx := d.queue.Read()
	rows := make([]completion, len(batch))
	seen := map[string]health{}
	for i, r := range batch {
		v := decide(r.attempt-r.scheduleFrom, r.outcome, tx.Now, mathrand.Float64())
		rows[i] = completion{
			ID: r.deliveryID, Token: r.token, Attempt: r.attempt, State: v.state, NextAt: v.nextAt,
			StartedAt: r.startedAt, DurationMs: r.duration.Milliseconds(), Error: r.errorText(),
			ResponseBody: r.outcome.body,
		}
		if r.status != 0 {
			rows[i].StatusCode = &r.status
		}
		if r.class == classProxy { // our failure, not the endpoint's
			continue
		}
		h := seen[r.applicationID]
		if h.URL != r.url { // the URL changed within the batch: the newer results count
			h = health{ApplicationID: r.applicationID, URL: r.url}
		}
		h.OK, h.Gone = h.OK || v.state == Delivered, h.Gone || v.gone
		seen[r.applicationID] = h
	}
	done, err := complete(ctx, tx, rows, slices.AppendSeq(make([]health, 0, len(seen)), maps.Values(seen)))
	if err != nil {
		return err
	}
	for _, r := range batch {
		if !done.recorded[r.deliveryID] {
			d.metrics.lost.Inc()
			d.log.Warn("webhook attempt outlived its lease", "application", r.applicationID, "delivery", r.deliveryID,
				"attempt", r.attempt)
		}
	}
	for application, reason := range done.disabled {
		d.log.Warn("webhook endpoint disabled; its deliveries are held", "application", application, "reason", reason)
	}
	return nil
}

// release frees the slots of a batch. It wakes the dispatcher for deliveries that waited for a slot or for an earlier
// first attempt.
func (d *dispatcher) release(batch []result) {
	d.metrics.inFlight.Sub(float64(len(batch)))
	if ready := d.slots.free(batch, d.db.Clock().Now()); ready {
		signal(d.wake)
	}
}
