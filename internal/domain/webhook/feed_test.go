package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// follow reads the list to its current end. It returns the IDs and the position to continue from.
func (w *world) follow(app string, after int64) (ids []string, last int64) {
	w.t.Helper()
	for {
		page, err := w.svc.Events(w.t.Context(), app, after, 3)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range page.Items {
			ids = append(ids, e.ID)
		}
		if after = page.Last; !page.More {
			return ids, after
		}
	}
}

// A transaction that begins first and commits last is the case in which lists by time or by sequence miss events.
func TestAnEventThatCommitsLateIsNotMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	app, _ := w.application("")
	early, late := w.consultation(app), w.consultation(app)
	written, proceed, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- w.db.InTx(context.Background(), func(tx postgres.Tx) error {
			if err := w.svc.Emit(context.Background(), tx, early, 1, creation...); err != nil {
				return err
			}
			close(written)
			<-proceed
			return nil
		})
	}()
	<-written
	w.emit(late, 1, creation...)
	first, last := w.follow(app, 0)
	if len(first) != 3 {
		t.Fatalf("%d events are listed, want the 3 that have committed", len(first))
	}
	close(proceed)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	second, last := w.follow(app, last)
	if len(second) != 3 || slices.Contains(first, second[0]) {
		t.Errorf("then %v, want the 3 of the transaction that committed late", second)
	}
	if rest, _ := w.follow(app, last); len(rest) != 0 {
		t.Errorf("events came twice: %v", rest)
	}
	if all, _ := w.follow(app, 0); !slices.Equal(all, append(first, second...)) {
		t.Errorf("another reader sees another order: %v", all)
	}
}

