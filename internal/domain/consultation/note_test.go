package consultation

import (
	"errors"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/postgres"
)

const endedWithoutNote = talked + " expired[EXPIRED 90] refunded[EXPIRED 90]"

// mails counts the emails waiting to be sent.
func (w *world) mails() int { return w.jobs("mail") }

// mailed makes a test lawyer receive emails, which simulated ones do not.
func (w *world) mailed(lawyerID string) {
	w.Helper()
	_, err := w.DB.Pool().Exec(w.Context(), "UPDATE lawyers SET simulated = false WHERE id = $1", lawyerID)
	w.do(err)
}

func (w *world) jobs(name string) (n int) {
	w.Helper()
	w.do(w.DB.Pool().QueryRow(w.Context(),
		`SELECT count(*) FROM `+postgres.QueueSchema+`.river_job WHERE args->>'name' = $1`, name).Scan(&n))
	return n
}

func TestANoteThatNeverComesHasAnEnd(t *testing.T) { // H37
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.callEnded(l, 90*time.Second)
	w.mailed(l)
	last := time.Duration(0)
	for _, step := range []struct {
		at              time.Duration
		reminders, mail int
		state           lawyer.State
		seen            int // in the operators' list
	}{
		{time.Hour - time.Second, 0, 0, lawyer.WrapUp, 0},
		{time.Hour, 1, 1, lawyer.WrapUp, 0},
		{12 * time.Hour, 2, 2, lawyer.WrapUp, 0},
		{24*time.Hour - time.Second, 2, 2, lawyer.WrapUp, 0},
		{24 * time.Hour, 3, 2, lawyer.Away, 1},
		{NoteLimit - time.Second, 3, 2, lawyer.Away, 1},
	} {
		w.pass(step.at - last)
		last = step.at
		w.expect(id, CallEnded, talked, 8000, 2000)
		w.expectLawyer(l, step.state)
		missing, err := w.MissingNotes(t.Context(), w.DB.Read(), 10)
		w.do(err)
		if got := w.read(id).Reminders; got != step.reminders || w.mails() != step.mail || len(missing) != step.seen {
			t.Errorf("after %v: %d reminders, %d mails, %d seen; want %+v", step.at, got, w.mails(), len(missing), step)
		}
	}
	w.pass(time.Second)
	w.expect(id, Expired, endedWithoutNote, 10_000, 0)
	w.expectLawyer(l, lawyer.Away)
	if c := w.read(id); c.EndReason != NoteMissing || c.Refunded != Price || nextTimer(c) != nil {
		t.Errorf("%+v", c)
	}
	if err := w.SubmitNote(t.Context(), w.lease(l), id, "Trop tard.", "Trop tard."); !errors.Is(err, ErrForbidden) {
		t.Errorf("note after the end: %v", err)
	}
}

func TestANoteAfterADayStillCompletes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.callEnded(l, 90*time.Second)
	w.pass(25 * time.Hour) // reminders that fell due together are one
	w.expectLawyer(l, lawyer.Away)
	w.tx(func(tx postgres.Tx) error {
		_, err := w.Lawyers.GoOnline(t.Context(), tx, l)
		return err
	})
	w.clock.Advance(NoteLimit - 25*time.Hour - time.Microsecond)
	w.do(w.SubmitNote(t.Context(), w.lease(l), id, "Le texte complet.", "Un aperçu."))
	w.expect(id, Completed, finished, 8000, 0)
	w.expectLawyer(l, lawyer.Available)
}

// The time decides, not the sweeper.
func TestALateNoteIsRefusedBeforeTheTimerFires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.callEnded(l, 90*time.Second)
	w.clock.Advance(NoteLimit)
	if err := w.SubmitNote(t.Context(), w.lease(l), id, "Trop tard.", "Trop tard."); !errors.Is(err, ErrForbidden) {
		t.Errorf("late note: %v", err)
	}
	w.sweep()
	w.expect(id, Expired, endedWithoutNote, 10_000, 0)
	w.expectLawyer(l, lawyer.Offline) // absent for days
}

