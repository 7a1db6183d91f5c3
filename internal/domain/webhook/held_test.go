package webhook

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/infra/postgres"
)

// holdAll marks everything that may not be sent.
func (w *world) holdAll(d *dispatcher) {
	w.t.Helper()
	for more := true; more; {
		var err error
		if more, err = d.updateHeld(w.t.Context(), d.queue); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	if err := w.db.Pool().QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// A claim reads only rows of applications that get deliveries, however many other deliveries are held.
func TestClaimsDoNotPassWhatIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	w.tune("ALTER TABLE webhook_deliveries SET (autovacuum_enabled = off)")
	const held, each, batch = 1000, 5, 20
	app, _ := w.application("https://crm.example/hooks")
	w.exec(
		`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at, suspended_at)
		SELECT 'app_held_' || n, 'Demo CRM', '{}', '{}', '\x00', now(), now(), CASE WHEN n % 3 = 0 THEN now() END FROM generate_series(1, $1) n`, held,
	)
	w.exec(`INSERT INTO webhook_endpoints (application_id, url, secret_sealed, disabled_at, disabled_reason, created_at, updated_at)
		SELECT id, CASE WHEN n % 3 <> 1 THEN 'https://crm.example/hooks' END, '\x00', CASE WHEN n % 3 = 2 THEN now() END, CASE WHEN n % 3 = 2 THEN 'gone' END, now(), now()
		FROM (SELECT id, substr(id, 10)::int AS n FROM applications WHERE id LIKE 'app\_held\_%') a`)
	w.exec(`INSERT INTO webhook_events (id, application_id, sequence, type, body, created_at)
		SELECT 'evt_' || application_id || '_' || n, application_id, n, 'consultation.created', '{}', now() FROM webhook_endpoints, generate_series(1, $1) n
		WHERE application_id <> $2`, each, app)
	w.exec(`INSERT INTO webhook_deliveries (id, event_id, application_id, sequence, state, next_at, created_at)
		SELECT 'dlv_' || id, id, application_id, sequence, 'PENDING', now(), now() FROM webhook_events`)
	for i := range batch {
		w.emit(w.consultation(app), int64(i+1), creation[0])
	}
	d := w.dispatcher()
	claims := func() (claimed, rows int) {
		err := d.queue.InTx(t.Context(), func(tx postgres.Tx) error {
			before, err := readRows(t.Context(), tx)
			if err != nil {
				return err
			}
			got, err := claimDue(t.Context(), tx, claim{now: tx.Now, leaseUntil: tx.Now, token: "t",
				room: batch, limit: 500})
			if err != nil {
				return err
			}
			claimed = len(got)
			rows, err = readRows(t.Context(), tx)
			rows -= before
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return claimed, rows
	}
	if n, rows := claims(); n != batch || rows < held {
		t.Errorf("%d claimed, %d rows were read before anything was held apart", n, rows)
	}
	w.holdAll(d)
	if n := w.count("SELECT count(*) FROM webhook_deliveries WHERE held"); n != held*each {
		t.Errorf("%d are held", n)
	}
	if n, rows := claims(); n != batch || rows > 10*batch {
		t.Errorf("%d claimed, %d rows were read", n, rows)
	}
	if f, err := selectFigures(t.Context(), w.db.Read()); err != nil || f.Held != held*each || f.Due != batch {
		t.Errorf("%v are held, %v due, %v", f.Held, f.Due, err)
	}
}

// An endpoint is enabled and its held deliveries are released while the rest is being marked. The marks that commit
// last are found as well.
func TestWhatIsMarkedWhileItsEndpointIsEnabledIsLetGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	app, _ := w.application("")
	c := w.consultation(app)
	const events = 20
	for n := range events {
		w.emit(c, int64(n+1), creation[0])
	}
	d := w.dispatcher()
	if n, err := holdClosed(t.Context(), d.queue.Read(), events/2); n != events/2 || err != nil {
		t.Fatalf("%d marked, %v", n, err)
	}
	opened := make(chan error, 1)
	w.tx(func(tx postgres.Tx) error {
		if n, err := holdClosed(t.Context(), tx, events); n != events/2 || err != nil {
			t.Fatalf("%d marked, %v", n, err)
		}
		go func() {
			err := w.db.InTx(t.Context(),
				func(tx postgres.Tx) error { return w.svc.SetURL(t.Context(), tx, app, "http://127.0.0.1:9/") })
			for more := true; more && err == nil; {
				more, err = d.updateHeld(t.Context(), d.queue)
			}
			opened <- err
		}()
		eventually(t, "the endpoint is open, or waits for the lock", func() bool {
			return len(opened) == 1 ||
				w.count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
		})
		return nil
	})
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	w.holdAll(d)
	if n := w.count("SELECT count(*) FROM webhook_deliveries WHERE held"); n > 0 {
		t.Errorf("%d are still held", n)
	}
	if n := w.count("SELECT count(*) FROM webhook_endpoints WHERE parked"); n > 0 {
		t.Error("the endpoint is still parked")
	}
}

// Held deliveries are released in parts, earliest due first. The endpoint stays parked until the last part is released.
func TestHeldDeliveriesAreLetGoInParts(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	w := newWorld(t, clk, sandbox())
	app, _ := w.application("")
	c := w.consultation(app)
	const events, part = 10, 4
	for n := range events {
		w.emit(c, int64(n+1), creation[0])
		clk.Advance(time.Second)
	}
	d := w.dispatcher()
	w.holdAll(d)
	w.tx(func(tx postgres.Tx) error { return w.svc.SetURL(t.Context(), tx, app, "http://127.0.0.1:9/") })
	for _, want := range []struct{ held, first, parked int }{{6, 5, 1}, {2, 9, 1}, {0, 0, 0}, {0, 0, 0}} {
		w.tx(func(tx postgres.Tx) error {
			reopened, err := lockReopened(t.Context(), tx)
			if err != nil || len(reopened) == 0 {
				return err
			}
			_, err = releaseHeld(t.Context(), tx, reopened, part)
			return err
		})
		held := w.count("SELECT count(*) FROM webhook_deliveries WHERE held")
		first := w.count("SELECT coalesce(min(sequence), 0) FROM webhook_deliveries WHERE held")
		if parked := w.count("SELECT count(*) FROM webhook_endpoints WHERE parked"); held != want.held ||
			first != want.first || parked != want.parked {
			t.Errorf("%d are held, from event %d on, %d endpoints parked; want %+v", held, first, parked, want)
		}
	}
}

// Two processes deliver while an endpoint is closed and opened repeatedly and events continue. Each event arrives once,
// after the earlier ones of its consultation.
func TestAnEndpointThatOpensAndClosesGetsEverythingInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	const consultations, events = 40, 30
	crm := newReceiver(t, status(http.StatusNoContent))
	app, _ := w.application(crm.URL)
	subjects := make([]Subject, consultations)
	for i := range subjects {
		subjects[i] = w.consultation(app)
	}
	d := w.dispatcher()
	w.run(w.svc)
	w.run(w.service(sandbox()))
	written := make(chan struct{})
	go func() {
		defer close(written)
		for n := range events {
			for _, s := range subjects {
				w.emit(s, int64(n+1), creation[0])
			}
		}
	}()
	held := 0
	for writing := true; writing; {
		w.exec(
			"UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'failing' WHERE application_id = $1", app,
		)
		n, err := holdClosed(t.Context(), d.queue.Read(), 7)
		if err != nil {
			t.Fatal(err)
		}
		held += n
		w.tx(func(tx postgres.Tx) error { return w.svc.EnableEndpoint(t.Context(), tx, app) })
		select {
		case <-written:
			writing = false
		default:
		}
	}
	eventually(t, "everything is delivered", func() bool {
		return w.count("SELECT count(*) FROM webhook_deliveries WHERE state <> 'DELIVERED'") == 0
	})
	if held == 0 {
		t.Error("nothing was ever held")
	}
	arrived := map[string]int{} // by consultation
	for _, p := range crm.seen() {
		var event struct {
			Data struct{ ID string }
		}
		if err := json.Unmarshal(p.body, &event); err != nil {
			t.Fatal(err)
		}
		arrived[event.Data.ID]++
		if n := strconv.Itoa(arrived[event.Data.ID]); n != p.header.Get(HeaderSequence) {
			t.Errorf("event %s came at place %s", p.header.Get(HeaderSequence), n)
		}
	}
	for _, s := range subjects {
		if arrived[s.ConsultationID] != events {
			t.Errorf("%d of %d events arrived", arrived[s.ConsultationID], events)
		}
	}
}