func TestFollowersWhoReadWhileManyWriteSeeEveryEventOnceInTheSameOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	app, _ := w.application("")
	const writers, each = 4, 15
	var subjects []Subject
	for range writers {
		subjects = append(subjects, w.consultation(app))
	}
	var writing sync.WaitGroup
	for _, s := range subjects {
		writing.Go(func() {
			for n := range each {
				w.emit(s, int64(n+1), creation[0])
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	var readers [2][]string
	var reading sync.WaitGroup
	for i := range readers {
		reading.Go(func() {
			var last int64
			for end := false; !end; {
				select {
				case <-done:
					end = true // one more round sees everything
				default:
				}
				var ids []string
				ids, last = w.follow(app, last)
				readers[i] = append(readers[i], ids...)
			}
		})
	}
	reading.Wait()
	if len(readers[0]) != writers*each || !slices.Equal(readers[0], readers[1]) {
		t.Errorf("the readers saw %d and %d events of %d, or in different orders",
			len(readers[0]), len(readers[1]), writers*each)
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(readers[0]))); len(unique) != writers*each {
		t.Errorf("%d different events, want %d", len(unique), writers*each)
	}
}

func TestRedeliveryKeepsTheIdentifierUnlessANewOneIsAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	r := newReceiver(t, status(204))
	app, _ := w.application(r.URL)
	other, _ := w.application("")
	w.run(w.svc)
	w.emit(w.consultation(app), 1, creation[0])
	d := w.settled(app, 1)[0]
	again := func(asNew bool) (out Delivery) {
		w.tx(func(tx postgres.Tx) (err error) {
			out, err = w.svc.Redeliver(t.Context(), tx, app, d.ID, asNew)
			return err
		})
		return out
	}
	if out := again(false); out.ID != d.ID || out.State != Pending {
		t.Errorf("%+v", out)
	}
	eventually(t, "sent again", func() bool { return w.deliveries(app)[0].Attempts == 2 })
	fresh := again(true)
	if fresh.ID == d.ID || fresh.EventID != d.EventID || fresh.Attempts != 0 {
		t.Errorf("%+v", fresh)
	}
	eventually(t, "sent as new", func() bool { return len(r.seen()) == 3 })
	p := r.seen()
	for i, want := range []string{d.ID + " 1", d.ID + " 2", fresh.ID + " 1"} {
		if got := p[i].header.Get(HeaderDelivery) + " " + p[i].header.Get(HeaderAttempt); got != want ||
			string(p[i].body) != string(p[0].body) {
			t.Errorf("post %d is %s, want %s, with the same body", i, got, want)
		}
	}
	if err := w.db.InTx(t.Context(), func(tx postgres.Tx) error {
		_, err := w.svc.Redeliver(t.Context(), tx, other, d.ID, false)
		return err
	}); err == nil {
		t.Error("another application sent it again")
	}
}

// A redelivery after the last attempt restarts the whole schedule, not just one attempt.
func TestARedeliveredDeliveryHasItsWholeSchedule(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	w := newWorld(t, clk, sandbox())
	r := newReceiver(t, status(500))
	app, _ := w.application(r.URL)
	w.emit(w.consultation(app), 1, creation[0])
	w.exec("UPDATE webhook_deliveries SET state = 'FAILED', attempts = 12, ended_at = now()")
	d := w.deliveries(app)[0]
	w.tx(func(tx postgres.Tx) error {
		_, err := w.svc.Redeliver(t.Context(), tx, app, d.ID, false)
		return err
	})
	w.run(w.svc)
	d = w.settled(app, 13)[0]
	if d.State != Pending || d.NextAt == nil || d.NextAt.Sub(clk.Now()) > 6*time.Second {
		t.Errorf("after attempt 13: %+v, want a retry in about 5 s", d)
	}
}

// A delivery that waits near the end of its schedule also gets a whole one. A delivery in progress stays unchanged.
func TestARedeliveredPendingDeliveryHasItsWholeSchedule(t *testing.T) {
	t.Parallel()
	for form, again := range map[string]func(w *world, tx postgres.Tx, app string) error{
		"one": func(w *world, tx postgres.Tx, app string) error {
			for _, id := range w.deliveriesOf("state = 'PENDING'") {
				if _, err := w.svc.Redeliver(t.Context(), tx, app, id, false); err != nil {
					return err
				}
			}
			return nil
		},
		"range": func(w *world, tx postgres.Tx, app string) error {
			_, _, err := w.svc.RedeliverRange(t.Context(), tx, app,
				RedeliveryFilter{From: tx.Now, To: tx.Now.Add(time.Hour)})
			return err
		},
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
			w := newWorld(t, clk, sandbox())
			r := newReceiver(t, status(500))
			app, _ := w.application(r.URL)
			w.emit(w.consultation(app), 1, creation[:2]...)
			w.exec("UPDATE webhook_deliveries SET attempts = 11, next_at = next_at + interval '1 day'")
			w.exec("UPDATE webhook_deliveries SET lease_until = $1, lease_token = 'x' WHERE sequence = 2",
				clk.Now().Add(time.Minute))
			w.tx(func(tx postgres.Tx) error { return again(w, tx, app) })
			if got := w.deliveriesOf("sequence = 2 AND schedule_from = 0 AND lease_token = 'x' AND " +
				"next_at > created_at"); len(got) != 1 {
				t.Error("the one under way was changed")
			}
			w.run(w.svc)
			var d Delivery
			eventually(t, "sent again", func() bool { d = w.deliveries(app)[0]; return d.Attempts == 12 })
			if d.State != Pending || d.NextAt == nil || d.NextAt.Sub(clk.Now()) > 6*time.Second {
				t.Errorf("after attempt 12: %+v, want a retry in about 5 s", d)
			}
		})
	}
}

func TestARangeIsSentAgainAfterAnOutage(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	w := newWorld(t, clk, sandbox())
	app, _ := w.application("")
	from := clk.Now()
	c := w.consultation(app)
	for n := range 6 {
		w.emit(c, int64(n+1), creation[0])
		clk.Advance(time.Hour)
	}
	// 1 delivered, 2 failed, 3 waits for a retry, 4 not attempted yet, 5 in progress, 6 failed outside the range
	w.exec("UPDATE webhook_deliveries SET state = 'DELIVERED', attempts = 1, ended_at = now() WHERE sequence = 1")
	w.exec("UPDATE webhook_deliveries SET state = 'FAILED', attempts = 12, ended_at = now() WHERE sequence IN (2, 6)")
	w.exec("UPDATE webhook_deliveries SET attempts = 3, next_at = next_at + interval '1 day' WHERE sequence = 3")
	w.exec("UPDATE webhook_deliveries SET attempts = 1, lease_until = $1, lease_token = 'x' WHERE sequence = 5",
		clk.Now().Add(time.Minute))
	f := RedeliveryFilter{From: from, To: from.Add(5 * time.Hour)}
	send := func() (n int) {
		w.tx(func(tx postgres.Tx) (err error) {
			n, _, err = w.svc.RedeliverRange(t.Context(), tx, app, f)
			return err
		})
		return n
	}
	states := func() (out string) {
		for _, d := range w.deliveries(app) {
			out += fmt.Sprintf("%d%.1s%v ", d.Sequence, d.State, d.NextAt != nil && d.NextAt.Equal(clk.Now()))
		}
		return out
	}
	if n := send(); n != 3 {
		t.Errorf("%d taken, want 2, 3 and 5", n)
	}
	if got, want := states(), "1Dfalse 2Ptrue 3Ptrue 4Pfalse 5Pfalse 6Ffalse "; got != want {
		t.Errorf("states %s, want %s", got, want)
	}
	f.All = true
	if n := send(); n != 5 {
		t.Errorf("%d taken of all, want 5", n)
	}
	w.exec("UPDATE webhook_deliveries SET state = 'FAILED', attempts = 12, ended_at = now(), lease_token = NULL, lease_until = NULL WHERE sequence < 6")
	f.All, f.AsNew = false, true
	clk.Advance(time.Hour)
	if n := send(); n != 5 || len(w.deliveries(app)) != 11 {
		t.Errorf("%d taken as new, %d deliveries", n, len(w.deliveries(app)))
	}
	if n := send(); n != 0 {
		t.Errorf("%d taken again, though newer deliveries are on their way", n)
	}
}

