package consultation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

func (w *world) exec(sql string, args ...any) {
	w.Helper()
	if _, err := w.DB.Pool().Exec(w.Context(), sql, args...); err != nil {
		w.Fatal(err)
	}
}

// openOffers counts the open offers of each client.
func (w *world) openOffers() map[string]int {
	w.Helper()
	rows, err := w.DB.Pool().Query(w.Context(),
		"SELECT c.client_id FROM offers o JOIN consultations c ON c.id = o.consultation_id WHERE o.state = 'OPEN'")
	if err != nil {
		w.Fatal(err)
	}
	defer rows.Close()
	open := map[string]int{}
	for rows.Next() {
		var client string
		if err := rows.Scan(&client); err != nil {
			w.Fatal(err)
		}
		open[client]++
	}
	return open
}

// A client with many consultations occupies one lawyer, and clients who come later do not wait longer for it.
func TestAClientIsServedOneAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	many := w.newClient("many@example.org", "+33612345672", true, 60_000)
	for range 4 {
		w.online()
	}
	w.client = many
	var ids []string
	for range 30 {
		ids = append(ids, w.create())
		w.clock.Advance(time.Millisecond)
	}
	w.client = w.newClient("later@example.org", "+33612345673", true, 2000)
	w.create()
	for _, err := range atOnce(8, func(i int) error { _, err := w.search(t.Context(), ids[i]); return err }) {
		w.do(err)
	}
	w.sweep()
	if open := w.openOffers(); open[many] != 1 || open[w.client] != 1 {
		t.Fatalf("open offers %v, want one for each client", open)
	}
	var offer, consultation, l string
	err := w.DB.Pool().QueryRow(t.Context(),
		"SELECT id, consultation_id, lawyer_id FROM offers WHERE client_id = $1 AND state = 'OPEN'",
		many).Scan(&offer, &consultation, &l)
	w.do(err)
	w.do(w.AcceptOffer(t.Context(), w.lease(l), offer))
	for _, other := range w.lawyers {
		w.do(w.LawyerAvailable(t.Context(), other))
	}
	w.pass(time.Second)
	if open := w.openOffers(); open[many] != 0 {
		t.Errorf("offered on while a lawyer is calling him: %v", open)
	}
	w.client = many
	_, err = w.cancelIt(consultation)
	w.do(err)
	w.pass(time.Second)
	if open := w.openOffers(); open[many] != 1 {
		t.Errorf("the next is not on offer: %v", open)
	}
}

// Work that a lawyer missed or may not get does not hide other work.
func TestWhatHeMissedDoesNotHideOtherWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	for i := range peekPerLawyer + 1 {
		w.client = w.newClient(fmt.Sprintf("c%d@example.org", i), fmt.Sprintf("+336123457%02d", i), true, 2000)
		id := w.create()
		w.clock.Advance(time.Millisecond)
		if i < peekPerLawyer {
			w.exec(`INSERT INTO offers (id, consultation_id, client_id, lawyer_id, state, created_at, expires_at, ended_at)
				VALUES ('ofr_' || $1, $2, $3, $4, 'EXPIRED', $5, $5, $5)`, fmt.Sprint(i), id, w.client, l,
				w.clock.Now())
		}
	}
	w.do(w.LawyerAvailable(t.Context(), l))
	if open := w.openOffers(); open[w.client] != 1 {
		t.Errorf("open offers %v", open)
	}
}

// If the only lawyer of a pair missed the offer, they are asked again a minute later, not only at the end of the
// search.
func TestTheOnlyLawyerIsAskedAgainAfterAMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.create()
	w.sweep()
	w.pass(matching.OfferTime)
	w.expectLawyer(l, lawyer.Away)
	_, err := w.Lawyers.GoOnline(t.Context(), w.DB.Read(), l)
	w.do(err)
	w.pass(matching.RepeatAfter - time.Second)
	w.expectLawyer(l, lawyer.Available)
	w.pass(time.Second)
	if o := w.offerOf(l); o.ConsultationID != id {
		t.Errorf("offered %s", o.ConsultationID)
	}
}

// A process that only serves requests notifies the leading process of searches.
func TestWhatCommitsElsewhereIsSearchedForAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	back, front := w.Service, w.replica(w.DB)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	listening := make(chan struct{}, 10)
	all.Go(func() {
		back.others.Listen(ctx, func(word string) {
			if word == "" {
				listening <- struct{}{}
				return
			}
			back.enqueue(word)
		})
	})
	all.Go(func() { _ = front.Announce(ctx) })
	<-listening
	w.Service = front
	id := w.create()
	l := w.online()
	w.tx(func(tx postgres.Tx) error { front.wakeLawyer(tx, l); return nil })
	var told []string
	for range 2 {
		select {
		case word := <-back.words:
			told = append(told, word)
		case <-time.After(20 * time.Second):
			t.Errorf("told only of %v", told)
		}
	}
	slices.Sort(told)
	if want := []string{wordLawyer + l, wordWork + id}; !slices.Equal(told, want) {
		t.Errorf("told to search for %v, want %v", told, want)
	}
	stop()
	all.Wait()
}

