package matching_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/seal/sealtest"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

var pair = matching.Pair{Competence: "FAMILY", Language: "FR"}

type fixture struct {
	*testing.T
	ctx     context.Context
	clock   *clock.Manual
	db      *postgres.DB
	lawyers *lawyer.Service
	match   *matching.Service
}

func setUp(t *testing.T) *fixture {
	t.Parallel()
	box := sealtest.Box(t)
	clk := clock.NewManual(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC))
	f := &fixture{T: t, ctx: t.Context(), clock: clk, db: dbtest.NewWithClock(t, clk), lawyers: lawyer.New(box)}
	f.match = matching.New(f.lawyers)
	f.exec(`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at)
		VALUES ('app', 'CRM', '{}', '{}', 'x', now(), now())`)
	return f
}

func (f *fixture) exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.db.Pool().Exec(f.ctx, sql, args...); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) tx(do func(tx postgres.Tx) error) {
	f.Helper()
	if err := f.db.InTx(f.ctx, do); err != nil {
		f.Fatal(err)
	}
}

// work creates n consultations, each with its own client.
func (f *fixture) work(n int) []matching.Work {
	f.Helper()
	work := make([]matching.Work, n)
	for i := range work {
		work[i] = matching.Work{ConsultationID: fmt.Sprintf("con_%d", i), ClientID: fmt.Sprintf("cli_%d", i),
			Pair: pair, Since: f.clock.Now()}
		f.exec(`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at)
			VALUES ($1, $1 || '@example.com', 'Demo Client', 'x', now(), now())`, work[i].ClientID)
		f.exec(`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed, recording_consent,
				price_cents, phone_sealed, created_at, updated_at, search_started_at)
			VALUES ($1, 'app', $2, 'MATCHING', 'FAMILY', 'FR', 'x', false, 2000, 'x', now(), now(), now())`,
			work[i].ConsultationID, work[i].ClientID)
	}
	return work
}

// put writes a lawyer's state without guards, and the queue that follows from it.
func (f *fixture) put(lawyerID string, state lawyer.State) {
	f.Helper()
	f.exec("UPDATE lawyers SET state = $2 WHERE id = $1", lawyerID, state)
	f.exec(`UPDATE lawyer_pairs p SET idle_since = CASE WHEN l.state = 'AVAILABLE' THEN l.idle_since END
		FROM lawyers l WHERE l.id = $1 AND p.lawyer_id = l.id`, lawyerID)
}

// online creates n lawyers of the pair, who came online a second apart, and returns them in that order.
func (f *fixture) online(n int) []string {
	f.Helper()
	ids := make([]string, n)
	for i := range ids {
		f.clock.Advance(time.Second)
		f.tx(func(tx postgres.Tx) error {
			l, err := f.lawyers.Create(f.ctx, tx, lawyer.NewLawyer{Email: fmt.Sprintf("l%d@example.com", i), Name: "L",
				Phone: "+33199000001", Simulated: true, Competences: []string{"FAMILY"}, Languages: []string{"FR"}})
			if err != nil {
				return err
			}
			ids[i] = l.ID
			_, err = f.lawyers.GoOnline(f.ctx, tx, l.ID)
			return err
		})
	}
	return ids
}

func (f *fixture) offer(w matching.Work) (o matching.Offer, found bool) {
	f.Helper()
	f.tx(func(tx postgres.Tx) (err error) {
		offers, err := f.match.Offer(f.ctx, tx, w)
		if found = len(offers) > 0; found {
			o = offers[0]
		}
		return err
	})
	return o, found
}

func (f *fixture) mustOffer(w matching.Work, to string) matching.Offer {
	f.Helper()
	o, found := f.offer(w)
	if !found || o.LawyerID != to {
		f.Fatalf("offered to %q (found %v), want %q", o.LawyerID, found, to)
	}
	return o
}

func (f *fixture) state(id string) lawyer.State {
	f.Helper()
	l, err := f.lawyers.Get(f.ctx, f.db.Read(), id)
	if err != nil {
		f.Fatal(err)
	}
	return l.State
}

