package consultation

import (
	"fmt"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

// past inserts completed consultations of a pair: how long each waited, how long it took a lawyer, and how soon after
// its start it was offered.
func (w *world) past(n int, language string, ago, waited, taken, offered time.Duration) {
	w.Helper()
	l, assigned := w.lawyers[0], w.clock.Now().Add(-ago)
	for range n {
		w.count++
		id := fmt.Sprint("con_past_", w.count)
		for _, q := range []struct {
			sql  string
			args []any
		}{
			{`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed, recording_consent, price_cents, phone_sealed,
				created_at, updated_at, search_started_at, assigned_at, completed_at, lawyer_id, call_started_at, call_ended_at, duration_sec)
				VALUES ($1, $2, $3, 'COMPLETED', 'FAMILY', $4, '', false, 2000, '', $5, $5, $5, $6, $7, $8, $6, $7, 60)`,
				[]any{id, w.application, w.client, language, assigned.Add(-waited), assigned, assigned.Add(taken), l}},
			{`INSERT INTO offers (id, consultation_id, client_id, lawyer_id, state, created_at, expires_at, ended_at) VALUES ($1, $1, $2, $3, 'ACCEPTED', $4, $5, $5)`,
				[]any{id, w.client, l, assigned.Add(offered - waited), assigned}},
		} {
			if _, err := w.DB.Pool().Exec(w.Context(), q.sql, q.args...); err != nil {
				w.Fatal(err)
			}
		}
	}
}

// An estimate uses the data of the pair or, if that is too little, of its competence, and nothing else.
func TestAnEstimateIsMadeOfWhatWasSeen(t *testing.T) {
	t.Parallel()
	ms := func(d *time.Duration) any {
		if d == nil {
			return "nothing"
		}
		return d.Round(time.Millisecond)
	}
	const hour = time.Hour
	for name, tc := range map[string]struct {
		seen            func(w *world)
		accept, engaged any
	}{
		"nothing": {func(*world) {}, "nothing", "nothing"},
		"the pair": {func(w *world) {
			for i := range 11 {
				w.past(1, "FR", hour, time.Duration(i)*time.Second, 10*time.Minute, 0)
			}
			w.past(20, "EN", hour, time.Minute, time.Minute, 0)
		}, 6500 * time.Millisecond, 10 * time.Minute},
		"too little of it": {func(w *world) { w.past(9, "FR", hour, 8*time.Second, 10*time.Minute, 0) }, "nothing",
			"nothing"},
		"other languages": {func(w *world) {
			w.past(5, "FR", hour, 8*time.Second, 10*time.Minute, 0)
			w.past(5, "EN", hour, 8*time.Second, 20*time.Minute, 0)
		}, 8 * time.Second, 15 * time.Minute},
		"long ago": {func(w *world) { w.past(10, "FR", 8*24*hour, 8*time.Second, 10*time.Minute, 0) },
			"nothing", "nothing"},
		"nobody was idle": {
			func(w *world) { w.past(10, "FR", hour, 80*time.Second, 10*time.Minute, 70*time.Second) }, "nothing",
			10 * time.Minute,
		},
		"just now": {func(w *world) { w.past(10, "FR", 20*time.Minute, 8*time.Second, 10*time.Minute, 0) },
			8 * time.Second, "nothing"},
		"notes of next week": {func(w *world) { w.past(10, "FR", 3*hour, 8*time.Second, 50*hour, 0) }, 8 * time.Second,
			40 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.online()
			tc.seen(w)
			got, err := waits(t.Context(), w.DB.Read(), matching.Pair{Competence: "FAMILY", Language: "FR"}, "")
			if err != nil || ms(got.Accept) != tc.accept || ms(got.Engaged) != tc.engaged {
				t.Errorf("accepted within %v, engaged %v, %v; want %v, %v", ms(got.Accept), ms(got.Engaged), err,
					tc.accept, tc.engaged)
			}
			owner := dbtest.Owner(t, w.DB) // no one paid for them, which the ledger check would find
			for _, sql := range []string{"DELETE FROM offers", "DELETE FROM consultations"} {
				if _, err := owner.Pool().Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// All consultations waiting for the pair now are ahead: those in a search, and callbacks in their hours.
func TestAnEstimateSeesTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	look := func(ahead int, last, oldest time.Duration) {
		t.Helper()
		got, err := waits(t.Context(), w.DB.Read(), matching.Pair{Competence: "FAMILY", Language: "FR"}, "")
		if err != nil || got.Ahead != ahead || got.Last != last || got.Oldest != oldest {
			t.Errorf("%d ahead, last %s, oldest %s, %v; want %d, %s, %s", got.Ahead, got.Last, got.Oldest, err, ahead,
				last, oldest)
		}
	}
	look(0, 0, 0)
	first := w.create()
	w.pass(time.Minute)
	w.create()
	look(2, 0, time.Minute)
	if _, err := w.cancelIt(first); err != nil {
		t.Fatal(err)
	}
	w.pass(29 * time.Minute)
	look(1, 0, 29*time.Minute)
	w.pass(time.Minute) // it is a callback now: its search is over
	look(1, 0, 0)
	w.clock.Advance(12 * time.Hour) // at night it waits for no lawyer
	look(0, 0, 0)
	w.clock.Advance(6 * time.Hour)
	l := w.online()
	w.create()
	w.pass(10 * time.Second)
	w.do(w.AcceptOffer(t.Context(), w.lease(l), w.offerOf(l).ID))
}

// told reads the stored estimate and the actual result of a consultation.
func (w *world) told(id string) (text string) {
	w.Helper()
	err := w.DB.Pool().QueryRow(w.Context(),
		`SELECT concat_ws(' ', coalesce(estimate_sec::text, 'unknown'), estimate_online, estimate_idle, estimate_ahead,
		'told', extract(epoch FROM created_at - estimate_told_at)::int, 'first', extract(epoch FROM first_assigned_at - created_at)::int) FROM consultations WHERE id = $1`, id).Scan(&text)
	if err != nil {
		w.Fatal(err)
	}
	return text
}

// An estimate is stored with the consultation that follows: of the same application, client and pair, within ten
// minutes. The result is written once, by the first lawyer who accepts.
func TestWhatWasToldStaysWithWhatCame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tell := func(client, competence string) {
		t.Helper()
		if _, err := w.TellCoverage(t.Context(), w.DB.Read(), w.application, client, competence, "FR"); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(id, want string) {
		t.Helper()
		if got := w.told(id); got != want {
			t.Errorf("kept %q, want %q", got, want)
		}
	}
	expect(w.create(), "unknown told first") // no estimate was requested
	tell(w.newClient("other@example.org", "+33612345600", true, 0), "FAMILY")
	tell(w.client, "TAX")
	expect(w.create(), "unknown told first")
	tell(w.client, "FAMILY")
	expect(w.create(), "unknown 0 0 2 told 0 first") // no one is online
	l := w.online()
	tell(w.client, "FAMILY") // replaces the previous estimate
	w.clock.Advance(5 * time.Second)
	id := w.create()
	expect(id, "15 1 1 3 told 5 first")
	w.clock.Advance(estimateValidity)
	expect(w.create(), "unknown told first")

	if n, err := w.PurgeEstimates(t.Context()); err != nil || n != 3 {
		t.Errorf("purged %d, %v", n, err)
	}
	tell(w.client, "FAMILY")
	if n, err := w.PurgeEstimates(t.Context()); err != nil || n != 0 {
		t.Errorf("purged %d, %v: it is still good", n, err)
	}
	w.tx(func(tx postgres.Tx) error { return eraseEstimates(t.Context(), tx, w.client) })
	if n := w.countOf("estimates"); n != 0 {
		t.Errorf("%d answers about an erased client are left", n)
	}

	w.lawyers = []string{l}
	w.pass(0)
	first := w.offerOf(l).ConsultationID
	w.clock.Advance(7 * time.Second)
	w.do(w.AcceptOffer(t.Context(), w.lease(l), w.offerOf(l).ID))
	accepted := w.told(first)
	w.do(w.Withdraw(t.Context(), w.lease(l), first, Unavailable))
	w.do(w.Lawyers.SetState(t.Context(), w.DB.Read(), l, []lawyer.State{lawyer.Available},
		lawyer.Off(lawyer.MissedOffer)))
	next := w.online()
	w.clock.Advance(time.Minute)
	w.lawyers = []string{next}
	w.pass(0)
	if o := w.offerOf(next); o.ConsultationID != first {
		t.Fatalf("offered %s", o.ConsultationID)
	}
	w.do(w.AcceptOffer(t.Context(), w.lease(next), w.offerOf(next).ID))
	if got := w.told(first); got != accepted || w.read(first).AssignedAt.Equal(*w.read(first).FirstAssignedAt) {
		t.Errorf("the second lawyer's acceptance made %q of %q", got, accepted)
	}
}

func (w *world) countOf(table string) (n int) {
	w.Helper()
	w.do(w.DB.Pool().QueryRow(w.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// The result is an acceptance, the end of the search or a cancellation, and it does not change.
func TestWhatCameIsWrittenOnce(t *testing.T) {
	t.Parallel()
	for range 5 {
		w := newWorld(t)
		l := w.online()
		id := w.create()
		w.sweep()
		offer := w.offerOf(l).ID
		w.clock.Advance(20 * time.Second)
		if _, err := w.DB.Pool().Exec(t.Context(),
			"UPDATE consultations SET search_started_at = $1, timer_at = $1 WHERE id = $2",
			w.clock.Now().Add(-SearchLimit), id); err != nil {
			t.Fatal(err)
		}
		atOnce(3, func(i int) error {
			switch i {
			case 0:
				return w.AcceptOffer(t.Context(), w.lease(l), offer)
			case 1:
				return w.Sweep(t.Context())
			default:
				_, err := w.cancelIt(id)
				return err
			}
		})
		w.sweep()
		c := w.read(id)
		was := c.FirstAssignedAt
		if (was != nil) != (c.AssignedAt != nil) || was != nil && !was.Equal(w.clock.Now()) {
			t.Errorf("%s, assigned %v, first %v", c.Status, c.AssignedAt, was)
		}
		w.clock.Advance(time.Minute)
		_, _ = w.cancelIt(id)
		w.sweep()
		if now := w.read(id).FirstAssignedAt; (now == nil) != (was == nil) || now != nil && !now.Equal(*was) {
			t.Errorf("what came changed from %v to %v", was, now)
		}
	}
}