// One sweep fires all due timers, however many, and a failure does not stop the others.
func TestASweepGoesOnUntilNothingIsDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var bad string
	for i := range sweepBatch + 30 {
		if i%10 == 0 {
			w.client = w.newClient(fmt.Sprintf("c%d@example.org", i), fmt.Sprintf("+33612345%03d", i), true, 20_000)
		}
		bad = w.create()
	}
	w.exec(`INSERT INTO webhook_events (id, application_id, consultation_id, sequence, type, body, created_at)
		SELECT 'evt_block', application_id, id, 4, 'consultation.matching', '{}', now() FROM consultations WHERE id = $1`, bad)
	w.clock.Advance(SearchLimit)
	if err := w.Sweep(t.Context()); err == nil || strings.Count(err.Error(), "timer of") != 1 ||
		!strings.Contains(err.Error(), bad) {
		t.Errorf("sweep: %v", err)
	}
	var left int
	w.do(w.DB.Pool().QueryRow(t.Context(), "SELECT count(*) FROM consultations WHERE status = 'MATCHING'").Scan(&left))
	if left != 1 {
		t.Errorf("%d are left of %d", left, sweepBatch+30)
	}
}

// A replica whose machine clock is 15 seconds ahead ends neither searches nor offers early.
func TestAReplicaWhoseClockIsAheadFiresNothingEarly(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	open := func(machine func() time.Time) *postgres.DB {
		db, err := postgres.Open(t.Context(), url, postgres.Options{Test: true, Machine: machine})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		return db
	}
	w := newWorldOn(t, open(nil), nil)
	l := w.online()
	id := w.create()
	w.sweep()
	offer := w.offerOf(l)
	w.exec("UPDATE offers SET expires_at = clock_timestamp() + interval '14 seconds' WHERE id = $1", offer.ID)
	w.exec(`UPDATE consultations SET search_started_at = clock_timestamp() - interval '29 minutes 46 seconds',
		timer_at = clock_timestamp() + interval '14 seconds' WHERE id = $1`, id)
	ahead := w.replica(open(func() time.Time { return time.Now().Add(15 * time.Second) }))
	w.do(ahead.Sweep(t.Context()))
	if s := w.read(id).Status; s != Matching {
		t.Errorf("the search was over early: %s", s)
	}
	if o := w.offerOf(l); o.ID != offer.ID {
		t.Errorf("the offer ended early: %+v", o)
	}
}

