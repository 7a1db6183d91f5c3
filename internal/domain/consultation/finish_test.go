package consultation

import (
	"errors"
	"testing"
	"time"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// A suspended lawyer keeps the connection only for a call and its note.
func TestASuspendedLawyerFinishesWhatIsInHand(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prepare  func(w *world, l string) string
		finishes bool
	}{
		"nothing":  {func(*world, string) string { return "" }, false},
		"an offer": {func(w *world, l string) string { w.offerTo(l); return "" }, false},
		"assigned": {func(w *world, l string) string { return w.assigned(l) }, false},
		"dialling": {func(w *world, l string) string {
			id := w.assigned(l)
			w.do(w.StartCall(w.Context(), w.lease(l), id))
			return id
		}, true},
		"in a call":    {func(w *world, l string) string { return w.inCall(l) }, true},
		"note missing": {func(w *world, l string) string { return w.callEnded(l, time.Minute) }, true},
		"note overdue": {
			func(w *world, l string) string { id := w.callEnded(l, time.Minute); w.pass(25 * time.Hour); return id },
			true,
		},
		// an operator may have asked for a correction
		"completed": {func(w *world, l string) string { return w.completed(l) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			l := w.online()
			id := tc.prepare(w, l)
			lease := w.lease(l)
			w.suspend(l)
			if finishes, err := w.Finishes(t.Context(), w.DB.Read(), l); err != nil || finishes != tc.finishes {
				t.Fatalf("finishes %t, %v", finishes, err)
			}
			if !tc.finishes {
				if err := w.DB.InTx(t.Context(),
					func(tx postgres.Tx) error { _, err := w.SignOn(t.Context(), tx, l); return err }); !errors.Is(err,
					lawyer.ErrSuspended) {
					t.Errorf("signs on: %v", err)
				}
				if err := w.Lawyers.Hold(t.Context(), w.DB.Read(), lease); !errors.Is(err, lawyer.ErrLeaseLost) {
					t.Errorf("the connection goes on: %v", err)
				}
				return
			}
			w.finish(l, id, lease)
			w.expectOut(l)
			if got := w.read(id); got.Status != Completed {
				t.Errorf("it is %s", got.Status)
			}
			if err := w.SubmitNote(t.Context(), w.lease(l), id, "Corrigé.",
				"Corrigé."); !errors.Is(err, lawyer.ErrSuspended) {
				t.Errorf("a correction: %v", err)
			}
		})
	}
}

// finish completes the work in hand of a suspended lawyer, on the existing connection and on a new one.
func (w *world) finish(l, id string, lease lawyer.Lease) {
	w.Helper()
	if c := w.read(id); c.Dialling() {
		w.lawyerReady(id)
		w.do(w.provider(id, telephony.Event{Kind: telephony.LegAnswered, Role: telephony.Client}))
		w.do(w.provider(id, telephony.Event{Kind: telephony.LegDigits, Role: telephony.Client, Digits: "1"}))
		w.do(w.provider(id, telephony.Event{Kind: telephony.LegsJoined}))
	}
	w.do(w.SaveDraft(w.Context(), lease, id, note.Draft{Note: "Brouillon."}, note.AnyVersion))
	if c := w.read(id); c.Status == InCall {
		w.clock.Advance(90 * time.Second)
		w.do(w.EndCall(w.Context(), lease, id))
	}
	w.tx(func(tx postgres.Tx) (err error) { lease, err = w.SignOn(w.Context(), tx, l); return err })
	if err := w.Lawyers.Beat(w.Context(), w.DB.Read(), lease); !errors.Is(err, lawyer.ErrLeaseLost) {
		w.Errorf("a suspended lawyer is there: %v", err)
	}
	other := w.online()
	w.another("+33612345604")
	waits := w.create()
	w.sweep()
	if o := w.offerOf(other); o.ConsultationID != waits {
		w.Errorf("the other lawyer is offered %s", o.ConsultationID)
	}
	w.client = w.clientOf(id)
	w.do(w.SubmitNote(w.Context(), lease, id, "Texte.", "Aperçu."))
}

func (w *world) clientOf(id string) (clientID string) {
	w.Helper()
	w.do(w.DB.Pool().QueryRow(w.Context(), "SELECT client_id FROM consultations WHERE id = $1", id).Scan(&clientID))
	return clientID
}

// A lawyer sent home during a call finishes it with its note. After that they are off duty, and may come back.
func TestALawyerSentHomeFinishesAndIsOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.inCall(l)
	lease := w.lease(l)
	w.sendHome(l)
	w.clock.Advance(time.Minute)
	w.do(w.EndCall(t.Context(), lease, id))
	w.do(w.SubmitNote(t.Context(), lease, id, "Texte.", "Aperçu."))
	w.expectOut(l)
	w.tx(func(tx postgres.Tx) error { _, err := w.SignOn(t.Context(), tx, l); return err })
	w.expectLawyer(l, lawyer.Available)
}