func (f *fixture) wantState(id string, want lawyer.State) {
	f.Helper()
	if got := f.state(id); got != want {
		f.Errorf("lawyer is %s, want %s", got, want)
	}
}

func TestParallelSearchesOfferEachLawyerOnce(t *testing.T) {
	f := setUp(t)
	f.online(10)
	work := f.work(40)
	var mu sync.Mutex
	byLawyer := map[string]int{}
	var wg sync.WaitGroup
	for _, w := range work {
		wg.Go(func() {
			err := f.db.InTx(f.ctx, func(tx postgres.Tx) error {
				offers, err := f.match.Offer(f.ctx, tx, w)
				tx.AfterCommit(func() {
					mu.Lock()
					defer mu.Unlock()
					for _, o := range offers {
						byLawyer[o.LawyerID]++
					}
				})
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	// The sweep repeats a search that met only locked lawyers.
	for _, w := range work {
		if o, found := f.offer(w); found {
			byLawyer[o.LawyerID]++
		}
	}
	if len(byLawyer) != 10 {
		t.Errorf("%d lawyers have an offer, want 10", len(byLawyer))
	}
	for id, n := range byLawyer {
		if n != 1 {
			t.Errorf("%s was offered %d consultations", id, n)
		}
	}
}

func TestTheLongestIdleIsAskedFirst(t *testing.T) {
	f := setUp(t)
	l := f.online(3)
	for i, w := range f.work(3) {
		f.mustOffer(w, l[i])
	}
}

func TestOnlyFreshAvailableUnsuspendedLawyersOfThePairAreAsked(t *testing.T) {
	f := setUp(t)
	l := f.online(4)
	f.exec("UPDATE lawyers SET suspended_at = now() WHERE id = $1", l[0])
	f.put(l[1], lawyer.Away)
	f.exec("UPDATE lawyer_presence SET heartbeat_at = $2 WHERE lawyer_id = $1",
		l[2], f.clock.Now().Add(-lawyer.PresenceFresh))
	w := f.work(2)
	if o, found := f.offer(matching.Work{ConsultationID: w[0].ConsultationID,
		Pair: matching.Pair{Competence: "FAMILY", Language: "EN"}}); found {
		t.Errorf("offered to %s, who does not speak the language", o.LawyerID)
	}
	f.mustOffer(w[0], l[3])
	if _, found := f.offer(w[1]); found {
		t.Error("offered to somebody who cannot take it")
	}
}

func TestOfAcceptancesOneWins(t *testing.T) {
	f := setUp(t)
	l := f.online(1)
	o := f.mustOffer(f.work(1)[0], l[0])
	var won, gone atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			err := f.db.InTx(f.ctx, func(tx postgres.Tx) error {
				_, err := f.match.Accept(f.ctx, tx, l[0], o.ID)
				return err
			})
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, matching.ErrOfferGone):
				gone.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || gone.Load() != 19 {
		t.Errorf("%d won and %d came too late, want 1 and 19", won.Load(), gone.Load())
	}
	f.wantState(l[0], lawyer.Busy)
}

func TestAnOfferCanBeAcceptedUntilItsTimeIsOverAndByItsLawyerOnly(t *testing.T) {
	f := setUp(t)
	l := f.online(2)
	w := f.work(2)
	late, last := f.mustOffer(w[0], l[0]), f.mustOffer(w[1], l[1])
	accept := func(lawyerID, offerID string) error {
		return f.db.InTx(f.ctx, func(tx postgres.Tx) error {
			_, err := f.match.Accept(f.ctx, tx, lawyerID, offerID)
			return err
		})
	}
	if err := accept(l[1], late.ID); !errors.Is(err, matching.ErrOfferGone) {
		t.Errorf("another lawyer's offer: %v", err)
	}
	f.clock.Advance(matching.OfferTime - time.Millisecond)
	if err := accept(l[1], last.ID); err != nil {
		t.Errorf("in time: %v", err)
	}
	f.clock.Advance(time.Millisecond)
	if err := accept(l[0], late.ID); !errors.Is(err, matching.ErrOfferGone) {
		t.Errorf("too late: %v", err)
	}
	overdue, err := f.match.Expired(f.ctx, f.db.Read(), matching.Offer{}, 10)
	if err != nil || len(overdue) != 1 || overdue[0].ID != late.ID {
		t.Fatalf("overdue %+v, %v; want one", overdue, err)
	}
	for i, want := range []bool{true, false} {
		f.tx(func(tx postgres.Tx) error {
			_, ended, err := f.match.Expire(f.ctx, tx, late.ID)
			if ended != want {
				t.Errorf("expiry %d: %v, want %v", i, ended, want)
			}
			return err
		})
	}
	f.wantState(l[0], lawyer.Away)
	f.wantState(l[1], lawyer.Busy)
}

func TestAnOfferThatStillRunsDoesNotExpire(t *testing.T) {
	f := setUp(t)
	l := f.online(1)
	o := f.mustOffer(f.work(1)[0], l[0])
	f.clock.Advance(matching.OfferTime - time.Millisecond)
	f.tx(func(tx postgres.Tx) error {
		_, ended, err := f.match.Expire(f.ctx, tx, o.ID)
		if ended {
			t.Error("expired early")
		}
		return err
	})
	f.wantState(l[0], lawyer.Offered)
}

func TestDecliningCostsThePlaceUnlessItIsAConflictOfInterest(t *testing.T) {
	for _, tt := range []struct {
		reason string
		next   int // the lawyer asked first afterwards
	}{{"busy", 1}, {matching.ReasonConflict, 0}} {
		t.Run(tt.reason, func(t *testing.T) {
			f := setUp(t)
			l := f.online(2)
			w := f.work(3)
			o := f.mustOffer(w[0], l[0])
			f.clock.Advance(time.Second)
			f.tx(func(tx postgres.Tx) error {
				_, err := f.match.Decline(f.ctx, tx, l[0], o.ID, tt.reason)
				return err
			})
			f.wantState(l[0], lawyer.Available)
			f.mustOffer(w[1], l[tt.next])
			f.put(l[tt.next], lawyer.Available)
			f.exec("UPDATE offers SET state = 'REVOKED', ended_at = now() WHERE state = 'OPEN'")
			f.mustOffer(w[0], l[1]) // the lawyer who declined is not asked again
			if o, found := f.offer(w[0]); found {
				t.Errorf("a consultation has two open offers: %+v", o)
			}
		})
	}
}

// A lawyer who declines because they are busy is asked again an hour later, for the callback promised by then. Any
// other refusal is permanent.
func TestWhoWasBusyIsAskedAgainAfterAnHour(t *testing.T) {
	for _, reason := range []string{matching.ReasonBusy, "not_my_field", matching.ReasonConflict} {
		t.Run(reason, func(t *testing.T) {
			f := setUp(t)
			l := f.online(1)
			w := f.work(1)[0]
			asked := f.mustOffer(w, l[0])
			f.tx(func(tx postgres.Tx) error {
				_, err := f.match.Decline(f.ctx, tx, l[0], asked.ID, reason)
				return err
			})
			again := func(after time.Duration) bool {
				f.clock.Advance(after)
				f.tx(func(tx postgres.Tx) error { return f.lawyers.Heartbeat(f.ctx, tx, l...) })
				_, found := f.offer(w)
				return found
			}
			if again(matching.BusyFor - time.Second) {
				t.Error("asked again within an hour")
			}
			if again(2*time.Second) != (reason == matching.ReasonBusy) {
				t.Error("asked again after an hour, or not")
			}
		})
	}
}

// A miss costs a minute, because the lawyer may be the only one there is. A refusal is permanent.
func TestWhoMissedOrLostWorkIsAskedAgainAfterAMinute(t *testing.T) {
	f := setUp(t)
	l := f.online(1)
	w := f.work(1)[0]
	back := func() {
		f.tx(func(tx postgres.Tx) error { return f.lawyers.Heartbeat(f.ctx, tx, l...) })
		f.tx(func(tx postgres.Tx) error {
			return f.lawyers.SetState(f.ctx, tx, l[0], []lawyer.State{lawyer.Away, lawyer.Busy},
				lawyer.On(lawyer.Available))
		})
	}
	// askedAgain lets a minute pass and returns the lawyer's offer, which must not come before the minute is over.
	askedAgain := func(after string) matching.Offer {
		t.Helper()
		back()
		f.clock.Advance(matching.RepeatAfter - time.Microsecond)
		f.tx(func(tx postgres.Tx) error { return f.lawyers.Heartbeat(f.ctx, tx, l...) })
		if _, found := f.offer(w); found {
			t.Errorf("asked again within a minute after %s", after)
		}
		f.clock.Advance(time.Microsecond)
		return f.mustOffer(w, l[0])
	}
	missed := f.mustOffer(w, l[0])
	f.clock.Advance(matching.OfferTime)
	f.tx(func(tx postgres.Tx) error { _, _, err := f.match.Expire(f.ctx, tx, missed.ID); return err })
	f.wantState(l[0], lawyer.Away)
	again := askedAgain("a missed offer")
	accept := func(o matching.Offer) {
		f.tx(func(tx postgres.Tx) error { _, err := f.match.Accept(f.ctx, tx, l[0], o.ID); return err })
		f.clock.Advance(matching.RepeatAfter) // the minute counts from the return
	}
	accept(again)
	f.tx(func(tx postgres.Tx) error { return f.match.Returned(f.ctx, tx, w.ConsultationID, l[0]) })
	again = askedAgain("he could not call")
	accept(again)
	f.tx(func(tx postgres.Tx) error {
		return f.match.Withdrawn(f.ctx, tx, w.ConsultationID, l[0], matching.ReasonConflict)
	})
	back()
	f.clock.Advance(time.Hour)
	f.tx(func(tx postgres.Tx) error { return f.lawyers.Heartbeat(f.ctx, tx, l...) })
	if _, found := f.offer(w); found {
		t.Error("asked again after withdrawing")
	}
}

// The queue of a pair agrees with the lawyers' states, whatever happened to them concurrently.
func TestTheQueueFollowsTheStates(t *testing.T) {
	f := setUp(t)
	l := f.online(6)
	work := f.work(40)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := i; n < len(work); n += 8 {
				f.act(n, work[n], l[n%len(l)])
			}
		})
	}
	all.Wait()
	var wrong, idle int
	err := f.db.Pool().QueryRow(f.ctx, `SELECT count(*) FILTER (WHERE p.idle_since IS DISTINCT FROM CASE WHEN l.state = 'AVAILABLE' THEN l.idle_since END),
		count(p.idle_since) FROM lawyers l JOIN lawyer_pairs p ON p.lawyer_id = l.id`).Scan(&wrong, &idle)
	if err != nil || wrong != 0 {
		t.Errorf("%d pairs disagree with their lawyer's state, %d idle (%v)", wrong, idle, err)
	}
}

// act does something that changes a lawyer's state, if possible.
func (f *fixture) act(n int, w matching.Work, lawyerID string) {
	err := f.db.InTx(f.ctx, func(tx postgres.Tx) error {
		offers, err := f.match.Offer(f.ctx, tx, w)
		if err != nil || len(offers) == 0 || n%5 == 0 {
			return err
		}
		o := offers[0]
		if n%2 == 0 {
			_, err = f.match.Decline(f.ctx, tx, o.LawyerID, o.ID, "busy")
			return err
		}
		_, err = f.match.Revoke(f.ctx, tx, w.ConsultationID)
		return err
	})
	if err != nil {
		f.Error(err)
	}
	for _, step := range []func(tx postgres.Tx) error{
		func(tx postgres.Tx) error {
			lease, err := f.lawyers.GoOnline(f.ctx, tx, lawyerID)
			if err != nil {
				return err
			}
			return f.lawyers.GoOffline(f.ctx, tx, lease)
		},
		func(tx postgres.Tx) error { _, err := f.lawyers.GoOnline(f.ctx, tx, lawyerID); return err },
		func(tx postgres.Tx) error {
			return f.lawyers.SetState(f.ctx, tx, lawyerID, []lawyer.State{lawyer.Offered, lawyer.Available},
				lawyer.Off(lawyer.MissedOffer))
		},
		func(tx postgres.Tx) error { _, err := f.lawyers.ReturnIdle(f.ctx, tx, lawyerID); return err },
	} {
		if err := step(f.db.Read()); err != nil && !errors.Is(err, lawyer.ErrState) &&
			!errors.Is(err, lawyer.ErrLeaseLost) {
			f.Error(err)
		}
	}
}

func TestRevokingGivesTheLawyerBackHisPlace(t *testing.T) {
	f := setUp(t)
	l := f.online(2)
	w := f.work(2)
	o := f.mustOffer(w[0], l[0])
	for range 2 { // the second time there is nothing to revoke
		f.tx(func(tx postgres.Tx) error { _, err := f.match.Revoke(f.ctx, tx, w[0].ConsultationID); return err })
	}
	err := f.db.InTx(f.ctx, func(tx postgres.Tx) error { _, err := f.match.Accept(f.ctx, tx, l[0], o.ID); return err })
	if !errors.Is(err, matching.ErrOfferGone) {
		t.Errorf("accepting a revoked offer: %v", err)
	}
	f.mustOffer(w[1], l[0])
}

// A lawyer whose records disagree must not block their pair: the search skips them.
func TestASearchQuarantinesALawyerWithContradictoryRecords(t *testing.T) {
	f := setUp(t)
	l := f.online(2)
	w := f.work(2)
	f.mustOffer(w[0], l[0])
	f.put(l[0], lawyer.Available) // while the offer is open
	f.mustOffer(w[1], l[1])
	f.wantState(l[0], lawyer.Away)
}

func TestOfferToAsksOnlyThatLawyerAndOnlyIfHeMay(t *testing.T) {
	f := setUp(t)
	l := f.online(2)
	w := f.work(2)
	try := func(w matching.Work, id string) (found bool) {
		f.tx(func(tx postgres.Tx) (err error) {
			if _, err = f.lawyers.Lock(f.ctx, tx, id); err != nil {
				return err
			}
			found, err = f.match.OfferTo(f.ctx, tx, w, id)
			return err
		})
		return found
	}
	if !try(w[0], l[1]) {
		t.Error("an available lawyer of the pair was not asked")
	}
	if try(w[1], l[1]) {
		t.Error("a lawyer with an offer was asked")
	}
	if !try(w[1], l[0]) {
		t.Error("the other lawyer was not asked")
	}
}

func TestCoverageCountsWhoIsThere(t *testing.T) {
	f := setUp(t)
	l := f.online(6)
	for i, s := range []lawyer.State{
		lawyer.Available, lawyer.Offered, lawyer.Busy, lawyer.WrapUp, lawyer.Away, lawyer.Offline,
	} {
		f.put(l[i], s)
	}
	check := func(p matching.Pair, online int, idle bool) {
		t.Helper()
		c, err := f.match.Coverage(f.ctx, f.db.Read(), p, "", matching.Waits{})
		if err != nil || c.LawyersOnline != online || c.Available != (online > 0) || (c.LawyersIdle > 0) != idle ||
			(c.EstimatedWaitSeconds != nil) != (online > 0) {
			t.Errorf("got %+v, %v; want %d online, idle %v", c, err, online, idle)
		}
		if got, err := f.match.IdlePairs(f.ctx, f.db.Read(), "", p); err != nil || slices.Contains(got, p) != idle {
			t.Errorf("idle %v, %v; want %v", got, err, idle)
		}
	}
	check(pair, 4, true)
	check(matching.Pair{Competence: "TAX", Language: "AR"}, 0, false)
	f.exec("UPDATE lawyers SET suspended_at = now() WHERE id = $1", l[0])
	check(pair, 3, false)
	f.clock.Advance(lawyer.PresenceFresh)
	check(pair, 0, false)
}

// A large supply is counted once a second and a small one each time, separately for each crew and pair.
func TestCoverageCountsManyOnceASecond(t *testing.T) {
	f := setUp(t)
	l := f.online(120)
	f.exec("UPDATE lawyer_presence SET heartbeat_at = $1", f.clock.Now())
	check := func(what string, p matching.Pair, crew matching.Crew, want int) {
		t.Helper()
		if c, err := f.match.Coverage(f.ctx, f.db.Read(), p, crew, matching.Waits{}); err != nil ||
			c.LawyersOnline != want || c.LawyersIdle != want {
			t.Errorf("%s: %+v, %v, want %d", what, c, err, want)
		}
	}
	check("at first", pair, "", 120)
	f.exec("UPDATE lawyers SET suspended_at = now() WHERE id = ANY ($1)", l[:10])
	check("at once", pair, "", 120)
	check("of another crew", pair, "other", 0)
	check("of another pair", matching.Pair{Competence: "TAX", Language: "AR"}, "", 0)
	f.clock.Advance(time.Second)
	check("a second later", pair, "", 110)
	f.exec("UPDATE lawyers SET suspended_at = now() WHERE id = ANY ($1)", l[10:60])
	f.clock.Advance(time.Second)
	check("of few, a second later", pair, "", 60)
	f.exec("UPDATE lawyers SET suspended_at = now() WHERE id = ANY ($1)", l[60:110])
	check("of few, at once", pair, "", 10)
}

// Whatever the kind of offer, a crew is offered only its own work, and no other lawyer is offered that work.
func TestACrewServesItsOwnWorkAlone(t *testing.T) {
	f := setUp(t)
	own := func(n int) (ids []string) {
		for i := range n {
			f.clock.Advance(time.Second)
			f.tx(func(tx postgres.Tx) error {
				l, err := f.lawyers.Create(f.ctx, tx, lawyer.NewLawyer{Email: fmt.Sprintf("own%d@example.com", i),
					Name: "O", Phone: "+33199000002", Simulated: true, ApplicationID: "app",
					Competences: []string{"FAMILY"}, Languages: []string{"FR"}})
				if err != nil {
					return err
				}
				ids = append(ids, l.ID)
				_, err = f.lawyers.GoOnline(f.ctx, tx, l.ID)
				return err
			})
		}
		return ids
	}
	mine, shared := own(4), f.online(2)
	for crew, want := range map[matching.Crew]int{"app": 4, "": 2, matching.Nobody: 0, "other": 0} {
		c, err := f.match.Coverage(f.ctx, f.db.Read(), pair, crew, matching.Waits{})
		if err != nil || c.LawyersOnline != want || c.LawyersIdle != want {
			t.Errorf("crew %q: %+v, %v", crew, c, err)
		}
		pairs, err := f.match.IdlePairs(f.ctx, f.db.Read(), crew, pair)
		if err != nil || len(pairs) != min(want, 1) {
			t.Errorf("crew %q is idle for %v, %v", crew, pairs, err)
		}
	}
	work := f.work(7)
	for i, crew := range []matching.Crew{"app", "", "app", matching.Nobody, "other", "app", ""} {
		work[i].Crew = crew
	}
	f.mustOffer(work[0], mine[0])
	f.mustOffer(work[1], shared[0])
	for _, w := range work[3:5] {
		if o, found := f.offer(w); found {
			t.Errorf("the crew %q was found: %+v", w.Crew, o)
		}
	}
	to := func(w matching.Work, lawyerID string, byHand bool) (found bool) {
		f.tx(func(tx postgres.Tx) (err error) {
			if byHand {
				found, err = f.match.OfferByHand(f.ctx, tx, w, lawyerID)
			} else {
				found, err = f.match.OfferTo(f.ctx, tx, w, lawyerID)
			}
			return err
		})
		return found
	}
	if to(work[6], mine[1], false) || to(work[6], mine[1], true) || to(work[5], shared[1], false) ||
		to(work[5], shared[1], true) {
		t.Error("a lawyer was offered the work of another crew")
	}
	if !to(work[5], mine[3], false) {
		t.Error("a lawyer of the crew was not found by name")
	}
	work[2].Failures = 100 // widened
	f.tx(func(tx postgres.Tx) error {
		offers, err := f.match.Offer(f.ctx, tx, work[2])
		var ids []string
		for _, o := range offers {
			ids = append(ids, o.LawyerID)
		}
		if !slices.Equal(ids, mine[1:3]) {
			t.Errorf("several at once: %v, want %v", ids, mine[1:3])
		}
		return err
	})
	f.mustOffer(work[6], shared[1])
}
