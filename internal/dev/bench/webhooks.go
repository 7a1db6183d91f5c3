package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"partnerd/internal/domain/wallet"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
)

func webhookScenarios() []Scenario {
	return []Scenario{
		{"webhooks/end to end", hooksEndToEnd},
		{"webhooks/backlog", hooksBacklog},
		{"webhooks/200 a second", hooksLatency(200, 50)},
		{"webhooks/1000 a second", hooksLatency(1000, 100)},
		{"webhooks/notifications off", hooksPolling},
		{"webhooks/1 of 100 hung", hooksIsolation(1, 100)},
		{"webhooks/50 of 100 hung", hooksIsolation(50, 250)},
		{"webhooks/down and back", hooksOutage},
		{"webhooks/1000 held", hooksHeld},
		{"webhooks/cost of an event", hooksEmitCost},
		{"webhooks/large tables", hooksLargeTables},
	}
}

// hooksEndToEnd sends one event per transaction, from 16 concurrent writers, to 50 endpoints. It ends when the last
// event is received, verified and recorded with its attempt.
func hooksEndToEnd(ctx context.Context, e *Env) ([]Result, error) {
	r, err := newHookRig(ctx, e, 50, e.Count)
	if err != nil {
		return nil, err
	}
	defer r.close()
	r.deliver(ctx, r.svc)
	start := time.Now()
	if err := r.emitAll(ctx, 16); err != nil {
		return nil, err
	}
	if err := r.settled(ctx, e.Count); err != nil {
		return nil, err
	}
	return []Result{{Measure: "committed, received, verified, recorded",
		Value: float64(e.Count) / time.Since(start).Seconds(), Unit: "events/s", AtLeast: 1500, PGBench: 16}}, nil
}

// hooksBacklog measures deliveries that are waiting when the dispatcher starts.
func hooksBacklog(ctx context.Context, e *Env) ([]Result, error) {
	r, err := newHookRig(ctx, e, 50, e.Count)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.emitAll(ctx, 16); err != nil {
		return nil, err
	}
	start := time.Now()
	r.deliver(ctx, r.svc)
	if err := r.settled(ctx, e.Count); err != nil {
		return nil, err
	}
	return []Result{{Measure: "drained", Value: float64(e.Count) / time.Since(start).Seconds(), Unit: "events/s",
		AtLeast: 4000, PGBench: 16}}, nil
}

func hooksLatency(rate int, p99 float64) func(context.Context, *Env) ([]Result, error) {
	return func(ctx context.Context, e *Env) ([]Result, error) {
		r, err := newHookRig(ctx, e, 50, int(e.Load.Seconds())*rate)
		if err != nil {
			return nil, err
		}
		defer r.close()
		r.deliver(ctx, r.svc)
		n, err := r.emitAt(ctx, rate, e.Load, func(i int) webhook.Subject { return r.subjects[i] })
		if err != nil {
			return nil, err
		}
		if err := r.settled(ctx, n); err != nil {
			return nil, err
		}
		l := r.latencies()
		p50 := Result{Measure: "commit to arrival, p50", Value: l.Percentile(50), Unit: "ms"}
		if rate == 200 {
			p50.AtMost = 10
		}
		return []Result{p50, {Measure: "commit to arrival, p99", Value: l.Percentile(99), Unit: "ms", AtMost: p99}}, nil
	}
}

// hooksPolling measures a dispatcher that is not notified of the events that another process writes.
func hooksPolling(ctx context.Context, e *Env) ([]Result, error) {
	r, err := newHookRig(ctx, e, 50, int(e.Load.Seconds())*200)
	if err != nil {
		return nil, err
	}
	defer r.close()
	// r.svc does not run, so it notifies no one.
	r.deliver(ctx, webhook.New(r.db, r.box, webhook.Config{Sandbox: true, AllowLoopback: true}))
	n, err := r.emitAt(ctx, 200, e.Load, func(i int) webhook.Subject { return r.subjects[i] })
	if err != nil {
		return nil, err
	}
	if err := r.settled(ctx, n); err != nil {
		return nil, err
	}
	return []Result{{Measure: "commit to arrival, p99", Value: r.latencies().Percentile(99), Unit: "ms", AtMost: 750}},
		nil
}

