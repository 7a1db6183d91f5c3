package consultation

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"partnerd/internal/domain/note"
	"partnerd/internal/infra/postgres"
)

// If two windows save over the same version through two processes, one is rejected, and its text replaces nothing.
func TestOneOfTwoDraftsOverOneVersionIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	second, err := postgres.Open(t.Context(), w.DB.Pool().Config().ConnString(),
		postgres.Options{MaxConns: 4, Test: true})
	w.do(err)
	t.Cleanup(second.Close)
	processes := []*Service{w.Service, w.replica(second)}
	l := w.online()
	id := w.inCall(l)
	lease := w.lease(l)
	for round := range 30 {
		before, err := w.Draft(t.Context(), w.DB.Read(), l, id)
		w.do(err)
		errs := atOnce(2, func(side int) error {
			return processes[side].SaveDraft(t.Context(), lease, id,
				note.Draft{Note: fmt.Sprintf("%d of round %d", side, round)}, before.Version())
		})
		after, err := w.Draft(t.Context(), w.DB.Read(), l, id)
		w.do(err)
		for side, err := range errs {
			if kept := after.Note == fmt.Sprintf("%d of round %d", side, round); kept != (err == nil) ||
				err != nil && !errors.Is(err, note.ErrDraftChanged) {
				t.Fatalf("round %d: side %d got %v, and %q is kept", round, side, err, after.Note)
			}
		}
		if after.Version() == before.Version() {
			t.Fatal("two drafts have one version")
		}
	}
}

// A note written over an older draft is rejected, and so is a note sent after another window has sent it. Sending the
// same texts again is accepted, and so is a text without a version.
func TestANoteOverAnOlderDraftIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.callEnded(l, time.Minute)
	lease, submit := w.lease(l), func(text, version string) error {
		return w.SubmitNoteOver(t.Context(), w.lease(l), id, text, "Aperçu.", version)
	}
	w.do(w.SaveDraft(t.Context(), lease, id, note.Draft{Note: "Première fenêtre."}, "0"))
	old, err := w.Draft(t.Context(), w.DB.Read(), l, id)
	w.do(err)
	w.clock.Advance(time.Second)
	w.do(w.SaveDraft(t.Context(), lease, id, note.Draft{Note: "Seconde fenêtre."}, old.Version()))
	current, err := w.Draft(t.Context(), w.DB.Read(), l, id)
	w.do(err)
	if err := submit("Première fenêtre.", old.Version()); !errors.Is(err, note.ErrDraftChanged) {
		t.Errorf("over an older draft: %v", err)
	}
	if got := w.read(id).Status; got != CallEnded {
		t.Fatalf("it is %s", got)
	}
	w.do(submit("Seconde fenêtre.", current.Version()))
	w.do(submit("Seconde fenêtre.", current.Version())) // the response was lost
	if err := submit("Première fenêtre.", old.Version()); !errors.Is(err, note.ErrDraftChanged) {
		t.Errorf("over a note that was sent: %v", err)
	}
	w.do(submit("Une correction.", note.AnyVersion))
}
