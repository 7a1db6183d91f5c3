package webhook

import (
	"context"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

// tune runs a statement as the owner of the tables.
func (w *world) tune(sql string) {
	w.t.Helper()
	if _, err := dbtest.Owner(w.t, w.db).Pool().Exec(w.t.Context(), sql); err != nil {
		w.t.Fatal(err)
	}
}

// The dispatcher's statements read only what they need, with plans made when the tables were empty, and with statistics
// that still describe them as empty.
func TestDispatchReadsOnlyWhatItNeeds(t *testing.T) {
	t.Parallel()
	dbtest.Unused(t)
	w := newWorld(t, clock.System{}, sandbox())
	w.tune("ALTER TABLE webhook_deliveries SET (autovacuum_enabled = off)")
	app, _ := w.application("https://crm.example/hooks")
	w.exec(`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at)
		SELECT 'app_other_' || n, 'Demo CRM', '{}', '{}', '\x00', now(), now() FROM generate_series(1, 1000) n`)
	w.exec(`INSERT INTO webhook_endpoints (application_id, url, secret_sealed, created_at, updated_at)
		SELECT id, 'https://crm.example/hooks', '\x00', now(), now() FROM applications WHERE id LIKE 'app\_other\_%'`)
	d := w.dispatcher()
	const batch = 20
	reads := func() (rows int) {
		err := d.queue.InTx(t.Context(), func(tx postgres.Tx) error {
			before, err := readRows(t.Context(), tx)
			if err != nil {
				return err
			}
			claimed, err := claimDue(t.Context(), tx, claim{now: tx.Now, leaseUntil: tx.Now.Add(time.Minute),
				token: "t", room: batch, limit: 500})
			if err != nil {
				return err
			}
			results := []completion{}
			for _, c := range claimed {
				results = append(results, completion{ID: c.ID, Token: "t", Attempt: 1, State: Delivered, NextAt: tx.Now,
					StartedAt: tx.Now})
			}
			done, err := complete(t.Context(), tx, results,
				[]health{{ApplicationID: app, URL: "https://crm.example/hooks", OK: true}})
			if err != nil {
				return err
			}
			if len(done.recorded) != len(claimed) {
				t.Errorf("%d recorded of %d claimed", len(done.recorded), len(claimed))
			}
			rows, err = readRows(t.Context(), tx)
			rows -= before
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	if n := reads(); n > 1 { // the endpoint whose health is reported
		t.Errorf("%d rows were read without a delivery", n)
	}
	c := w.consultation(app)
	w.exec(`INSERT INTO webhook_events (id, application_id, consultation_id, sequence, type, body, created_at)
		SELECT 'evt_' || n, $1, $2, n, 'consultation.created', '{}', now() FROM generate_series(1, 20000) n`,
		app, c.ConsultationID)
	w.exec(`INSERT INTO webhook_deliveries (id, event_id, application_id, consultation_id, sequence, state, attempts, next_at, created_at, ended_at)
		SELECT 'dlv_' || sequence, id, application_id, consultation_id, sequence, 'DELIVERED', 1, now(), now(), now() FROM webhook_events`)
	for i := range batch {
		w.emit(w.consultation(app), int64(i+1), creation[0])
	}
	if n := reads(); n == 0 || n > 10*batch {
		t.Errorf("%d rows were read to claim and record %d deliveries", n, batch)
	}
}

// A page of the list reads only the deliveries that it shows. It reads no deliveries in other states or of other
// applications in between, and no newer ones of its own application.
func TestAPageOfDeliveriesReadsOnlyItself(t *testing.T) {
	t.Parallel()
	dbtest.Unused(t)
	w := newWorld(t, clock.System{}, sandbox())
	app, _ := w.application("")
	deaf, _ := w.application("")
	for range 8 {
		w.application("")
	}
	c := w.consultation(app)
	w.exec(`INSERT INTO webhook_events (id, application_id, consultation_id, sequence, type, body, created_at)
		SELECT 'evt_0' || to_char(n, 'FM000000'), a.id, $1, n, 'consultation.created', '{}', now() - interval '20 days' + n * interval '1 minute'
		FROM (SELECT id, row_number() OVER (ORDER BY id) AS k FROM applications) a, generate_series(1, 20000) n WHERE n % 10 + 1 = a.k`, c.ConsultationID)
	w.exec(`INSERT INTO webhook_deliveries (id, event_id, application_id, consultation_id, sequence, state, attempts, next_at, created_at, ended_at)
		SELECT 'dlv_' || substr(id, 5), id, application_id, consultation_id, sequence, state, 1, created_at, created_at, CASE WHEN state <> 'PENDING' THEN created_at END
		FROM (SELECT *, CASE WHEN application_id = $1 THEN 'PENDING' WHEN application_id <> $2 AND sequence % 100 < 10 THEN 'FAILED' ELSE 'DELIVERED' END AS state FROM webhook_events) e`, deaf, app)
	w.tune("ANALYZE webhook_events, webhook_deliveries")
	const page = 20
	middle := Position{time.Now().Add(-14 * 24 * time.Hour), "dlv_"}
	w.tx(func(tx postgres.Tx) error {
		for _, x := range []struct {
			name        string
			application string
			f           DeliveryFilter
			want        int // deliveries
		}{
			{"newest", app, DeliveryFilter{}, page},
			{"later", app, DeliveryFilter{Before: middle}, page},
			{"between", app, DeliveryFilter{From: middle.CreatedAt.Add(-24 * time.Hour), To: middle.CreatedAt}, page},
			{"pending", deaf, DeliveryFilter{State: Pending}, page},
			{"pending, later", deaf, DeliveryFilter{State: Pending, Before: middle}, page},
			{"pending, none", app, DeliveryFilter{State: Pending}, 0},
			{"pending, none, later", app, DeliveryFilter{State: Pending, Before: middle}, 0},
			{"pending, none, between", app, DeliveryFilter{State: Pending, From: middle.CreatedAt.Add(-24 * time.Hour),
				To: middle.CreatedAt}, 0},
			{"delivered", app, DeliveryFilter{State: Delivered}, page},
			{"delivered, later", app, DeliveryFilter{State: Delivered, Before: middle}, page},
			{"delivered, none", deaf, DeliveryFilter{State: Delivered}, 0},
			{"delivered, none, later", deaf, DeliveryFilter{State: Delivered, Before: middle}, 0},
			{"delivered, none, between", deaf,
				DeliveryFilter{State: Delivered, From: middle.CreatedAt.Add(-24 * time.Hour), To: middle.CreatedAt}, 0},
			{"failed, none", app, DeliveryFilter{State: Failed}, 0},
			{"failed, none, between", app, DeliveryFilter{State: Failed, From: middle.CreatedAt.Add(-24 * time.Hour),
				To: middle.CreatedAt}, 0},
			{"pending, of an unknown consultation", deaf, DeliveryFilter{State: Pending, ConsultationID: "con_none"},
				0},
			{"of an unknown event", app, DeliveryFilter{EventID: "evt_none"}, 0},
		} {
			before, err := readRows(t.Context(), tx)
			if err != nil {
				return err
			}
			found, err := selectDeliveries(t.Context(), tx, x.application, x.f, page)
			if err != nil {
				return err
			}
			after, err := readRows(t.Context(), tx)
			if err != nil {
				return err
			}
			if read := after - before; len(found) != x.want || read > 2*x.want+5 { // each delivery and its event
				t.Errorf("%s: %d rows were read for %d deliveries", x.name, read, len(found))
			}
		}
		return nil
	})
}

// A page of the feed assigns positions to a limited number of unread events, however many there are.
func TestAPageOfTheFeedNumbersSoManyAndNoMore(t *testing.T) {
	t.Parallel()
	dbtest.Unused(t)
	w := newWorld(t, clock.System{}, sandbox())
	app, _ := w.application("")
	c := w.consultation(app)
	w.exec(`INSERT INTO webhook_events (id, application_id, consultation_id, sequence, type, body, created_at)
		SELECT 'evt_' || n, $1, $2, n, 'consultation.created', '{}', now() - interval '20 days' + n * interval '1 minute' FROM generate_series(1, 20000) n`, app, c.ConsultationID)
	w.tune("ANALYZE webhook_events")
	w.tx(func(tx postgres.Tx) error {
		before, err := readRows(t.Context(), tx)
		if err != nil {
			return err
		}
		if err := numberEvents(t.Context(), tx, app, 0, maxNumbered); err != nil {
			return err
		}
		page, err := selectEvents(t.Context(), tx, app, 0, 2*maxNumbered)
		if err != nil {
			return err
		}
		after, err := readRows(t.Context(), tx)
		if err != nil {
			return err
		}
		if read := after - before; len(page) != maxNumbered || read > 3*maxNumbered+5 { // selected, numbered, listed
			t.Errorf("%d rows were read to number %d events and list them", read, len(page))
		}
		return nil
	})
}

// readRows counts the rows that the transaction's statements fetched, by index or otherwise.
func readRows(ctx context.Context, tx postgres.Tx) (rows int, err error) {
	err = tx.QueryRow(ctx, readRowsSQL).Scan(&rows)
	return rows, err
}

var readRowsSQL = postgres.SQL(postgres.Backend,
	`SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables
	WHERE relname IN ('applications', 'webhook_endpoints', 'webhook_events', 'webhook_deliveries', 'webhook_attempts')`)

// All other statements use indexes too: none reads a whole table.
func TestNoStatementReadsAWholeTable(t *testing.T) {
	t.Parallel()
	dbtest.Unused(t)
	w := newWorld(t, clock.System{}, sandbox())
	app, _ := w.application("")
	c := w.consultation(app)
	for range 30 {
		w.application("") // their rows are elsewhere in the indexes
	}
	w.exec(`INSERT INTO webhook_events (id, application_id, consultation_id, sequence, type, body, created_at)
		SELECT 'evt_0' || to_char(n, 'FM000000'), a.id, $1, n, 'consultation.created', '{}', now() - interval '60 days' + n * interval '3 minutes'
		FROM (SELECT id, row_number() OVER (ORDER BY id) AS k FROM applications) a, generate_series(1, 30000) n WHERE n % 31 + 1 = a.k`, c.ConsultationID)
	w.exec(`INSERT INTO webhook_deliveries (id, event_id, application_id, consultation_id, sequence, state, attempts, next_at, created_at, ended_at)
		SELECT 'dlv_' || substr(id, 5), id, application_id, consultation_id, sequence, CASE WHEN sequence % 50 = 0 THEN 'FAILED' ELSE 'DELIVERED' END, 1, created_at, created_at, created_at FROM webhook_events`)
	w.exec("INSERT INTO webhook_attempts (delivery_id, attempt, started_at, duration_ms) SELECT id, 1, created_at, 1 " +
		"FROM webhook_deliveries")
	w.tune("ANALYZE webhook_events, webhook_deliveries, webhook_attempts, webhook_endpoints")

	w.tx(func(tx postgres.Tx) error {
		var events []expired
		var found []redelivery
		// in proportion to the table, because the planner rightly reads all of a small one
		const few = 30
		read, err := readWithoutIndex(t.Context(), tx) // this connection may not have reported its earlier counts yet
		if err != nil {
			return err
		}
		for _, step := range []struct {
			name string
			do   func(ctx context.Context) error
		}{
			{"find old events", func(ctx context.Context) (err error) {
				events, _, err = selectExpired(ctx, tx, "", tx.Now.Add(-DefaultRetention), few)
				return err
			}},
			{"remove them", func(ctx context.Context) error { _, err := deleteEvents(ctx, tx, events); return err }},
			{"number events", func(ctx context.Context) error { return numberEvents(ctx, tx, app, 0, few) }},
			{"list events",
				func(ctx context.Context) error { _, err := selectEvents(ctx, tx, app, 100, 100); return err }},
			{"list deliveries", list(tx, app, DeliveryFilter{})},
			{"list failed ones", list(tx, app, DeliveryFilter{State: Failed})},
			{"list pending ones", list(tx, app, DeliveryFilter{State: Pending})},
			{"list those of an hour", list(tx, app, DeliveryFilter{From: tx.Now.Add(-time.Hour)})},
			{"list the second page",
				list(tx, app, DeliveryFilter{Before: Position{tx.Now.Add(-24 * time.Hour), "dlv_"}})},
			{"list those of an event", list(tx, app, DeliveryFilter{EventID: "evt_0020000"})},
			{"list those of a consultation", list(tx, app, DeliveryFilter{ConsultationID: c.ConsultationID, Limit: 1})},
			{"find what to send again", func(ctx context.Context) (err error) {
				found, err = selectRedeliveries(ctx, tx, app,
					RedeliveryFilter{From: tx.Now.Add(-24 * time.Hour), To: tx.Now, All: true}, 100)
				return err
			}},
			{"send it again", func(ctx context.Context) error { return redeliver(ctx, tx, found) }},
			{"metrics", func(ctx context.Context) error { _, err := selectFigures(ctx, tx); return err }},
		} {
			if err := step.do(t.Context()); err != nil {
				return err
			}
			before := read
			if read, err = readWithoutIndex(t.Context(), tx); err != nil {
				return err
			}
			if read > before {
				t.Errorf("to %s, %d rows were read without an index", step.name, read-before)
			}
		}
		if len(events) == 0 || len(found) == 0 {
			t.Errorf("%d old events, %d deliveries to send again", len(events), len(found))
		}
		return nil
	})
}

func readWithoutIndex(ctx context.Context, tx postgres.Tx) (rows int, err error) {
	err = tx.QueryRow(ctx, readWithoutIndexSQL).Scan(&rows)
	return rows, err
}

var readWithoutIndexSQL = postgres.SQL(postgres.Backend, `SELECT sum(seq_tup_read) FROM pg_stat_xact_user_tables
	WHERE relname IN ('webhook_events', 'webhook_deliveries', 'webhook_attempts')`)

func list(tx postgres.Tx, app string, f DeliveryFilter) func(ctx context.Context) error {
	return func(ctx context.Context) error { _, err := selectDeliveries(ctx, tx, app, f, 100); return err }
}
