package consultation

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/wallet"
)

// atOnce runs n functions concurrently and returns their errors.
func atOnce(n int, f func(i int) error) []error {
	out := make([]error, n)
	gate := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-gate
			out[i] = f(i)
		})
	}
	close(gate)
	all.Wait()
	return out
}

// 2000 cents buy one consultation, however many concurrent requests there are (R151).
func TestParallelCreatesSpendTheMoneyOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.client = w.newClient("just@example.org", "+33612345671", true, 2000)
	created := make([]string, 50)
	for i, err := range atOnce(50, func(i int) error {
		c, err := w.tryCreate(w.command())
		created[i] = c.ID
		return err
	}) {
		if err == nil {
			continue
		}
		created[i] = ""
		if !errors.Is(err, wallet.ErrInsufficientFunds) {
			t.Errorf("create %d: %v", i, err)
		}
	}
	var ids []string
	for _, id := range created {
		if id != "" {
			ids = append(ids, id)
		}
	}
	if len(ids) != 1 {
		t.Fatalf("%d consultations created", len(ids))
	}
	w.expect(ids[0], Matching, "", 0, 2000)
}

// Exactly one of them wins, and the money agrees (R152).
func TestCancelRacesCallStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	won := map[Status]int{}
	for i := range 50 {
		id := w.assigned(l)
		w.confirmed(l, id)
		results := make([]error, 2)
		call, _, err := w.Telephony.Active(t.Context(), w.DB.Read(), id)
		w.do(err)
		copy(results, atOnce(2, func(side int) error {
			if (side+i)%2 == 0 {
				_, err := w.cancelIt(id)
				return err
			}
			return w.HandleCallEvent(t.Context(), telephony.Event{ID: fmt.Sprint("join", i), CallID: call.ID,
				Kind: telephony.LegsJoined, At: w.clock.Now()})
		}))
		cancel, join := results[i%2], results[1-i%2]
		w.do(join)
		c := w.read(id)
		won[c.Status]++
		_, active, err := w.Telephony.Active(t.Context(), w.DB.Read(), id)
		w.do(err)
		switch c.Status {
		case Cancelled:
			if cancel != nil || active || c.CallStartedAt != nil {
				t.Fatalf("cancelled: %v, call active %v", cancel, active)
			}
			w.expect(id, Cancelled, "assigned[ASSIGNED] "+released, 10_000, 0)
		case InCall:
			if !errors.Is(cancel, ErrNotCancellable) || !active {
				t.Fatalf("in call: %v, call active %v", cancel, active)
			}
			w.expect(id, InCall, "assigned[ASSIGNED] call_started[IN_CALL]", 8000, 2000)
			w.do(w.EndCall(t.Context(), w.lease(l), id))
			w.do(w.NoUsefulCall(t.Context(), w.lease(l), id, TooShort))
		default:
			t.Fatalf("status %s", c.Status)
		}
		w.clock.Advance(time.Millisecond)
	}
	t.Logf("won: %v", won)
}

// A page that sends a click twenty times gets one consultation and one event.
func TestOneOfferIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.create()
	w.sweep()
	offer := w.offerOf(l).ID
	accepted := 0
	for _, err := range atOnce(20, func(int) error { return w.AcceptOffer(t.Context(), w.lease(l), offer) }) {
		switch {
		case err == nil:
			accepted++
		case !errors.Is(err, matching.ErrOfferGone):
			t.Error(err)
		}
	}
	if accepted != 1 {
		t.Errorf("accepted %d times", accepted)
	}
	w.expect(id, Assigned, "assigned[ASSIGNED]", 8000, 2000)
}

// Replicas share the work, and nothing is done twice or offered to two lawyers.
func TestManySweepersDoNotDoubleAnything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 4 {
		w.online()
	}
	var ids []string
	for i := range 10 {
		w.client = w.newClient(fmt.Sprintf("many%d@example.org", i), fmt.Sprintf("+3361234568%d", i), true, 2000)
		ids = append(ids, w.create())
	}
	for _, err := range atOnce(8, func(int) error { return w.Sweep(t.Context()) }) {
		w.do(err)
	}
	w.sweep()
	var open, lawyers, consultations int
	err := w.DB.Pool().QueryRow(t.Context(),
		`SELECT count(*), count(DISTINCT lawyer_id), count(DISTINCT consultation_id)
		FROM offers WHERE state = 'OPEN'`).Scan(&open, &lawyers, &consultations)
	if err != nil || open != 4 || lawyers != 4 || consultations != 4 {
		t.Errorf("%d open offers to %d lawyers about %d consultations (%v), want 4", open, lawyers, consultations, err)
	}
	w.clock.Advance(SearchLimit)
	for _, err := range atOnce(8, func(int) error { return w.Sweep(t.Context()) }) {
		w.do(err)
	}
	w.sweep()
	for _, id := range ids {
		if got := w.events(id); got != started+" pending_callback[PENDING_CALLBACK]" {
			t.Errorf("events %s", got)
		}
	}
}

// The provider may report everything twice.
func TestRepeatedReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.assigned(l)
	w.confirmed(l, id)
	call, _, err := w.Telephony.Active(t.Context(), w.DB.Read(), id)
	w.do(err)
	report := func(name string, kind telephony.EventKind) {
		for _, err := range atOnce(5, func(int) error {
			return w.HandleCallEvent(t.Context(), telephony.Event{ID: name, CallID: call.ID, Kind: kind,
				By: telephony.Client, At: w.clock.Now()})
		}) {
			w.do(err)
		}
	}
	report("joined", telephony.LegsJoined)
	w.clock.Advance(90 * time.Second)
	report("ended", telephony.CallOver)
	report("joined", telephony.LegsJoined)
	w.expect(id, CallEnded, talked, 8000, 2000)
}

// A consultation whose move fails is logged and retried later; the others move on in the same sweep.
func TestOneBadRowStopsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad := w.create()
	w.clock.Advance(time.Second)
	good := w.create()
	exec := func(sql string) {
		t.Helper()
		if _, err := w.DB.Pool().Exec(t.Context(), sql, bad); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO webhook_events (id, application_id, consultation_id, sequence, type, body, created_at)
		SELECT 'evt_block', application_id, id, 4, 'consultation.matching', '{}', now() FROM consultations WHERE id = $1`)
	w.clock.Advance(SearchLimit)
	if err := w.Sweep(t.Context()); err == nil || !strings.Contains(err.Error(), bad) ||
		strings.Contains(err.Error(), good) {
		t.Errorf("sweep: %v", err)
	}
	if b, g := w.read(bad).Status, w.read(good).Status; b != Matching || g != PendingCallback {
		t.Errorf("bad %s, good %s", b, g)
	}
	w.sweep() // the failed one waits for its retry
	exec(`DELETE FROM webhook_events WHERE id = 'evt_block' AND consultation_id = $1`)
	w.clock.Advance(retryBroken)
	w.sweep()
	w.expect(bad, PendingCallback, "pending_callback[PENDING_CALLBACK]", 6000, 4000)
}
