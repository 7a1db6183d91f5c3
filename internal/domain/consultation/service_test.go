package consultation

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

const (
	released = "cancelled[CANCELLED] refunded[CANCELLED]"
	talked   = "assigned[ASSIGNED] call_started[IN_CALL] call_ended[CALL_ENDED 90]"
	finished = talked + " note_available[COMPLETED 90] completed[COMPLETED 90]"
)

func TestCreateHoldsTheMoneyAndBeginsTheSearch(t *testing.T) { // X1, X2
	t.Parallel()
	w := newWorld(t)
	id := w.create()
	w.expect(id, Matching, "", 8000, 2000)
	c := w.read(id)
	if c.Subject != "Séparation" || c.Description != "Que faire ?" || c.ExternalRef != "case-7" || c.Language != "FR" ||
		c.Price != 2000 || !c.CreatedAt.Equal(noon) || c.AssignedAt != nil || c.NoteAvailable() ||
		!c.WaiverAcknowledged() {
		t.Errorf("%+v", c)
	}
	if n, err := w.ClientNumber(t.Context(), id); err == nil {
		t.Errorf("the number %s is given out before a lawyer has the consultation", n)
	}
}

func TestTheWholeWay(t *testing.T) { // X3, X6, X10, X11, X16, X15
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.assigned(l)
	w.expect(id, Assigned, "assigned[ASSIGNED]", 8000, 2000)
	w.expectLawyer(l, lawyer.Busy)
	if n, err := w.ClientNumber(t.Context(), id); err != nil || n != "+33612345678" {
		t.Errorf("number %q, %v", n, err)
	}
	w.confirmed(l, id)
	w.expect(id, Assigned, "assigned[ASSIGNED]", 8000, 2000)
	w.do(w.provider(id, telephony.Event{Kind: telephony.LegsJoined}))
	w.expect(id, InCall, "assigned[ASSIGNED] call_started[IN_CALL]", 8000, 2000)
	w.clock.Advance(90 * time.Second)
	w.do(w.provider(id, telephony.Event{Kind: telephony.CallOver, By: telephony.Client}))
	w.expect(id, CallEnded, talked, 8000, 2000)
	w.expectLawyer(l, lawyer.WrapUp)
	if _, err := w.Note(t.Context(), w.DB.Read(), w.application, w.client, id); !errors.Is(err, ErrNoteNotAvailable) {
		t.Errorf("note before it is there: %v", err)
	}
	w.do(w.SubmitNote(t.Context(), w.lease(l), id, "Le texte complet.", "  Un aperçu. "))
	w.expect(id, Completed, finished, 8000, 0)
	w.expectLawyer(l, lawyer.Available)
	p, err := w.Note(t.Context(), w.DB.Read(), w.application, w.client, id)
	if err != nil || p.Text != "Un aperçu." || p.ConsultationID != id || !p.SubmittedAt.Equal(w.clock.Now()) {
		t.Errorf("preview %+v, %v", p, err)
	}

	w.clock.Advance(time.Hour)
	w.do(w.SubmitNote(t.Context(), w.lease(l), id, "Corrigé.", "Corrigé."))
	w.expect(id, Completed, finished+" note_available[COMPLETED 90]", 8000, 0)
	if p, err = w.Note(t.Context(), w.DB.Read(), w.application, w.client, id); err != nil || p.Text != "Corrigé." ||
		!p.SubmittedAt.Equal(w.clock.Now()) {
		t.Errorf("corrected preview %+v, %v", p, err)
	}

	w.do(w.refund(id, 500))
	w.expect(id, Completed, finished+" note_available[COMPLETED 90] refunded[COMPLETED 90]", 8500, 0)
	if err := w.refund(id, 500); !errors.Is(err, ErrNotRefundable) {
		t.Errorf("second refund: %v", err)
	}
	if c := w.read(id); c.Refunded != 500 || c.RefundedAt == nil || *c.DurationSec != 90 || !c.NoteAvailable() {
		t.Errorf("%+v", c)
	}
}

