package consultation

import (
	"context"
	"slices"
	"testing"
	"time"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// Everything that takes lawyers off duty or pauses them records a reason and a time, which last until they are on duty
// again.
func TestEveryWayOffDutyHasItsReason(t *testing.T) {
	t.Parallel()
	ways := map[lawyer.Leaving]func(w *world, l string){
		lawyer.SignedOff: func(w *world, l string) { w.do(w.Lawyers.GoOffline(w.Context(), w.DB.Read(), w.lease(l))) },
		lawyer.Paused:    func(w *world, l string) { w.do(w.Lawyers.Pause(w.Context(), w.DB.Read(), w.lease(l))) },
		lawyer.PausedAfter: func(w *world, l string) {
			id := w.assigned(l)
			w.do(w.Lawyers.Pause(w.Context(), w.DB.Read(), w.lease(l)))
			_, err := w.cancelIt(id)
			w.do(err)
		},
		lawyer.NoPage: func(w *world, _ string) {
			w.lawyers = nil
			w.pass(lawyer.LeaseLost + time.Second)
		},
		lawyer.MissedOffer: func(w *world, l string) {
			w.offerTo(l)
			w.pass(30 * time.Second)
		},
		lawyer.NotReached: func(w *world, l string) {
			id := w.assigned(l)
			w.do(w.StartCall(w.Context(), w.lease(l), id))
			w.do(w.provider(id, telephony.Event{Kind: telephony.LegFailed, Role: telephony.Lawyer,
				Reason: telephony.NoAnswer}))
		},
		lawyer.NotDialled: func(w *world, l string) {
			w.assigned(l)
			w.pass(DialDeadline)
		},
		lawyer.NoteMissing: func(w *world, l string) {
			w.callEnded(l, time.Minute)
			w.pass(25 * time.Hour)
		},
		lawyer.BySuspension: func(w *world, l string) { w.suspend(l) },
		lawyer.SentHome:     func(w *world, l string) { w.sendHome(l) },
		lawyer.RecordsDisagree: func(w *world, l string) {
			w.assigned(l)
			w.put(l, lawyer.Available)
			w.another("+33612345604")
			_, err := w.search(w.Context(), w.create())
			w.do(err)
		},
	}
	for _, why := range lawyer.Reasons() {
		way := ways[why]
		if way == nil {
			t.Errorf("%s: no way leads there", why)
			continue
		}
		t.Run(string(why), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			l := w.online()
			way(w, l)
			got, err := w.Lawyers.Get(t.Context(), w.DB.Read(), l)
			w.do(err)
			if off := []lawyer.State{lawyer.Offline, lawyer.Away}; !slices.Contains(off, got.State) ||
				got.Left.Why != why || !got.Left.At.Equal(w.clock.Now()) {
				t.Errorf("%s because of %q at %v, at %v", got.State, got.Left.Why, got.Left.At, w.clock.Now())
			}
			w.do(w.Lawyers.Resume(t.Context(), w.DB.Read(), l))
			_, err = w.Lawyers.GoOnline(t.Context(), w.DB.Read(), l)
			w.do(err)
			if got, err = w.Lawyers.Get(t.Context(), w.DB.Read(), l); err != nil || got.Left != (lawyer.Left{}) {
				t.Errorf("back on duty: %+v, %v", got.Left, err)
			}
		})
	}
}

// A decision of an operator is not replaced by its consequences.
func TestAnOperatorsReasonStays(t *testing.T) {
	t.Parallel()
	for name, out := range map[lawyer.Leaving]func(w *world, l string){
		lawyer.BySuspension: (*world).suspend, lawyer.SentHome: (*world).sendHome,
	} {
		for after, next := range map[string]func(w *world, l, id string){
			"note": func(w *world, l, id string) {
				w.do(w.SubmitNote(w.Context(), w.lease(l), id, "Texte.", "Aperçu."))
			},
			"closed":      func(w *world, _, id string) { w.do(w.closeIt(id, WrongPerson)) },
			"note missed": func(w *world, _, _ string) { w.pass(25 * time.Hour) },
		} {
			t.Run(string(name)+" "+after, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				l := w.online()
				id := w.inCall(l)
				out(w, l)
				at := w.clock.Now()
				w.clock.Advance(time.Minute)
				w.do(w.provider(id, telephony.Event{Kind: telephony.CallOver, By: telephony.Client}))
				next(w, l, id)
				w.pass(2 * lawyer.LeaseLost)
				w.expectOut(l)
				if got, err := w.Lawyers.Get(t.Context(), w.DB.Read(), l); err != nil ||
					got.Left != (lawyer.Left{Why: name, At: at}) {
					t.Errorf("left %+v, %v", got.Left, err)
				}
			})
		}
	}
}

// sendHome is an operator's action on a lawyer, who may come back immediately.
func (w *world) sendHome(lawyerID string) {
	w.Helper()
	w.tx(func(tx postgres.Tx) error {
		if _, err := w.SuspendLawyer(w.Context(), tx, lawyerID, lawyer.SentHome); err != nil {
			return err
		}
		return w.Lawyers.Resume(w.Context(), tx, lawyerID)
	})
}

// expectReasons checks after every test that lawyers who left duty have a reason, and lawyers who wait for work have
// none.
func (w *world) expectReasons() {
	var wrong int
	err := w.DB.Pool().QueryRow(context.WithoutCancel(w.Context()),
		`SELECT count(*) FROM lawyers WHERE lease_epoch > 0 AND idle_since IS NOT NULL
		AND (state IN ('OFFLINE', 'AWAY') AND left_reason IS NULL OR state IN ('AVAILABLE', 'OFFERED') AND left_reason IS NOT NULL)`).Scan(&wrong)
	if err != nil || wrong > 0 {
		w.Errorf("%d lawyers left duty without a reason, or have one on duty: %v", wrong, err)
	}
}
