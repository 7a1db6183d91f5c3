package consultation

import (
	"errors"
	"testing"
	"time"

	"partnerd/internal/domain/lawyer"
)

func TestCancel(t *testing.T) { // X13, R56, T21
	t.Parallel()
	for name, tc := range map[string]struct {
		bring  func(w *world, l string) string
		before string
	}{
		"while searching": {func(w *world, l string) string { return w.create() }, ""},
		"with an offer open": {
			func(w *world, l string) string { id := w.create(); w.sweep(); w.offerOf(l); return id }, "",
		},
		"while assigned": {func(w *world, l string) string { return w.assigned(l) }, "assigned[ASSIGNED] "},
		"while the phone rings": {
			func(w *world, l string) string { id := w.assigned(l); w.confirmed(l, id); return id },
			"assigned[ASSIGNED] ",
		},
		"between two attempts": {func(w *world, l string) string {
			id := w.assigned(l)
			w.do(w.StartCall(w.Context(), w.lease(l), id))
			w.unreached(id)
			return id
		}, "assigned[ASSIGNED] "},
		"while a callback is owed": {
			func(w *world, l string) string { id := w.create(); w.pass(SearchLimit); return id },
			"pending_callback[PENDING_CALLBACK] ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			l := w.online()
			id := tc.bring(w, l)
			c, err := w.cancelIt(id)
			if err != nil || c.Status != Cancelled || c.CancelledAt == nil || c.Subject != "Séparation" ||
				c.Refunded != Price {
				t.Fatalf("%+v, %v", c, err)
			}
			w.clock.Advance(time.Minute)
			again, err := w.cancelIt(id)
			if err != nil || !again.CancelledAt.Equal(*c.CancelledAt) || !again.UpdatedAt.Equal(c.UpdatedAt) {
				t.Errorf("second cancel: %+v, %v", again, err)
			}
			w.expect(id, Cancelled, tc.before+released, 10_000, 0)
			w.expectLawyer(l, lawyer.Available)
			if _, active, _ := w.Telephony.Active(t.Context(), w.DB.Read(), id); active {
				t.Error("the phone still rings")
			}
			w.pass(48 * time.Hour) // no timer is left
			w.expect(id, Cancelled, tc.before+released, 10_000, 0)
		})
	}
}

func TestNoCancelAfterTheCallHasStarted(t *testing.T) { // R57
	t.Parallel()
	for name, bring := range map[string]func(w *world, l string) string{
		"in call":    (*world).inCall,
		"call ended": func(w *world, l string) string { return w.callEnded(l, 90*time.Second) },
		"completed":  (*world).completed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := bring(w, w.online())
			before, events := w.read(id), w.events(id)
			if _, err := w.cancelIt(id); !errors.Is(err, ErrNotCancellable) {
				t.Fatal(err)
			}
			if after := w.read(id); after.Status != before.Status || w.events(id) != events {
				t.Errorf("changed to %s, %s", after.Status, w.events(id))
			}
		})
	}
}