func TestSearchEndsAtThirtyMinutesAndTheGuaranteeAfterADay(t *testing.T) { // X4, X14
	t.Parallel()
	w := newWorld(t)
	id := w.create()
	w.pass(SearchLimit - time.Second)
	w.expect(id, Matching, "", 8000, 2000)
	w.pass(time.Second)
	w.expect(id, PendingCallback, "pending_callback[PENDING_CALLBACK]", 8000, 2000)
	if due := w.read(id).CallbackDueAt; due == nil || !due.Equal(noon.Add(SearchLimit+CallbackGuarantee)) {
		t.Errorf("callback due %v", due)
	}
	w.pass(CallbackGuarantee - time.Second)
	w.expect(id, PendingCallback, "pending_callback[PENDING_CALLBACK]", 8000, 2000)
	w.pass(time.Second)
	w.expect(id, Expired, "pending_callback[PENDING_CALLBACK] expired[EXPIRED] refunded[EXPIRED]", 10_000, 0)
	if c := w.read(id); c.EndReason != GuaranteeMissed || c.Refunded != Price || c.ExpiredAt == nil {
		t.Errorf("%+v", c)
	}
	if _, err := w.cancelIt(id); !errors.Is(err, ErrNotCancellable) {
		t.Errorf("cancel of an expired one: %v", err)
	}
}

func TestAcceptAt2959Wins(t *testing.T) { // rule 3
	t.Parallel()
	w := newWorld(t)
	id := w.create()
	w.pass(SearchLimit - 10*time.Second)
	l := w.online()
	w.sweep()
	w.clock.Advance(9 * time.Second)
	w.do(w.AcceptOffer(t.Context(), w.lease(l), w.offerOf(l).ID))
	w.pass(time.Second)
	w.expect(id, Assigned, "assigned[ASSIGNED]", 8000, 2000)
}

// What an event contains beyond the status: the client, the amounts, the due time and the reason.
func TestEventsSayAmountsDueTimesAndReasons(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	data := func(id, kind string) map[string]any {
		t.Helper()
		var body struct{ Data map[string]any }
		var raw []byte
		if err := w.DB.Pool().QueryRow(t.Context(),
			`SELECT body FROM webhook_events WHERE consultation_id = $1 AND type = 'consultation.' || $2`,
			id, kind).Scan(&raw); err != nil {
			t.Fatalf("%s of %s: %v", kind, id, err)
		}
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Fatal(err)
		}
		if body.Data["clientId"] != w.client || body.Data["priceCents"] != 2000.0 {
			t.Errorf("%s is of %v at %v", kind, body.Data["clientId"], body.Data["priceCents"])
		}
		return body.Data
	}
	says := func(id, kind string, reason, refunded, due any) {
		t.Helper()
		if d := data(id, kind); d["endReason"] != reason || d["refundedCents"] != refunded ||
			d["callbackDueAt"] != due {
			t.Errorf("%s says %v", kind, d)
		}
	}
	cancelled := w.create()
	if _, err := w.cancelIt(cancelled); err != nil {
		t.Fatal(err)
	}
	says(cancelled, "matching", nil, nil, nil)
	says(cancelled, "cancelled", "CANCELLED_BY_PARTNER", 2000.0, nil)
	says(cancelled, "refunded", "CANCELLED_BY_PARTNER", 2000.0, nil)

	missed := w.create()
	w.pass(30 * time.Minute)
	says(missed, "pending_callback", nil, nil, clock.Format(*w.read(missed).CallbackDueAt))
	w.pass(CallbackGuarantee)
	says(missed, "expired", "GUARANTEE_MISSED", 2000.0, nil)

	refunded := w.completed(w.online())
	w.do(w.refund(refunded, 500))
	says(refunded, "completed", nil, nil, nil)
	says(refunded, "refunded", nil, 500.0, nil)
	useless := w.callEnded(w.online(), 20*time.Second)
	w.do(w.closeIt(useless, TooShort))
	says(useless, "call_ended", nil, nil, nil)
	says(useless, "expired", "TOO_SHORT", 2000.0, nil)
}

// The result does not depend on how fast the sweeper is.
func TestAcceptAfterThirtyMinutesIsACallback(t *testing.T) { // X4, X5
	t.Parallel()
	w := newWorld(t)
	id := w.create()
	w.pass(SearchLimit - 10*time.Second)
	l := w.online()
	w.sweep()
	w.clock.Advance(10 * time.Second)
	w.do(w.AcceptOffer(t.Context(), w.lease(l), w.offerOf(l).ID))
	w.expect(id, Assigned, "pending_callback[PENDING_CALLBACK] assigned[ASSIGNED]", 8000, 2000)
	if c := w.read(id); c.CallbackDueAt == nil || c.AssignedAt == nil {
		t.Errorf("%+v", c)
	}
}