// hooksIsolation sends 200 events/s, half of them to endpoints that accept connections and never respond.
func hooksIsolation(hung int, p99 float64) func(context.Context, *Env) ([]Result, error) {
	return func(ctx context.Context, e *Env) ([]Result, error) {
		const apps, rate = 100, 200
		var stalled []int
		for i := range hung {
			stalled = append(stalled, i)
		}
		// Creates twice the consultations needed, because half of the events use those of the hung endpoints.
		r, err := newHookRig(ctx, e, apps, apps*int(e.Load.Seconds())*rate, stalled...)
		if err != nil {
			return nil, err
		}
		defer r.close()
		r.deliver(ctx, r.svc)
		healthy := 0
		n, err := r.emitAt(ctx, rate, e.Load, func(i int) webhook.Subject {
			row := i / 2 // the i-th pair of events: one to a hung endpoint, one to a healthy one, each in turn
			if i%2 == 0 {
				return r.subjects[(row/hung)*apps+row%hung]
			}
			healthy++
			return r.subjects[(row/(apps-hung))*apps+hung+row%(apps-hung)]
		})
		if err != nil {
			return nil, err
		}
		if err := r.await(ctx, healthy); err != nil {
			return nil, err
		}
		return []Result{
			{Measure: "healthy endpoints, p99", Value: r.latencies().Percentile(99), Unit: "ms", AtMost: p99},
			{Measure: "healthy events attempted", Value: 100 * float64(r.arrived.Load()) / float64(n/2), Unit: "%",
				AtLeast: 100},
		}, nil
	}
}

// hooksEmitCost compares the transaction that starts a consultation (its row and the hold of its price) with and
// without an event. It alternates between the two, with 4 writers.
func hooksEmitCost(ctx context.Context, e *Env) ([]Result, error) {
	r, err := newHookRig(ctx, e, 50, 1)
	if err != nil {
		return nil, err
	}
	defer r.close()
	const writers, turns = 4, 6
	wallets := wallet.New()
	for i := range writers {
		client := fmt.Sprintf("cli_writer_%d", i)
		if err := execute(ctx, r.db, `INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ($1, $1 || '@client.example', 'Bench Client', '', now(), now())`, client); err != nil {
			return nil, err
		}
		err := r.db.InTx(ctx, func(tx postgres.Tx) error {
			if err := wallets.Open(ctx, tx, client); err != nil {
				return err
			}
			return wallets.Adjust(ctx, tx, client, wallet.MaxAdjustment, "Bench")
		})
		if err != nil {
			return nil, err
		}
	}
	var took [2]time.Duration // without, with
	var made atomic.Int64
	each := max(200, e.Count/40)
	for turn := range turns + 2 { // the first two turns warm up
		with := turn%2 == 1
		start := time.Now()
		var g errgroup.Group
		for w := range writers {
			g.Go(func() error {
				for range each / writers {
					if err := r.business(ctx, wallets, fmt.Sprintf("cli_writer_%d", w), made.Add(1), with); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		if turn >= 2 {
			took[turn%2] += time.Since(start)
		}
	}
	rate := func(d time.Duration) float64 { return float64(turns/2*(each/writers)*writers) / d.Seconds() }
	return []Result{
		{Measure: "without", Value: rate(took[0]), Unit: "transactions/s", PGBench: writers},
		{Measure: "with one event", Value: rate(took[1]), Unit: "transactions/s", PGBench: writers},
		{Measure: "cost", Value: 100 * (took[1].Seconds()/took[0].Seconds() - 1), Unit: "%", AtMost: 30},
	}, nil
}

func (r *hookRig) business(ctx context.Context, wallets *wallet.Service, client string, n int64, with bool) error {
	id, app := fmt.Sprintf("con_cost_%d", n), r.apps[int(n)%len(r.apps)]
	return r.db.InTx(ctx, func(tx postgres.Tx) error {
		err := insertConsultation(ctx, tx, id, app, client)
		if err != nil {
			return err
		}
		if err := wallets.Hold(ctx, tx, wallet.HoldCommand{ClientID: client, ApplicationID: app, ConsultationID: id,
			Amount: wallet.Price}); err != nil {
			return err
		}
		if !with {
			return nil
		}
		return r.svc.Emit(ctx, tx, webhook.Subject{ApplicationID: app, ConsultationID: id, Competence: "HOUSING"}, 1,
			webhook.Event{Type: webhook.Matching, Status: "MATCHING"})
	})
}
