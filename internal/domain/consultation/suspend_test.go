package consultation

import (
	"errors"
	"testing"
	"time"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

func (w *world) suspend(lawyerID string) {
	w.Helper()
	w.tx(func(tx postgres.Tx) error {
		_, err := w.SuspendLawyer(w.Context(), tx, lawyerID, lawyer.BySuspension)
		return err
	})
}

func (w *world) resume(lawyerID string) lawyer.Lease {
	w.Helper()
	w.do(w.Lawyers.Resume(w.Context(), w.DB.Read(), lawyerID))
	lease, err := w.Lawyers.GoOnline(w.Context(), w.DB.Read(), lawyerID)
	w.do(err)
	return lease
}

// expectOut checks that the lawyer is OFFLINE, in no queue, not signed on, and has no offer.
func (w *world) expectOut(lawyerID string) {
	w.Helper()
	w.expectLawyer(lawyerID, lawyer.Offline)
	var places, present, offers int
	err := w.DB.Pool().QueryRow(w.Context(), `SELECT (SELECT count(idle_since) FROM lawyer_pairs WHERE lawyer_id = $1),
		(SELECT count(*) FROM lawyer_presence WHERE lawyer_id = $1), (SELECT count(*) FROM offers WHERE lawyer_id = $1 AND state = 'OPEN')`,
		lawyerID).Scan(&places, &present, &offers)
	if err != nil || places+present+offers != 0 {
		w.Errorf("%d places in queues, %d times present, %d offers, %v", places, present, offers, err)
	}
}

func TestASuspendedLawyerIsOutUntilResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	old := w.lease(l)
	w.suspend(l)
	w.expectOut(l)
	if err := w.Lawyers.Beat(t.Context(), w.DB.Read(), old); !errors.Is(err, lawyer.ErrLeaseLost) {
		t.Errorf("the connection that was open: %v", err)
	}
	if _, err := w.Lawyers.GoOnline(t.Context(), w.DB.Read(), l); !errors.Is(err, lawyer.ErrSuspended) {
		t.Errorf("signed on: %v", err)
	}
	if back, err := w.Lawyers.ReturnIdle(t.Context(), w.DB.Read(), l); err != nil || len(back) != 0 {
		t.Errorf("brought back: %v, %v", back, err)
	}
	id := w.create()
	w.pass(time.Second)
	w.expectOut(l)
	w.resume(l)
	w.sweep()
	if o := w.offerOf(l); o.ConsultationID != id {
		t.Errorf("after the suspension he is offered %s", o.ConsultationID)
	}
}

func TestASuspensionTakesAnOfferBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.create()
	w.sweep()
	offer, old := w.offerOf(l).ID, w.lease(l)
	next := w.online()
	w.drain()
	w.working.Store(true)
	w.suspend(l)
	w.expectSearch(id, next)
	w.expectOut(l)
	if err := w.AcceptOffer(t.Context(), old, offer); !errors.Is(err, lawyer.ErrLeaseLost) {
		t.Errorf("accepted: %v", err)
	}
	w.expect(id, Matching, "", 8000, 2000)
}

func TestASuspensionTakesWhatIsNotCalledYet(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(w *world, l, id string){
		"assigned": func(*world, string, string) {},
		"between two attempts": func(w *world, l, id string) {
			w.do(w.StartCall(w.Context(), w.lease(l), id))
			w.unreached(id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			l := w.online()
			id := w.assigned(l)
			prepare(w, l, id)
			w.suspend(l)
			w.expectLawyer(l, lawyer.Busy)
			w.pass(0) // the page still sends heartbeats
			w.expectOut(l)
			w.expect(id, Matching, "assigned[ASSIGNED] matching[MATCHING]", 8000, 2000)
		})
	}
}

// A call is not cut, whether it runs or is being set up; a call that fails goes to others.
func TestASuspensionCutsNoCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.assigned(l)
	w.do(w.StartCall(t.Context(), w.lease(l), id))
	w.suspend(l)
	w.pass(time.Second)
	w.expect(id, Assigned, "assigned[ASSIGNED]", 8000, 2000)
	w.unreached(id)
	w.pass(time.Second)
	w.expect(id, Matching, "assigned[ASSIGNED] matching[MATCHING]", 8000, 2000)
	w.expectOut(l)
	w.resume(l)
	w.pass(5 * time.Minute) // the next attempt
	w.do(w.AcceptOffer(t.Context(), w.lease(l), w.offerOf(l).ID))
	w.confirmed(l, id)
	w.suspend(l)
	w.do(w.provider(id, telephony.Event{Kind: telephony.LegsJoined}))
	w.pass(2 * time.Minute)
	if got := w.read(id).Status; got != InCall {
		t.Fatalf("it is %s", got)
	}
	w.do(w.provider(id, telephony.Event{Kind: telephony.CallOver, By: telephony.Client}))
	w.expectLawyer(l, lawyer.WrapUp)
	w.do(w.SubmitNote(t.Context(), w.lease(l), id, "Texte.", "Aperçu."))
	w.expectOut(l)
}