func TestCallbackIsServedWhenALawyerComes(t *testing.T) { // X5, X8
	t.Parallel()
	w := newWorld(t)
	id := w.create()
	w.pass(SearchLimit)
	due := *w.read(id).CallbackDueAt
	l := w.online()
	w.pass(time.Hour)
	w.do(w.AcceptOffer(t.Context(), w.lease(l), w.offerOf(l).ID))
	w.expect(id, Assigned, "pending_callback[PENDING_CALLBACK] assigned[ASSIGNED]", 8000, 2000)
	w.do(w.Withdraw(t.Context(), w.lease(l), id, ConflictOfInterest))
	w.expect(id, PendingCallback,
		"pending_callback[PENDING_CALLBACK] assigned[ASSIGNED] pending_callback[PENDING_CALLBACK]", 8000, 2000)
	if got := w.read(id).CallbackDueAt; !got.Equal(due) {
		t.Errorf("callback due %v, want the first %v", got, due)
	}
	w.expectLawyer(l, lawyer.Available)
	w.pass(time.Second)
	if _, ok, _ := w.Matching.OpenFor(t.Context(), w.DB.Read(), l); ok {
		t.Error("offered again to the lawyer who withdrew")
	}
}

func TestLawyerWhoIsLostIsReplaced(t *testing.T) { // X7
	t.Parallel()
	for name, tc := range map[string]struct {
		lose func(w *world, l, id string)
		then lawyer.State
	}{
		"withdraws": {func(w *world, l, id string) { w.do(w.Withdraw(w.Context(), w.lease(l), id, NotMyField)) },
			lawyer.Available},
		"does not dial": {func(w *world, l, id string) {
			w.pass(DialDeadline - time.Second)
			w.expectLawyer(l, lawyer.Busy)
			w.pass(time.Second)
		}, lawyer.Away},
		"loses presence": {func(w *world, l, id string) { w.clock.Advance(lawyer.LeaseLost + time.Second); w.sweep() },
			lawyer.Offline},
		"does not answer": {func(w *world, l, id string) {
			w.do(w.StartCall(w.Context(), w.lease(l), id))
			w.do(w.provider(id, telephony.Event{Kind: telephony.LegFailed, Role: telephony.Lawyer,
				Reason: telephony.NoAnswer}))
		}, lawyer.Away},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			l := w.online()
			id := w.assigned(l)
			tc.lose(w, l, id)
			w.expect(id, Matching, "assigned[ASSIGNED] matching[MATCHING]", 8000, 2000)
			w.expectLawyer(l, tc.then)
			if c := w.read(id); c.LawyerID != "" || c.AssignedAt != nil {
				t.Errorf("%+v", c)
			}
			w.lawyers = nil
			second := w.online()
			w.sweep()
			if o := w.offerOf(second); o.ConsultationID != id {
				t.Errorf("second lawyer was offered %s", o.ConsultationID)
			}
			w.clock.Advance(SearchLimit) // X7 does not reset it
			w.sweep()
			if s := w.read(id).Status; s != PendingCallback {
				t.Errorf("status %s after the search time", s)
			}
		})
	}
}

func TestPresenceIsNotAskedWhileDialling(t *testing.T) { // rule 5
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.assigned(l)
	w.do(w.StartCall(t.Context(), w.lease(l), id))
	w.clock.Advance(lawyer.LeaseLost + time.Second)
	w.sweep()
	w.expect(id, Assigned, "assigned[ASSIGNED]", 8000, 2000)
}