// A form sent again, whatever its surrounding whitespace, sends nothing new to a partner.
func TestTheSameNoteTwiceIsOneNote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.completed(l)
	at := w.read(id).UpdatedAt
	w.clock.Advance(time.Minute)
	w.do(w.SubmitNote(t.Context(), w.lease(l), id, " Le texte complet.\n", "Un aperçu."))
	w.expect(id, Completed, finished, 8000, 0)
	if !w.read(id).UpdatedAt.Equal(at) {
		t.Error("the record moved")
	}
	w.do(w.SubmitNote(t.Context(), w.lease(l), id, "Le texte.", "Un aperçu."))
	w.do(w.SubmitNote(t.Context(), w.lease(l), id, "Le texte complet.", "Un aperçu."))
	w.expect(id, Completed, finished+" note_available[COMPLETED 90] note_available[COMPLETED 90]", 8000, 0)
}

// If the note, an operator who closes the consultation, and the sweepers race, one wins.
func TestNoteAgainstItsEnd(t *testing.T) {
	t.Parallel()
	for name, closes := range map[string]func(w *world, id string) error{
		"operator": func(w *world, id string) error { return w.closeIt(id, NoteMissing) },
		"timer": func(w *world, id string) error {
			w.clock.Advance(time.Microsecond)
			return w.Sweep(w.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for range 4 {
				l := w.online()
				id := w.callEnded(l, 90*time.Second)
				w.clock.Advance(NoteLimit - time.Microsecond)
				lease := w.lease(l)
				var workers sync.WaitGroup
				for range 2 {
					workers.Go(func() {
						err := w.SubmitNote(t.Context(), lease, id, "Le texte complet.", "Un aperçu.")
						// the lawyer may be signed off at the end
						if err != nil && !errors.Is(err, ErrForbidden) && !errors.Is(err, lawyer.ErrLeaseLost) {
							t.Error(err)
						}
					})
					workers.Go(func() {
						if err := closes(w, id); err != nil && !errors.Is(err, ErrNotClosable) {
							t.Error(err)
						}
					})
				}
				workers.Wait()
				w.sweep()
				switch c := w.read(id); {
				case c.Status == Completed && c.Refunded == 0 && c.NoteAvailable():
				case c.Status == Expired && c.Refunded == Price && w.events(id) == started+" "+endedWithoutNote:
				default:
					t.Errorf("%s %s: %s", c.Status, c.EndReason, w.events(id))
				}
				if b, err := w.Wallet.Balance(t.Context(), w.DB.Read(), w.client); err != nil || b.Held != 0 {
					t.Errorf("held %d, %v", b.Held, err)
				}
			}
		})
	}
}

// A lawyer may sign off while a note is missing, and come back to other work.
func TestOneNoteDoesNotEndTheWaitForAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	first := w.callEnded(l, 90*time.Second)
	w.tx(func(tx postgres.Tx) error {
		if err := w.Lawyers.GoOffline(t.Context(), tx, w.lease(l)); err != nil {
			return err
		}
		_, err := w.Lawyers.GoOnline(t.Context(), tx, l)
		return err
	})
	w.clock.Advance(23 * time.Hour)
	w.do(w.Lawyers.Heartbeat(t.Context(), w.DB.Read(), l))
	second := w.callEnded(l, 90*time.Second)
	w.pass(2 * time.Hour) // the first note has been missing for a day
	w.expectLawyer(l, lawyer.WrapUp)
	w.do(w.SubmitNote(t.Context(), w.lease(l), first, "Le texte complet.", "Un aperçu."))
	w.expectLawyer(l, lawyer.WrapUp)
	w.do(w.SubmitNote(t.Context(), w.lease(l), second, "Le texte complet.", "Un aperçu."))
	w.expectLawyer(l, lawyer.Available)
}

