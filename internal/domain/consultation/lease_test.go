package consultation

import (
	"errors"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
)

// deskActs are all actions of a lawyer. Each prepares what it needs and returns the action.
var deskActs = map[string]func(w *world, l string) func(lease lawyer.Lease) error{
	"accept": func(w *world, l string) func(lawyer.Lease) error {
		offer := w.offerTo(l)
		return func(lease lawyer.Lease) error { return w.AcceptOffer(w.Context(), lease, offer) }
	},
	"decline": func(w *world, l string) func(lawyer.Lease) error {
		offer := w.offerTo(l)
		return func(lease lawyer.Lease) error {
			return w.DeclineOffer(w.Context(), lease, offer, matching.ReasonConflict)
		}
	},
	"withdraw": func(w *world, l string) func(lawyer.Lease) error {
		id := w.assigned(l)
		return func(lease lawyer.Lease) error { return w.Withdraw(w.Context(), lease, id, NotMyField) }
	},
	"start the call": func(w *world, l string) func(lawyer.Lease) error {
		id := w.assigned(l)
		return func(lease lawyer.Lease) error { return w.StartCall(w.Context(), lease, id) }
	},
	"end the call": func(w *world, l string) func(lawyer.Lease) error {
		id := w.inCall(l)
		w.clock.Advance(90 * time.Second)
		return func(lease lawyer.Lease) error { return w.EndCall(w.Context(), lease, id) }
	},
	"submit the note": func(w *world, l string) func(lawyer.Lease) error {
		id := w.callEnded(l, 90*time.Second)
		return func(lease lawyer.Lease) error { return w.SubmitNote(w.Context(), lease, id, "Texte.", "Aperçu.") }
	},
	"correct the note": func(w *world, l string) func(lawyer.Lease) error {
		id := w.completed(l)
		return func(lease lawyer.Lease) error { return w.SubmitNote(w.Context(), lease, id, "Corrigé.", "Corrigé.") }
	},
	"no useful call": func(w *world, l string) func(lawyer.Lease) error {
		id := w.callEnded(l, 90*time.Second)
		return func(lease lawyer.Lease) error { return w.NoUsefulCall(w.Context(), lease, id, WrongPerson) }
	},
	"restart the call": func(w *world, l string) func(lawyer.Lease) error {
		id := w.dropped(l)
		return func(lease lawyer.Lease) error { return w.RestartCall(w.Context(), lease, id) }
	},
	"claim a callback": func(w *world, l string) func(lawyer.Lease) error {
		id := w.callback(l)
		return func(lease lawyer.Lease) error { return w.Claim(w.Context(), lease, id) }
	},
	"save a draft": func(w *world, l string) func(lawyer.Lease) error {
		id := w.inCall(l)
		return func(lease lawyer.Lease) error {
			return w.SaveDraft(w.Context(), lease, id, note.Draft{Note: "Brouillon."}, note.AnyVersion)
		}
	},
	"drop a draft": func(w *world, l string) func(lawyer.Lease) error {
		id := w.inCall(l)
		w.do(w.SaveDraft(w.Context(), w.lease(l), id, note.Draft{Note: "Brouillon."}, note.AnyVersion))
		return func(lease lawyer.Lease) error { return w.DropDraft(w.Context(), lease, id) }
	},
	"pause": func(w *world, l string) func(lawyer.Lease) error {
		w.assigned(l)
		return func(lease lawyer.Lease) error { return w.Lawyers.Pause(w.Context(), w.DB.Read(), lease) }
	},
	"sign off": func(w *world, _ string) func(lawyer.Lease) error {
		return func(lease lawyer.Lease) error { return w.Lawyers.GoOffline(w.Context(), w.DB.Read(), lease) }
	},
	"beat": func(w *world, _ string) func(lawyer.Lease) error {
		w.clock.Advance(time.Second)
		return func(lease lawyer.Lease) error { return w.Lawyers.Beat(w.Context(), w.DB.Read(), lease) }
	},
}

func (w *world) offerTo(lawyerID string) (offerID string) {
	w.Helper()
	w.create()
	w.sweep()
	return w.offerOf(lawyerID).ID
}