func TestClientWhoIsNotReached(t *testing.T) { // X9
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.assigned(l)
	w.do(w.StartCall(t.Context(), w.lease(l), id))
	w.do(w.StartCall(t.Context(), w.lease(l), id)) // a second click does nothing
	w.unreached(id)
	if err := w.StartCall(t.Context(), w.lease(l), id); !errors.Is(err, ErrTooEarly) {
		t.Errorf("early second attempt: %v", err)
	}
	w.pass(5*time.Minute - time.Second)
	if _, active, _ := w.Telephony.Active(t.Context(), w.DB.Read(), id); active {
		t.Error("second attempt before 5 minutes")
	}
	w.pass(time.Second)
	w.unreached(id)
	w.pass(10 * time.Minute)
	w.expect(id, Assigned, "assigned[ASSIGNED]", 8000, 2000)
	w.unreached(id)
	w.expect(id, Expired, "assigned[ASSIGNED] expired[EXPIRED] refunded[EXPIRED]", 10_000, 0)
	w.expectLawyer(l, lawyer.Available)
	if c := w.read(id); c.EndReason != ClientNotReached || c.DurationSec != nil {
		t.Errorf("%+v", c)
	}
}

// A client who does not answer holds no lawyer unless the lawyer agrees to wait. The client still gets three attempts,
// each not before its time.
func TestUnansweredAttemptIsLeftToOthers(t *testing.T) { // X7, X8, X9
	t.Parallel()
	for name, leave := range map[string]func(w *world, l, id string){
		"by choice": func(w *world, l, id string) { w.do(w.ChooseRedial(t.Context(), w.lease(l), id, false)) },
		"after having waited": func(w *world, l, id string) {
			w.do(w.ChooseRedial(t.Context(), w.lease(l), id, true))
			w.pass(ChooseLimit)
			w.expectLawyer(l, lawyer.Busy)
			w.do(w.ChooseRedial(t.Context(), w.lease(l), id, false))
		},
		"saying nothing": func(w *world, l, id string) {
			w.pass(ChooseLimit - time.Microsecond)
			w.expectLawyer(l, lawyer.Busy)
			w.pass(time.Microsecond)
		},
		"lost": func(w *world, l, id string) {
			w.do(w.ChooseRedial(t.Context(), w.lease(l), id, true))
			w.clock.Advance(lawyer.LeaseLost + time.Second)
			w.sweep()
			_, err := w.Lawyers.GoOnline(t.Context(), w.DB.Read(), l)
			w.do(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			first := w.online()
			id := w.assigned(first)
			began := w.clock.Now()
			w.do(w.StartCall(t.Context(), w.lease(first), id))
			if err := w.ChooseRedial(t.Context(), w.lease(first), id, true); !errors.Is(err, ErrForbidden) {
				t.Errorf("choice while it rings: %v", err)
			}
			w.unanswered(id)
			leave(w, first, id)
			if name != "lost" {
				w.expectLawyer(first, lawyer.Available)
			}
			if err := w.ChooseRedial(t.Context(), w.lease(first), id, true); !errors.Is(err, ErrNotYours) {
				t.Errorf("choice of one who has left it: %v", err)
			}
			second := w.online()
			w.pass(began.Add(5*time.Minute - time.Microsecond).Sub(w.clock.Now()))
			w.expectOffered(id)
			w.pass(time.Microsecond)
			for _, by := range w.askedFor(id) {
				w.do(w.DeclineOffer(t.Context(), w.lease(by), w.offerOf(by).ID, "busy"))
			}
			w.pass(2 * time.Minute) // no lawyer takes it when it is due
			third := w.online()
			w.sweep()
			w.do(w.AcceptOffer(t.Context(), w.lease(third), w.offerOf(third).ID))
			w.do(w.StartCall(t.Context(), w.lease(third), id))
			again := w.clock.Now()
			w.unanswered(id)
			c := w.read(id)
			if c.Attempts() != 2 || c.NextDialAt == nil || !c.NextDialAt.Equal(again.Add(10*time.Minute)) {
				t.Errorf("%d attempts, the next at %v", c.Attempts(), c.NextDialAt)
			}
			w.do(w.ChooseRedial(t.Context(), w.lease(third), id, true))
			w.pass(10 * time.Minute)
			w.unanswered(id)
			w.expect(id, Expired, "assigned[ASSIGNED] matching[MATCHING] assigned[ASSIGNED] expired[EXPIRED] "+
				"refunded[EXPIRED]", 10_000, 0)
			w.expectLawyer(second, lawyer.Available)
		})
	}
}

func TestSilentProviderIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.assigned(l)
	w.do(w.StartCall(t.Context(), w.lease(l), id))
	w.lawyerReady(id)
	w.pass(DialLimit)
	if c := w.read(id); c.NextDialAt == nil || !c.NextDialAt.Equal(noon.Add(5*time.Minute)) {
		t.Errorf("next attempt at %v", c.NextDialAt)
	}
	if _, active, _ := w.Telephony.Active(t.Context(), w.DB.Read(), id); active {
		t.Error("the silent call is still under way")
	}
}

// A lawyer whose phone is answered without pressing 1 loses the consultation and is paused. The client was not called,
// no attempt counts, and the consultation is offered to others immediately.
func TestALawyerWhoDoesNotPress1HasNotBeenReached(t *testing.T) {
	t.Parallel()
	asked := telephony.Event{Kind: telephony.LegAnswered, Role: telephony.Lawyer}
	for name, play := range map[string]func(w *world, id string){
		"nothing": func(w *world, id string) {
			w.do(w.provider(id, telephony.Event{Kind: telephony.LegDigits, Role: telephony.Lawyer}))
		},
		"another": func(w *world, id string) {
			w.do(w.provider(id, telephony.Event{Kind: telephony.LegDigits, Role: telephony.Lawyer, Digits: "9"}))
		},
		"a machine": func(w *world, id string) {
			w.do(w.provider(id, telephony.Event{Kind: telephony.LegMachine, Role: telephony.Lawyer}))
		},
		"silence": func(w *world, _ string) { w.pass(DialLimit) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			first := w.online()
			id := w.assigned(first)
			second := w.online()
			w.do(w.StartCall(t.Context(), w.lease(first), id))
			w.do(w.provider(id, asked))
			play(w, id)
			c := w.read(id)
			if c.Status != Matching || c.Attempts() != 0 || c.FirstDialAt != nil {
				t.Errorf("%s after %d attempts, the first at %v", c.Status, c.Attempts(), c.FirstDialAt)
			}
			w.expectLawyer(first, lawyer.Away)
			w.sweep()
			w.do(w.AcceptOffer(t.Context(), w.lease(second), w.offerOf(second).ID))
			w.do(w.StartCall(t.Context(), w.lease(second), id))
			w.lawyerReady(id)
			w.do(w.provider(id, telephony.Event{Kind: telephony.LegAnswered, Role: telephony.Client}))
		})
	}
}

func TestCallIsCutAfterTwentyMinutes(t *testing.T) { // X10, R4
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.inCall(l)
	w.pass(CallLimit - time.Second)
	w.expect(id, InCall, "assigned[ASSIGNED] call_started[IN_CALL]", 8000, 2000)
	w.pass(5 * time.Minute)
	w.expect(id, CallEnded, "assigned[ASSIGNED] call_started[IN_CALL] call_ended[CALL_ENDED 1200]", 8000, 2000)
	w.expectLawyer(l, lawyer.WrapUp)
}

func TestLostLine(t *testing.T) { // X10
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.inCall(l)
	w.pass(time.Minute)
	w.do(w.provider(id, telephony.Event{Kind: telephony.LegsParted}))
	w.pass(2 * time.Minute)
	w.do(w.provider(id, telephony.Event{Kind: telephony.LegsJoined}))
	w.pass(CallLimit - time.Minute - time.Second) // the two minutes do not count
	w.expect(id, InCall, "assigned[ASSIGNED] call_started[IN_CALL]", 8000, 2000)
	w.do(w.provider(id, telephony.Event{Kind: telephony.LegsParted}))
	w.pass(LineRestore - time.Second)
	w.expect(id, InCall, "assigned[ASSIGNED] call_started[IN_CALL]", 8000, 2000)
	w.pass(time.Second)
	w.expect(id, CallEnded, "assigned[ASSIGNED] call_started[IN_CALL] call_ended[CALL_ENDED 1199]", 8000, 2000)
}

func TestLawyerEndsTheCall(t *testing.T) { // X10
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.inCall(l)
	w.clock.Advance(90 * time.Second)
	if err := w.EndCall(t.Context(), w.lease(w.online()), id); !errors.Is(err, ErrNotYours) {
		t.Errorf("somebody else ends the call: %v", err)
	}
	w.do(w.EndCall(t.Context(), w.lease(l), id))
	w.expect(id, CallEnded, talked, 8000, 2000)
}