// Requests can add to an application's pending deliveries up to a limit. Real events are always added, and deliveries
// already pending can be sent now.
func TestAskedForDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	app, _ := w.application("")
	other, _ := w.application("")
	from := time.Now().Add(-time.Hour)
	w.exec(`INSERT INTO webhook_events (id, application_id, sequence, type, body, created_at)
		SELECT 'evt_' || n, $1, 1, 'consultation.created', '{}', $2::timestamptz + n * interval '1 ms' FROM generate_series(1, $3::int) n`, app, from, maxPending+100)
	w.exec(`INSERT INTO webhook_deliveries (id, event_id, application_id, sequence, state, attempts, next_at, created_at, ended_at)
		SELECT 'dlv_' || id, id, application_id, 1, CASE WHEN n > 105 THEN 'PENDING' ELSE 'FAILED' END, 1, created_at, created_at,
			CASE WHEN n <= 105 THEN created_at END
		FROM (SELECT *, row_number() OVER (ORDER BY created_at) AS n FROM webhook_events WHERE application_id = $1) e`,
		app)
	f := RedeliveryFilter{From: from, To: from.Add(time.Hour)}
	ask := func(ask func(tx postgres.Tx) error) error { return w.db.InTx(t.Context(), ask) }
	refused := func(what string, err error) {
		t.Helper()
		var p *problem.Error
		if !errors.As(err, &p) || !errors.Is(p, problem.ErrRateLimited) || p.RetryAfter <= 0 {
			t.Errorf("%s: %v", what, err)
		}
	}
	var next *Position
	part := func(tx postgres.Tx) (err error) {
		var n int
		if next != nil {
			f.After = *next
		}
		n, next, err = w.svc.RedeliverRange(t.Context(), tx, app, f)
		if err == nil && n != 5 {
			t.Errorf("%d were taken, want the 5 that there is room for", n)
		}
		return err
	}
	if err := ask(part); err != nil || next == nil {
		t.Fatalf("next %v, %v", next, err)
	}
	refused("the next part", ask(part))
	refused("a new identifier", ask(func(tx postgres.Tx) error {
		_, err := w.svc.Redeliver(t.Context(), tx, app, "dlv_evt_1", true)
		return err
	}))
	refused("one that ended", ask(func(tx postgres.Tx) error {
		_, err := w.svc.Redeliver(t.Context(), tx, app, "dlv_evt_50", false)
		return err
	}))
	refused("a test",
		ask(func(tx postgres.Tx) error { _, err := w.svc.SendTest(t.Context(), tx, app, Created); return err }))
	w.tx(func(tx postgres.Tx) error { _, err := w.svc.SendTest(t.Context(), tx, other, Created); return err })
	w.tx(func(tx postgres.Tx) error {
		_, err := w.svc.Redeliver(t.Context(), tx, app, "dlv_evt_200", false)
		return err
	})
	w.emit(w.consultation(app), 1, creation...)
	w.tx(func(tx postgres.Tx) error {
		n, _, err := w.svc.RedeliverRange(t.Context(), tx, app, RedeliveryFilter{From: from.Add(200 * time.Millisecond),
			To: from.Add(time.Hour)})
		if n != maxRedelivered {
			t.Errorf("%d pending ones were taken", n)
		}
		return err
	})
}