// If a lawyer has two connections, the older one can do nothing. The newer one can do everything, also with work that
// the older began.
func TestOldConnectionCannotAct(t *testing.T) {
	t.Parallel()
	for name, prepare := range deskActs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			l := w.online()
			act := prepare(w, l)
			old := w.lease(l)
			lease, err := w.Lawyers.GoOnline(t.Context(), w.DB.Read(), l)
			w.do(err)
			before := w.everything()
			for who, stale := range map[string]lawyer.Lease{
				"the older": old, "one that never was": {LawyerID: l, Epoch: lease.Epoch + 1}, "nobody": {},
			} {
				if err := act(stale); !errors.Is(err, lawyer.ErrLeaseLost) {
					t.Errorf("%s acts: %v", who, err)
				}
			}
			if after := w.everything(); after != before {
				t.Errorf("it changed\n%s\ninto\n%s", before, after)
			}
			w.do(act(lease))
		})
	}
}

// everything returns, as text, everything that actions at the desk may change.
func (w *world) everything() (all string) {
	w.Helper()
	err := dbtest.Owner(w, w.DB).Pool().QueryRow(w.Context(),
		`SELECT concat_ws(E'\n', (SELECT string_agg(l::text, '; ' ORDER BY id) FROM lawyers l),
		(SELECT string_agg(p::text, '; ' ORDER BY p::text) FROM lawyer_presence p), (SELECT string_agg(p::text, '; ' ORDER BY p::text) FROM lawyer_pairs p),
		(SELECT string_agg(o::text, '; ' ORDER BY id) FROM offers o), (SELECT string_agg(c::text, '; ' ORDER BY id) FROM consultations c),
		(SELECT string_agg(c::text, '; ' ORDER BY id) FROM calls c), (SELECT string_agg(c::text, '; ' ORDER BY id) FROM call_commands c),
		(SELECT string_agg(n::text, '; ') FROM notes n), (SELECT string_agg(d::text, '; ') FROM note_drafts d), (SELECT count(*) FROM webhook_events))`).Scan(&all)
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// If a second tab signs on while the first accepts, the first either gets the offer or is rejected. If it is rejected,
// the second gets the offer.
func TestANewConnectionRacesAnAcceptance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	accepted := 0
	for i := range 40 {
		id := w.create()
		w.sweep()
		offer, old := w.offerOf(l).ID, w.lease(l)
		var lease lawyer.Lease
		errs := atOnce(2, func(side int) (err error) {
			if (side+i)%2 == 0 {
				return w.AcceptOffer(t.Context(), old, offer)
			}
			lease, err = w.Lawyers.GoOnline(t.Context(), w.DB.Read(), l)
			return err
		})
		accept, sign := errs[i%2], errs[1-i%2]
		w.do(sign)
		switch status := w.read(id).Status; {
		case accept == nil && status == Assigned:
			accepted++
		case errors.Is(accept, lawyer.ErrLeaseLost) && status == Matching:
			w.do(w.AcceptOffer(t.Context(), lease, offer))
		default:
			t.Fatalf("%s after %v", status, accept)
		}
		if err := w.StartCall(t.Context(), old, id); !errors.Is(err, lawyer.ErrLeaseLost) {
			t.Fatalf("the old tab dials: %v", err)
		}
		_, err := w.cancelIt(id)
		w.do(err)
		w.expectLawyer(l, lawyer.Available)
		w.clock.Advance(time.Second)
		w.do(w.Lawyers.Beat(t.Context(), w.DB.Read(), lease))
	}
	t.Logf("the old tab was first %d times", accepted)
}

// A lawyer whose lease was lost after the call signs on again and writes the note.
func TestANewSignInFinishesTheNote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.callEnded(l, 90*time.Second)
	old := w.lease(l)
	w.do(w.Lawyers.GoOffline(t.Context(), w.DB.Read(), old))
	if err := w.SubmitNote(t.Context(), old, id, "Texte.", "Aperçu."); !errors.Is(err, lawyer.ErrLeaseLost) {
		t.Errorf("signed off: %v", err)
	}
	lease, err := w.Lawyers.GoOnline(t.Context(), w.DB.Read(), l)
	w.do(err)
	w.do(w.SubmitNote(t.Context(), lease, id, "Texte.", "Aperçu."))
	if got := w.read(id).Status; got != Completed {
		t.Errorf("it is %s", got)
	}
}