func TestOperatorsCloseRefundAndCancel(t *testing.T) { // X12, X13, X15
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	waiting := w.create()
	for name, tc := range map[string]struct {
		do   func() error
		want error
	}{
		"close what waits":    {func() error { return w.closeIt(waiting, NoteMissing) }, ErrNotClosable},
		"refund what waits":   {func() error { return w.refund(waiting, Price) }, ErrNotRefundable},
		"close what is not":   {func() error { return w.closeIt("con_0", NoteMissing) }, problem.ErrNotFound},
		"close a strange id":  {func() error { return w.closeIt("\x00", NoteMissing) }, problem.ErrNotFound},
		"refund what is not":  {func() error { return w.refund("con_0", Price) }, problem.ErrNotFound},
		"refund a strange id": {func() error { return w.refund("\xff", Price) }, problem.ErrNotFound},
	} {
		if err := tc.do(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	for range 2 {
		w.tx(func(tx postgres.Tx) error { _, err := w.CancelForOperator(t.Context(), tx, waiting); return err })
	}
	w.expect(waiting, Cancelled, released, 10_000, 0)
	if c := w.read(waiting); c.EndReason != CancelledByUs {
		t.Errorf("reason %s", c.EndReason)
	}

	closed := w.callEnded(l, 90*time.Second)
	for _, reason := range []Reason{"", TooShort, GuaranteeMissed} {
		if err := w.closeIt(closed, reason); !errors.Is(err, ErrReason) {
			t.Errorf("closed for %q: %v", reason, err)
		}
	}
	if err := w.closeIt(closed, WithdrawnFrom); !errors.Is(err, ErrNotWithdrawn) {
		t.Errorf("closed for a withdrawal that was not declared: %v", err)
	}
	for _, reason := range []Reason{NoteMissing, WithdrawnFrom} {
		if err := w.NoUsefulCall(t.Context(), w.lease(l), closed, reason); !errors.Is(err, ErrReason) {
			t.Errorf("the lawyer closed it for %q: %v", reason, err)
		}
	}
	w.do(w.closeIt(closed, NoteMissing))
	w.expect(closed, Expired, endedWithoutNote, 10_000, 0)
	w.expectLawyer(l, lawyer.Available)
	err := w.DB.InTx(t.Context(),
		func(tx postgres.Tx) error { _, err := w.CancelForOperator(t.Context(), tx, closed); return err })
	if !errors.Is(err, ErrNotCancellable) {
		t.Errorf("cancelled after its end: %v", err)
	}

	w.pass(0)
	done := w.completed(l)
	for _, cents := range []money.Cents{0, -1, Price + 1} {
		if err := w.refund(done, cents); !errors.Is(err, ErrNotRefundable) {
			t.Errorf("refund of %d: %v", cents, err)
		}
	}
	if err := w.closeIt(done, NoteMissing); !errors.Is(err, ErrNotClosable) {
		t.Errorf("closed after completion: %v", err)
	}
	w.do(w.refund(done, Price))
	w.expect(done, Completed, finished+" refunded[COMPLETED 90]", 10_000, 0)
}

// The result is the same whether the note arrived or not.
func TestAWithdrawalDuringTheCallIsSettled(t *testing.T) {
	t.Parallel()
	declare := func(w *world, id string) {
		w.tx(func(tx postgres.Tx) error {
			wd, fresh, err := w.DeclareWithdrawal(w.Context(), tx, w.client, id)
			if err == nil && (!fresh || !wd.Begun()) {
				w.Errorf("%+v, fresh %v", wd, fresh)
			}
			return err
		})
	}
	t.Run("the note came", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		l := w.online()
		id := w.inCall(l)
		declare(w, id)
		w.do(w.EndCall(t.Context(), w.lease(l), id))
		w.do(w.SubmitNote(t.Context(), w.lease(l), id, "Le texte complet.", "Un aperçu."))
		w.do(w.refund(id, 1500))
		if c := w.read(id); c.Status != Completed || c.Refunded != 1500 {
			t.Errorf("%+v", c)
		}
	})
	t.Run("it did not", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		l := w.online()
		id := w.callEnded(l, 90*time.Second)
		declare(w, id)
		w.do(w.closeIt(id, WithdrawnFrom))
		w.expect(id, Expired, endedWithoutNote, 10_000, 0)
	})
}