// The repeated statements of sweeps and searches read only what they need, with plans made when the tables were empty.
func TestSearchesReadOnlyWhatTheyNeed(t *testing.T) {
	t.Parallel()
	dbtest.Unused(t)
	w := newWorld(t)
	owner := dbtest.Owner(t, w.DB)
	for _, table := range []string{"lawyers", "lawyer_pairs", "lawyer_presence", "consultations", "offers"} {
		_, err := owner.Pool().Exec(t.Context(), "ALTER TABLE "+table+" SET (autovacuum_enabled = off)")
		w.do(err)
	}
	queries, err := w.DB.ByIndex(t.Context(), 1)
	w.do(err)
	t.Cleanup(queries.Close)
	w.deps.Searches = queries
	first := w.create()
	w.sweep()
	reads := func(f func(tx postgres.Tx) error) (rows int) {
		t.Helper()
		w.do(queries.InTx(t.Context(), func(tx postgres.Tx) error {
			count := `SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables
				WHERE relname IN ('lawyers', 'lawyer_pairs', 'lawyer_presence', 'consultations', 'offers')`
			var before int
			if err := tx.QueryRow(t.Context(), postgres.SQL(postgres.Report, count)).Scan(&before); err != nil {
				return err
			}
			if err := f(tx); err != nil {
				return err
			}
			err := tx.QueryRow(t.Context(), postgres.SQL(postgres.Report, count)).Scan(&rows)
			rows -= before
			return err
		}))
		return rows
	}
	look := func(tx postgres.Tx) error {
		pairs, err := waitingPairs(t.Context(), tx)
		if err != nil {
			return err
		}
		_, err = w.Matching.IdlePairs(t.Context(), tx, "", pairs...)
		return err
	}
	offer := func(tx postgres.Tx) error {
		c, ok, err := lockWaiting(t.Context(), tx, first)
		if err != nil || !ok {
			return fmt.Errorf("locked %v, %w", ok, err)
		}
		_, err = w.Matching.Offer(t.Context(), tx, w.workOf(tx, c))
		return err
	}
	for range 10 {
		reads(look) // creates the plans
		reads(offer)
	}
	w.exec(
		`INSERT INTO lawyers (id, email, name, password_hash, phone_sealed, state, idle_since, created_at, updated_at)
		SELECT 'law_' || n, n || '@example.com', 'L', '!', '\x00', 'BUSY', $1, $1, $1 FROM generate_series(1, 10000) n`,
		w.clock.Now(),
	)
	w.exec("INSERT INTO lawyer_presence SELECT id, $1 FROM lawyers", w.clock.Now())
	w.exec("INSERT INTO lawyer_pairs SELECT c.code, g.code, l.id FROM lawyers l, competences c, languages g " +
		"WHERE c.code IN ('FAMILY', 'TAX') AND g.code = 'FR'")
	w.exec(`INSERT INTO consultations SELECT (jsonb_populate_record(c, jsonb_build_object('id', c.id || '_' || n))).*
		FROM consultations c, generate_series(1, 5000) n WHERE c.id = $1`, first)
	t.Cleanup(func() {
		if _, err := owner.Pool().Exec(context.WithoutCancel(t.Context()),
			"DELETE FROM consultations WHERE id LIKE $1 || '\\_%'", first); err != nil {
			t.Error(err)
		}
	})
	if n := reads(look); n > 10 {
		t.Errorf("%d rows read to learn that nobody is idle", n)
	}
	if n := reads(offer); n > 10 {
		t.Errorf("%d rows read to search among busy lawyers", n)
	}
	idle := w.online()
	if n := reads(look); n > 10 {
		t.Errorf("%d rows read to learn that somebody is idle", n)
	}
	if n := reads(offer); n > 20 {
		t.Errorf("%d rows read to offer a consultation", n)
	}
	w.offerOf(idle)
}

// The metrics show how much waits, for how long, the open offers, and how offers end.
func TestTheFiguresOfTheSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create()
	w.clock.Advance(time.Minute)
	l := w.online()
	w.sweep()
	w.do(w.DeclineOffer(t.Context(), w.lease(l), w.offerOf(l).ID, "busy"))
	w.online()
	w.sweep()
	r := prometheus.NewRegistry()
	r.MustRegister(w.Collector())
	families, err := r.Gather()
	w.do(err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"partnerd_consultations_waiting MATCHING": 1, "partnerd_consultations_waiting PENDING_CALLBACK": 0,
		"partnerd_consultations_oldest_wait_seconds": 60, "partnerd_offers_open": 1,
		"partnerd_offers_total declined": 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// searchCommitted runs the searches that the workers of a process run after commits, without a sweep.
func (w *world) searchCommitted() {
	w.Helper()
	for {
		select {
		case word := <-w.words:
			w.do(w.searchFor(w.Context(), word))
		default:
			return
		}
	}
}

// A client who becomes free is served with their next consultation immediately, not at the next sweep.
func TestAClientWhoIsFreeIsServedAtOnce(t *testing.T) {
	t.Parallel()
	for what, free := range map[string]func(w *world, first, lawyerID string){
		"cancelled while on offer": func(w *world, first, _ string) {
			_, err := w.cancelIt(first)
			w.do(err)
		},
		"call over": func(w *world, first, lawyerID string) {
			w.do(w.AcceptOffer(w.Context(), w.lease(lawyerID), w.offerOf(lawyerID).ID))
			w.confirmed(lawyerID, first)
			w.do(w.provider(first, telephony.Event{Kind: telephony.LegsJoined}))
			w.do(w.provider(first, telephony.Event{Kind: telephony.CallOver, By: telephony.Client}))
		},
		"cancelled when assigned": func(w *world, first, lawyerID string) {
			w.do(w.AcceptOffer(w.Context(), w.lease(lawyerID), w.offerOf(lawyerID).ID))
			_, err := w.cancelIt(first)
			w.do(err)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.working.Store(true)
			l := w.online()
			first := w.create()
			w.searchCommitted()
			w.online()
			next := w.create()
			w.searchCommitted()
			if w.offerOf(l).ConsultationID != first || w.openOffers()[w.client] != 1 {
				t.Fatal("the first is not the only one on offer")
			}
			free(w, first, l)
			w.searchCommitted()
			var on string
			w.do(w.DB.Pool().QueryRow(t.Context(),
				"SELECT coalesce(max(consultation_id), '') FROM offers WHERE state = 'OPEN'").Scan(&on))
			if on != next {
				t.Errorf("on offer is %q, want %s", on, next)
			}
		})
	}
}