func TestNoUsefulCall(t *testing.T) { // X12
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.callEnded(l, 90*time.Second)
	for _, reason := range []Reason{"", TooShort, CancelledByPartner} {
		if err := w.NoUsefulCall(t.Context(), w.lease(l), id, reason); !errors.Is(err, ErrReason) {
			t.Errorf("reason %q: %v", reason, err)
		}
	}
	w.do(w.NoUsefulCall(t.Context(), w.lease(l), id, WrongPerson))
	w.expect(id, Expired, talked+" expired[EXPIRED 90] refunded[EXPIRED 90]", 10_000, 0)
	w.expectLawyer(l, lawyer.Available)
}

func TestDeclinedAndMissedOffersGoToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second, third := w.online(), w.online(), w.online()
	id := w.create()
	w.sweep()
	w.do(w.DeclineOffer(t.Context(), w.lease(first), w.offerOf(first).ID, "not_my_field"))
	w.sweep()
	missed := w.offerOf(second)
	w.pass(matching.OfferTime)
	w.expectLawyer(second, lawyer.Away)
	if err := w.AcceptOffer(t.Context(), w.lease(second), missed.ID); !errors.Is(err, matching.ErrOfferGone) {
		t.Errorf("late accept: %v", err)
	}
	w.do(w.AcceptOffer(t.Context(), w.lease(third), w.offerOf(third).ID))
	w.expect(id, Assigned, "assigned[ASSIGNED]", 8000, 2000)
}

func TestLawyerWhoBecomesAvailableGetsTheOldest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	oldest := w.create()
	w.clock.Advance(time.Second)
	w.create()
	l := w.online()
	w.do(w.LawyerAvailable(t.Context(), l))
	if o := w.offerOf(l); o.ConsultationID != oldest {
		t.Errorf("offered %s, want the oldest", o.ConsultationID)
	}
	w.expectLawyer(l, lawyer.Offered)
}

// TestRunFindsALawyerByItself uses the real loop: a commit starts the search.
func TestRunFindsALawyerByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { done <- w.Service.Run(ctx) }()
	w.create()
	deadline := time.After(20 * time.Second)
	for {
		if _, ok, err := w.Matching.OpenFor(t.Context(), w.DB.Read(), l); err != nil || ok {
			w.do(err)
			break
		}
		select {
		case <-deadline:
			t.Fatal("no offer")
		case <-time.After(10 * time.Millisecond):
		}
	}
	stop()
	w.do(<-done)
}

func TestClientIsNeverDialledByTwoLawyers(t *testing.T) { // H40
	t.Parallel()
	w := newWorld(t)
	first, second := w.online(), w.online()
	one, two := w.assigned(first), w.create()
	w.offerBesides(two, second)
	w.do(w.AcceptOffer(t.Context(), w.lease(second), w.offerOf(second).ID))
	w.do(w.StartCall(t.Context(), w.lease(first), one))
	if err := w.StartCall(t.Context(), w.lease(second), two); !errors.Is(err, telephony.ErrLineBusy) {
		t.Fatalf("second dial: %v", err)
	}
	w.unreached(one)
	w.pass(lineBusyRetry)
	if _, active, err := w.Telephony.Active(t.Context(), w.DB.Read(), two); err != nil || !active {
		t.Errorf("the second call did not begin by itself (%v)", err)
	}
	if c := w.read(two); c.DialAttempts != 1 {
		t.Errorf("%d attempts", c.DialAttempts)
	}
}

// X7: no lawyer keeps a consultation for more than two minutes without dialling, even if the client's line is busy all
// the time. The lawyer, who tried, stays available.
func TestABusyLineDoesNotOutlastTheDialDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.online(), w.online()
	one, two := w.assigned(first), w.create()
	w.offerBesides(two, second)
	w.do(w.AcceptOffer(t.Context(), w.lease(second), w.offerOf(second).ID))
	w.confirmed(first, one)
	if err := w.StartCall(t.Context(), w.lease(second), two); !errors.Is(err, telephony.ErrLineBusy) {
		t.Fatalf("second dial: %v", err)
	}
	assigned := *w.read(two).AssignedAt
	for w.clock.Now().Add(lineBusyRetry).Before(assigned.Add(DialDeadline)) {
		w.pass(lineBusyRetry)
		if c := w.read(two); c.Status != Assigned || c.LawyerID != second {
			t.Fatalf("%s of %s after %s", c.Status, c.LawyerID, w.clock.Now().Sub(assigned))
		}
	}
	// so that no new offer hides the state
	w.do(w.Matching.Withdrawn(t.Context(), w.DB.Read(), two, second, string(Unavailable)))
	w.pass(assigned.Add(DialDeadline).Sub(w.clock.Now()))
	if c := w.read(two); c.Status != Matching || c.LawyerID != "" || c.NextDialAt != nil {
		t.Errorf("after the deadline: %s of %q", c.Status, c.LawyerID)
	}
	w.expectLawyer(second, lawyer.Available)
}