// What would make a suspended lawyer AVAILABLE makes them OFFLINE.
func TestTheEndOfHisWorkLeavesASuspendedLawyerOut(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, l string){
		"cancelled": func(w *world, l string) {
			id := w.assigned(l)
			w.suspend(l)
			_, err := w.cancelIt(id)
			w.do(err)
		},
		"closed by an operator": func(w *world, l string) {
			id := w.callEnded(l, 90*time.Second)
			w.suspend(l)
			w.do(w.closeIt(id, WrongPerson))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			l := w.online()
			end(w, l)
			w.expectOut(l)
		})
	}
}

// Whichever of a suspension and an acceptance is first, the consultation goes to others.
func TestASuspensionRacesAnAcceptance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	accepted := 0
	for i := range 40 {
		id := w.create()
		w.sweep()
		offer, old := w.offerOf(l).ID, w.lease(l)
		errs := atOnce(2, func(side int) error {
			if (side+i)%2 == 0 {
				return w.AcceptOffer(t.Context(), old, offer)
			}
			return w.DB.InTx(t.Context(), func(tx postgres.Tx) error {
				_, err := w.SuspendLawyer(t.Context(), tx, l, lawyer.BySuspension)
				return err
			})
		})
		accept := errs[i%2]
		w.do(errs[1-i%2])
		if accept == nil {
			accepted++
		} else if !errors.Is(accept, lawyer.ErrLeaseLost) && !errors.Is(accept, matching.ErrOfferGone) {
			t.Fatal(accept)
		}
		w.sweep()
		w.expectOut(l)
		if got := w.read(id).Status; got != Matching {
			t.Fatalf("it is %s after %v", got, accept)
		}
		_, err := w.cancelIt(id)
		w.do(err)
		w.resume(l)
		w.clock.Advance(time.Second)
	}
	t.Logf("accepted first %d times", accepted)
}

// Whatever happens together with a suspension (a search, a sign-in, a heartbeat), the lawyer is out afterwards.
func TestASuspensionRacesWhatBringsALawyerToWork(t *testing.T) {
	t.Parallel()
	for name, race := range map[string]func(w *world, l, id string) error{
		"offer": func(w *world, _, id string) error { _, err := w.search(w.Context(), id); return err },
		"seeks": func(w *world, l, _ string) error { return w.LawyerAvailable(w.Context(), l) },
		"signs on": func(w *world, l, _ string) error {
			if _, err := w.Lawyers.GoOnline(w.Context(), w.DB.Read(), l); !errors.Is(err, lawyer.ErrSuspended) {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			l := w.online()
			id := w.create()
			for i := range 40 {
				for _, err := range atOnce(2, func(side int) error {
					if (side+i)%2 == 0 {
						return race(w, l, id)
					}
					return w.DB.InTx(t.Context(), func(tx postgres.Tx) error {
						_, err := w.SuspendLawyer(t.Context(), tx, l, lawyer.BySuspension)
						return err
					})
				}) {
					w.do(err)
				}
				w.expectOut(l)
				w.resume(l)
			}
		})
	}
}

// A quarantined lawyer comes back by signing on. They are quarantined again while their records disagree, and otherwise
// get work.
func TestWhoWasQuarantinedSignsOnAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wrong := w.online()
	held := w.assigned(wrong)
	w.put(wrong, lawyer.Available)
	w.another("+33612345604")
	id := w.create()
	_, err := w.search(t.Context(), id)
	w.do(err)
	w.expectOutOfTheWay(wrong)
	for range 2 {
		lease, err := w.Lawyers.GoOnline(t.Context(), w.DB.Read(), wrong)
		w.do(err)
		w.expectLawyer(wrong, lawyer.Available)
		w.do(w.LawyerAvailable(t.Context(), wrong))
		w.expectOutOfTheWay(wrong)
		w.do(w.StartCall(t.Context(), lease, held)) // the work in hand is still theirs
	}
	w.expectIncidents(lawyerQuarantined, 3)
	w.do(w.DB.InTx(t.Context(),
		func(tx postgres.Tx) error { _, err := w.CancelForOperator(t.Context(), tx, held); return err }))
	w.expectLawyer(wrong, lawyer.Away)
	w.clock.Advance(time.Second)
	_, err = w.Lawyers.GoOnline(t.Context(), w.DB.Read(), wrong)
	w.do(err)
	w.do(w.LawyerAvailable(t.Context(), wrong))
	if o := w.offerOf(wrong); o.ConsultationID != id {
		t.Errorf("offered %s", o.ConsultationID)
	}
	w.expectIncidents(lawyerQuarantined, 3)
}

// A suspended lawyer writes the note in hand and is reminded of it. They are not asked for what they can no longer do.
func TestASuspendedLawyerIsRemindedOfTheNoteInHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.callEnded(l, 90*time.Second)
	w.mailed(l)
	w.suspend(l)
	w.pass(time.Hour)
	if finishes, err := w.Finishes(t.Context(), w.DB.Read(), l); err != nil || !finishes || w.mails() != 1 {
		t.Errorf("may write the note: %t, %v; %d reminders were sent", finishes, err, w.mails())
	}
	w.do(w.SubmitNote(t.Context(), w.lease(l), id, "Conseil donné.", "Synthèse."))
	w.tx(func(tx postgres.Tx) error { _, err := w.AskForCorrection(t.Context(), tx, id); return err })
	if w.mails() != 1 {
		t.Errorf("%d mails: a suspended lawyer is asked for a correction that they cannot make", w.mails())
	}
}
