package consultation

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
)

func (w *world) byHand(id, lawyerID string) error {
	return w.DB.InTx(w.Context(), func(tx postgres.Tx) error { return w.AssignByHand(w.Context(), tx, id, lawyerID) })
}

// If no lawyer has a callback two hours before it is due, operators are notified once, however many processes check.
func TestCallbackThatIsDueSoonIsAnAlarm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.create()
	w.pass(SearchLimit)
	due := *w.read(id).CallbackDueAt
	w.pass(due.Add(-callbackAlarm - time.Microsecond).Sub(w.clock.Now()))
	w.sweep()
	if c := w.read(id); c.AlarmedAt != nil {
		t.Errorf("alarm at %s, due at %s", c.AlarmedAt, due)
	}
	w.expectIncidents(callbackDueSoon, 0)
	w.clock.Advance(time.Microsecond)
	for _, err := range atOnce(4, func(int) error { return w.Sweep(t.Context()) }) {
		w.do(err)
	}
	w.pass(time.Hour)
	w.expectIncidents(callbackDueSoon, 1)
	w.expect(id, PendingCallback, "pending_callback[PENDING_CALLBACK]", 8000, 2000)
	w.pass(time.Hour)
	w.expect(id, Expired, "pending_callback[PENDING_CALLBACK] expired[EXPIRED] refunded[EXPIRED]", 10_000, 0)
}

// Each active operator who may handle consultations gets one email.
func TestAlarmIsMailedToOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people, err := staff.New(staff.Deps{DB: w.DB, Box: w.Box, Queue: w.queue, Mail: w.Mail,
		BaseURL: "https://partnerd.example"})
	w.do(err)
	w.Staff, w.deps.Staff = people, people
	for i, roles := range [][]staff.Role{{staff.Support}, {staff.Admin}, {staff.Finance}, {staff.Support}} {
		w.tx(func(tx postgres.Tx) error {
			_, _, err := people.Invite(t.Context(), tx, staff.NewPerson{Kind: staff.Operator,
				Email: fmt.Sprintf("operator%d@example.org", i), Name: "An Operator", Language: "en", Roles: roles})
			return err
		})
	}
	// the last one is only invited
	_, err = w.DB.Pool().Exec(t.Context(),
		"UPDATE staff SET password_hash = 'x' WHERE email <> 'operator3@example.org'")
	w.do(err)
	before := w.mails()
	id := w.create()
	w.pass(SearchLimit)
	w.pass(w.read(id).CallbackDueAt.Add(-callbackAlarm).Sub(w.clock.Now()))
	w.pass(time.Hour)
	if n := w.mails() - before; n != 2 {
		t.Errorf("%d mails, want one to support and one to admin", n)
	}
}

func TestAssignByHandIsAnOfferToOneLawyer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.searchedInVain()
	l := w.onlineInTurn(5)
	w.sweep()
	w.expectOffered(id, l[:3]...)
	before := w.places(l[4])
	w.do(w.byHand(id, l[4]))
	w.expectOffered(id, l[4])
	for _, by := range l[:3] {
		w.expectLawyer(by, lawyer.Available)
	}
	w.clock.Advance(matching.ByHandTime - time.Second)
	w.do(w.AcceptOffer(t.Context(), w.lease(l[4]), w.offerOf(l[4]).ID))
	w.expect(id, Assigned, "assigned[ASSIGNED]", 8000, 2000)
	story, err := w.Matching.Story(t.Context(), w.DB.Read(), id)
	w.do(err)
	if last := story[len(story)-1]; last.Why != matching.ByHand || last.Idle != w.clock.Now().
		Add(-matching.ByHandTime+time.Second).Sub(before[0]) {
		t.Errorf("%+v", last)
	}
}

func TestAssignByHandRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.onlineInTurn(4)
	id := w.create()
	w.sweep()
	refuses := func(what, id, by string, want error) {
		t.Helper()
		if err := w.byHand(id, by); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	refuses("no consultation", "con_none", l[1], problem.ErrNotFound)
	refuses("no lawyer", id, "law_none", lawyer.ErrNotFound)
	w.put(l[1], lawyer.Away)
	refuses("away", id, l[1], ErrLawyerUnable)
	w.expectOffered(id, l[0]) // a failed call changes nothing
	w.do(w.DeclineOffer(t.Context(), w.lease(l[0]), w.offerOf(l[0]).ID, matching.ReasonConflict))
	refuses("has refused it", id, l[0], ErrLawyerUnable)
	w.sweep()
	other := w.create()
	refuses("another of the client is on offer", other, l[3], ErrNotAssignable)
	w.do(w.AcceptOffer(t.Context(), w.lease(l[2]), w.offerOf(l[2]).ID))
	refuses("assigned", id, l[3], ErrNotAssignable)
	_, err := w.cancelIt(other)
	w.do(err)
	refuses("over", other, l[3], ErrNotAssignable)
}

// If a manual offer, an acceptance and a cancellation run concurrently, one wins and no offer is left behind.
func TestAssignByHandRaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.client = w.newClient("often@example.org", "+33612345607", true, 100_000)
	l := w.onlineInTurn(4)
	for i := range 12 {
		id := w.searchedInVain()
		for _, by := range l {
			_, err := w.Lawyers.GoOnline(t.Context(), w.DB.Read(), by)
			w.do(err)
		}
		w.sweep()
		asked := w.askedFor(id)
		if len(asked) != 3 {
			t.Fatalf("round %d: on offer to %d", i, len(asked))
		}
		lease, offer, last := w.lease(asked[0]), w.offerOf(asked[0]).ID, l[3]
		for _, err := range atOnce(3, func(side int) error {
			switch (side + i) % 3 {
			case 0:
				return w.AcceptOffer(t.Context(), lease, offer)
			case 1:
				return w.byHand(id, last)
			default:
				return w.byHand(id, asked[0])
			}
		}) {
			if err != nil && !errors.Is(err, matching.ErrOfferGone) && !errors.Is(err, ErrNotAssignable) &&
				!errors.Is(err, ErrLawyerUnable) {
				t.Error(err)
			}
		}
		c := w.read(id)
		if n := len(w.askedFor(id)); c.Status == Assigned && n != 0 || c.Status == Matching && n != 1 {
			t.Fatalf("round %d: %s with %d offers", i, c.Status, n)
		}
		_, err := w.cancelIt(id)
		w.do(err)
		for _, by := range l {
			w.expectLawyer(by, lawyer.Available)
		}
	}
}