func TestCreateRefuses(t *testing.T) { // R54, R93, R94
	t.Parallel()
	w := newWorld(t)
	unverified := w.newClient("c3@example.org", "+33612345679", false, 10_000)
	poor := w.newClient("c2@example.org", "+33612345670", true, 1999)
	for name, tc := range map[string]struct {
		change func(*CreateCommand)
		want   error
	}{
		"no verified phone":  {func(c *CreateCommand) { c.ClientID = unverified }, ErrPhoneRequired},
		"too little money":   {func(c *CreateCommand) { c.ClientID = poor }, wallet.ErrInsufficientFunds},
		"unknown competence": {func(c *CreateCommand) { c.Competence = "MAGIC" }, problem.ErrValidation},
		"unknown language":   {func(c *CreateCommand) { c.Language = "XX" }, problem.ErrValidation},
		"short subject":      {func(c *CreateCommand) { c.Subject = "ab" }, problem.ErrValidation},
	} {
		cmd := w.command()
		tc.change(&cmd)
		if _, err := w.tryCreate(cmd); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, table := range []string{"consultations", "consultation_evidence", "webhook_events", "holds"} {
		var n int
		if err := w.DB.Pool().QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d rows in %s after refusals (%v)", n, table, err)
		}
	}
}

// A client whose number is no longer verified is not called on any number, and the lawyer is not penalised.
func TestNobodyIsCalledOnAnotherNumber(t *testing.T) { // X9, T40
	t.Parallel()
	unverify := func(w *world, phone string) {
		w.tx(func(tx postgres.Tx) error { return w.Accounts.SetPhone(w.Context(), tx, w.client, phone, false) })
	}
	calls := func(w *world, id string) (n int) {
		w.do(w.DB.Pool().QueryRow(w.Context(), "SELECT count(*) FROM calls WHERE consultation_id = $1", id).Scan(&n))
		return n
	}
	for name, tc := range map[string]struct {
		play  func(w *world, l, id string)
		calls int
	}{
		"before the first call": {func(w *world, l, id string) {
			unverify(w, "+33698765432")
			if err := w.StartCall(w.Context(), w.lease(l), id); !errors.Is(err, ErrPhoneLost) {
				w.Errorf("start: %v", err)
			}
		}, 0},
		"before the second": {func(w *world, l, id string) {
			w.do(w.StartCall(w.Context(), w.lease(l), id))
			w.unreached(id)
			unverify(w, "")
			w.pass(5 * time.Minute)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			l := w.online()
			id := w.assigned(l)
			tc.play(w, l, id)
			w.expect(id, Expired, "assigned[ASSIGNED] expired[EXPIRED] refunded[EXPIRED]", 10_000, 0)
			w.expectLawyer(l, lawyer.Available)
			if c := w.read(id); c.EndReason != PhoneLost || calls(w, id) != tc.calls {
				t.Errorf("%s after %d calls", c.EndReason, calls(w, id))
			}
			if _, err := w.ClientNumber(t.Context(), id); err == nil {
				t.Error("the number is still given out")
			}
		})
	}
	t.Run("another number was verified", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		l := w.online()
		id := w.assigned(l)
		w.tx(func(tx postgres.Tx) error {
			return w.Accounts.SetPhone(t.Context(), tx, w.client, "+33698765432", true)
		})
		w.do(w.StartCall(t.Context(), w.lease(l), id))
		if n, err := w.ClientNumber(t.Context(), id); err != nil || n != "+33612345678" {
			t.Errorf("the number that was verified at creation is dialled, not %s (%v)", n, err)
		}
	})
}
