package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
)

// hooksOutage takes one endpoint down until its events have piled up, brings it back, and waits for the backlog. The
// other endpoints get 200 events/s before and during this.
func hooksOutage(ctx context.Context, e *Env) ([]Result, error) {
	const apps, rate, perConsultation = 50, 200, 50
	load := int(e.Load.Seconds()) * rate
	r, err := newHookRig(ctx, e, apps, max(apps*(e.Count/perConsultation+1), 2*load+2*apps))
	if err != nil {
		return nil, err
	}
	defer r.close()
	var down, others []webhook.Subject
	for _, s := range r.subjects {
		if s.ApplicationID == r.apps[0] {
			down = append(down, s)
		} else {
			others = append(others, s)
		}
	}
	r.deliver(ctx, r.svc)
	n, err := r.emitAt(ctx, rate, e.Load, func(i int) webhook.Subject { return others[i] })
	if err != nil {
		return nil, err
	}
	if err := r.settled(ctx, n); err != nil {
		return nil, err
	}
	before := r.latencies().Percentile(99)
	r.down.Store(true)
	from := r.db.Clock().Now()
	if err := r.pileUp(ctx, down[:e.Count/perConsultation], perConsultation); err != nil {
		return nil, err
	}
	r.received.Clear()
	r.down.Store(false)
	began := time.Now()
	if err := r.sendAgain(ctx, webhook.RedeliveryFilter{From: from,
		To: r.db.Clock().Now().Add(time.Minute)}); err != nil {
		return nil, err
	}
	m, err := r.emitAt(ctx, rate, e.Load, func(i int) webhook.Subject { return others[n+i] })
	if err != nil {
		return nil, err
	}
	backlog := e.Count / perConsultation * perConsultation
	if err := r.settled(ctx, n+m+backlog); err != nil {
		return nil, err
	}
	drained := time.Since(began)
	during := r.latencies().Percentile(99)
	return []Result{
		{Measure: fmt.Sprintf("backlog of %d delivered", backlog), Value: float64(backlog) / drained.Seconds(),
			Unit: "events/s at least"},
		{Measure: "the others before, p99", Value: before, Unit: "ms"},
		{Measure: "the others during it, p99", Value: during, Unit: "ms"},
		{Measure: "during / before", Value: during / before, Unit: "×", AtMost: 2},
	}, nil
}

// pileUp writes n events of each subject.
func (r *hookRig) pileUp(ctx context.Context, subjects []webhook.Subject, n int) error {
	var g errgroup.Group
	var next atomic.Int64
	for range 8 {
		g.Go(func() error {
			for i := next.Add(1) - 1; int(i) < len(subjects); i = next.Add(1) - 1 {
				events := make([]webhook.Event, n)
				for k := range events {
					events[k] = webhook.Event{Type: webhook.Matching, Status: "MATCHING"}
				}
				err := r.db.InTx(ctx,
					func(tx postgres.Tx) error { return r.svc.Emit(ctx, tx, subjects[i], 1, events...) })
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func (r *hookRig) sendAgain(ctx context.Context, f webhook.RedeliveryFilter) error {
	for {
		var next *webhook.Position
		err := r.db.InTx(ctx, func(tx postgres.Tx) (err error) {
			_, next, err = r.svc.RedeliverRange(ctx, tx, r.apps[0], f)
			return err
		})
		if err != nil || next == nil {
			return err
		}
		f.After = *next
	}
}

// hooksHeld measures 50 open endpoints while 1000 disabled ones hold 20 deliveries each.
func hooksHeld(ctx context.Context, e *Env) ([]Result, error) {
	const apps, open, each, rate = 1050, 50, 20, 200
	load := int(e.Load.Seconds()) * rate
	r, err := newHookRig(ctx, e, apps, apps*((load+e.Count)/open+1))
	if err != nil {
		return nil, err
	}
	defer r.close()
	held, sent := r.subjects[open:apps], []webhook.Subject{}
	for i, s := range r.subjects {
		if i%apps < open {
			sent = append(sent, s)
		}
	}
	if err := execute(ctx, r.db,
		"UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'failing' WHERE application_id >= $1",
		r.apps[open]); err != nil {
		return nil, err
	}
	if err := r.pileUp(ctx, held, each); err != nil {
		return nil, err
	}
	r.deliver(ctx, r.svc)
	began, apart := time.Now(), 0
	for apart < len(held)*each {
		if err := r.db.Pool().QueryRow(ctx, "SELECT count(*) FROM webhook_deliveries WHERE held").
			Scan(&apart); err != nil {
			return nil, err
		}
		if time.Since(began) > hookPatience {
			return nil, fmt.Errorf("%d deliveries were held apart within %v", apart, hookPatience)
		}
		time.Sleep(5 * time.Millisecond)
	}
	marked := float64(apart) / time.Since(began).Seconds()
	n, err := r.emitAt(ctx, rate, e.Load, func(i int) webhook.Subject { return sent[i] })
	if err != nil {
		return nil, err
	}
	if err := r.settled(ctx, n); err != nil {
		return nil, err
	}
	l := r.latencies()
	r.subjects = sent[n : n+e.Count]
	start := time.Now()
	if err := r.emitAll(ctx, 16); err != nil {
		return nil, err
	}
	if err := r.settled(ctx, n+e.Count); err != nil {
		return nil, err
	}
	return []Result{
		{Measure: "held apart", Value: marked, Unit: "deliveries/s"},
		{Measure: "commit to arrival at 200/s, p50", Value: l.Percentile(50), Unit: "ms", AtMost: 10},
		{Measure: "commit to arrival at 200/s, p99", Value: l.Percentile(99), Unit: "ms", AtMost: 50},
		{Measure: "committed, received, verified, recorded", Value: float64(e.Count) / time.Since(start).Seconds(),
			Unit: "events/s", AtLeast: 1500, PGBench: 16},
	}, nil
}
