package matching_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/internal/clock"
	"partnerd/internal/dbtest"
	"partnerd/internal/lawyer"
	"partnerd/internal/matching"
	"partnerd/internal/postgres"
	"partnerd/internal/seal/sealtest"
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
	f.exec(`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ('cli', 'c@example.com', 'Demo Client', 'x', now(), now())`)
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

func (f *fixture) work(n int) []matching.Work {
	f.Helper()
	work := make([]matching.Work, n)
	for i := range work {
		work[i] = matching.Work{ConsultationID: fmt.Sprintf("con_%d", i), Pair: pair}
		f.exec(`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed, recording_consent,
				price_cents, phone_sealed, created_at, updated_at, search_started_at)
			VALUES ($1, 'app', 'cli', 'MATCHING', 'FAMILY', 'FR', 'x', false, 2000, 'x', now(), now(), now())`, work[i].ConsultationID)
	}
	return work
}

// online creates n lawyers of the pair who came online one second after the other, and returns them in that order.
func (f *fixture) online(n int) []string {
	f.Helper()
	ids := make([]string, n)
	for i := range ids {
		f.clock.Advance(time.Second)
		f.tx(func(tx postgres.Tx) error {
			l, err := f.lawyers.Create(f.ctx, tx, lawyer.NewLawyer{Email: fmt.Sprintf("l%d@example.com", i), Name: "L", Simulated: true,
				Competences: []string{"FAMILY"}, Languages: []string{"FR"}})
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
		o, found, err = f.match.Offer(f.ctx, tx, w)
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
				o, found, err := f.match.Offer(f.ctx, tx, w)
				if found && err == nil {
					tx.AfterCommit(func() {
						mu.Lock()
						defer mu.Unlock()
						byLawyer[o.LawyerID]++
					})
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	// A search that met only locked lawyers is repeated by the sweeper.
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
	f.exec("UPDATE lawyers SET state = 'AWAY' WHERE id = $1", l[1])
	f.exec("UPDATE lawyers SET heartbeat_at = $2 WHERE id = $1", l[2], f.clock.Now().Add(-lawyer.PresenceFresh))
	w := f.work(2)
	if o, found := f.offer(matching.Work{ConsultationID: w[0].ConsultationID, Pair: matching.Pair{Competence: "FAMILY", Language: "EN"}}); found {
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
	overdue, err := f.match.Expired(f.ctx, f.db.Read(), 10)
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
		next   int // who is asked first afterwards
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
			f.exec("UPDATE lawyers SET state = 'AVAILABLE' WHERE id = $1", l[tt.next])
			f.exec("UPDATE offers SET state = 'REVOKED', ended_at = now() WHERE state = 'OPEN'")
			f.mustOffer(w[0], l[1]) // the one who declined it is not asked again
			if o, found := f.offer(w[0]); found {
				t.Errorf("a consultation has two open offers: %+v", o)
			}
		})
	}
}

func TestWhoMissedOrGaveBackWorkIsNotAskedAgainInTheSameSearch(t *testing.T) {
	f := setUp(t)
	l := f.online(1)
	w := f.work(2)
	beat := func() { f.tx(func(tx postgres.Tx) error { return f.lawyers.Heartbeat(f.ctx, tx, l...) }) }
	available := func() {
		f.tx(func(tx postgres.Tx) error {
			return f.lawyers.SetState(f.ctx, tx, l[0], []lawyer.State{lawyer.Away, lawyer.Busy}, lawyer.Available)
		})
		beat()
	}
	missed := f.mustOffer(w[0], l[0])
	f.clock.Advance(matching.OfferTime)
	f.tx(func(tx postgres.Tx) error { _, _, err := f.match.Expire(f.ctx, tx, missed.ID); return err })
	available()
	if _, found := f.offer(w[0]); found {
		t.Error("asked again in the same search")
	}
	callback := w[0]
	callback.Callback = true
	if _, found := f.offer(callback); found {
		t.Error("asked again for the callback at once")
	}
	f.clock.Advance(matching.RepeatAfter)
	beat()
	if _, found := f.offer(w[0]); found {
		t.Error("asked again in the same search, later")
	}
	again := f.mustOffer(callback, l[0])
	f.tx(func(tx postgres.Tx) error {
		if _, err := f.match.Accept(f.ctx, tx, l[0], again.ID); err != nil {
			return err
		}
		return f.match.Withdrawn(f.ctx, tx, callback.ConsultationID, l[0], matching.ReasonConflict)
	})
	available()
	f.clock.Advance(2 * matching.RepeatAfter)
	beat()
	if _, found := f.offer(callback); found {
		t.Error("asked again after withdrawing")
	}
}

func TestRevokingGivesTheLawyerBackHisPlace(t *testing.T) {
	f := setUp(t)
	l := f.online(2)
	w := f.work(2)
	o := f.mustOffer(w[0], l[0])
	for range 2 { // the second time there is nothing to revoke
		f.tx(func(tx postgres.Tx) error { return f.match.Revoke(f.ctx, tx, w[0].ConsultationID) })
	}
	err := f.db.InTx(f.ctx, func(tx postgres.Tx) error { _, err := f.match.Accept(f.ctx, tx, l[0], o.ID); return err })
	if !errors.Is(err, matching.ErrOfferGone) {
		t.Errorf("accepting a revoked offer: %v", err)
	}
	f.mustOffer(w[1], l[0])
}

// A lawyer whose records disagree must not block his pair: the search steps over him.
func TestASearchQuarantinesALawyerWithContradictoryRecords(t *testing.T) {
	f := setUp(t)
	l := f.online(2)
	w := f.work(2)
	f.mustOffer(w[0], l[0])
	f.exec("UPDATE lawyers SET state = 'AVAILABLE' WHERE id = $1", l[0]) // while his offer is open
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
			_, found, err = f.match.OfferTo(f.ctx, tx, w, id)
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
	for i, s := range []string{"AVAILABLE", "OFFERED", "BUSY", "WRAP_UP", "AWAY", "OFFLINE"} {
		f.exec("UPDATE lawyers SET state = $2 WHERE id = $1", l[i], s)
	}
	check := func(p matching.Pair, online int, idle bool) {
		t.Helper()
		c, err := f.match.Coverage(f.ctx, f.db.Read(), p, matching.Waits{})
		if err != nil || c.LawyersOnline != online || c.Available != (online > 0) || (c.EstimatedWaitSeconds != nil) != idle {
			t.Errorf("got %+v, %v; want %d online, idle %v", c, err, online, idle)
		}
		if got, err := f.match.IdleFor(f.ctx, f.db.Read(), p); err != nil || got != idle {
			t.Errorf("idle %v, %v; want %v", got, err, idle)
		}
	}
	check(pair, 4, true)
	check(matching.Pair{Competence: "TAX", Language: "AR"}, 0, false)
	f.exec("UPDATE lawyers SET suspended_at = now() WHERE id = $1", l[0])
	check(pair, 3, false)
	f.clock.Advance(lawyer.PresenceFresh)
	check(pair, 0, false)
	pairs, err := f.match.PairsOf(f.ctx, f.db.Read(), l[0])
	if err != nil || len(pairs) != 1 || pairs[0] != pair {
		t.Errorf("pairs %v, %v", pairs, err)
	}
}
