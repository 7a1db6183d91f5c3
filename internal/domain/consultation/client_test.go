package consultation

import (
	"errors"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

func (w *world) withdraw(clientID, id string) (d Withdrawal, fresh bool, err error) {
	err = w.DB.InTx(w.Context(), func(tx postgres.Tx) error {
		d, fresh, err = w.DeclareWithdrawal(w.Context(), tx, clientID, id)
		return err
	})
	return d, fresh, err
}

func TestWithdrawalBeforeTheCallCancelsFreeOfCharge(t *testing.T) {
	t.Parallel()
	for name, bring := range map[string]func(w *world, l string) string{
		"searching": func(w *world, _ string) string { return w.create() },
		"assigned":  func(w *world, l string) string { return w.assigned(l) },
		"callback": func(w *world, _ string) string {
			id := w.create()
			w.clock.Advance(SearchLimit)
			w.sweep()
			return id
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := bring(w, w.online())
			d, fresh, err := w.withdraw(w.client, id)
			if err != nil || !fresh || d.Begun() || d.Price != Price || !d.DeclaredAt.Equal(w.clock.Now()) {
				t.Fatalf("%+v %v %v", d, fresh, err)
			}
			if c := w.read(id); c.Status != Cancelled || c.EndReason != CancelledByClient {
				t.Errorf("%s, %s", c.Status, c.EndReason)
			}
			w.clock.Advance(time.Minute)
			if again, fresh, err := w.withdraw(w.client, id); err != nil || fresh ||
				!again.DeclaredAt.Equal(d.DeclaredAt) || again.Status != d.Status || again.Price != Price {
				t.Errorf("again: %+v %v %v", again, fresh, err)
			}
		})
	}
}

func TestWithdrawalFromWhatHasBegunIsRecordedForAnOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.inCall(l)
	d, fresh, err := w.withdraw(w.client, id)
	if err != nil || !fresh || !d.Begun() {
		t.Fatalf("%+v %v %v", d, fresh, err)
	}
	if c := w.read(id); c.Status != InCall {
		t.Errorf("the call was touched: %s", c.Status)
	}
	if got, found, err := w.Withdrawn(t.Context(), w.DB.Read(), id); err != nil || !found || got.Status != InCall {
		t.Errorf("record: %+v %v %v", got, found, err)
	}
	if _, err := dbtest.Owner(t, w.DB).Pool().Exec(t.Context(),
		`UPDATE consultation_withdrawals SET status = 'MATCHING'`); !postgres.IsCheck(err, "append_only") {
		t.Errorf("the record can be changed: %v", err)
	}
}

func TestWithdrawalIsRefusedToStrangersAndWhenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.completed(w.online())
	if _, _, err := w.withdraw(w.client, id); !errors.Is(err, ErrPerformed) {
		t.Errorf("completed: %v", err)
	}
	other := w.newClient("other@example.org", "", false, 0)
	for _, of := range [][2]string{{other, id}, {w.client, "con_test_x"}, {w.client, "\x00"}} {
		if _, _, err := w.withdraw(of[0], of[1]); !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("%v: %v", of, err)
		}
	}
}

func TestOneOfManyWithdrawalsCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.create()
	var wg sync.WaitGroup
	counted := make([]bool, 10)
	for i := range counted {
		wg.Go(func() {
			_, fresh, err := w.withdraw(w.client, id)
			if err != nil {
				t.Error(err)
			}
			counted[i] = fresh
		})
	}
	wg.Wait()
	n := 0
	for _, fresh := range counted {
		if fresh {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d withdrawals were the first", n)
	}
}

func TestTheClientSeesAndCancelsWhatAnyApplicationStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, l := t.Context(), w.online()
	first, second := w.application, w.newApplication("Other CRM")
	done := w.completed(l)
	running := w.inCall(w.online())
	mine := w.create()
	w.application = second
	other := w.create()
	w.application = first

	list, more, err := w.ListForClient(ctx, w.DB.Read(), w.client, Position{}, 3)
	if err != nil || !more || len(list) != 3 {
		t.Fatalf("%d %v %v", len(list), more, err)
	}
	last := list[2]
	rest, more, err := w.ListForClient(ctx, w.DB.Read(), w.client, Position{CreatedAt: last.CreatedAt, ID: last.ID}, 3)
	if err != nil || more || len(rest) != 1 {
		t.Errorf("rest: %+v %v %v", rest, more, err)
	}
	usage, err := w.UsageOf(ctx, w.DB.Read(), w.client)
	if err != nil || usage[first] != (Usage{Started: 3, Spent: Price}) || usage[second] != (Usage{Started: 1}) {
		t.Errorf("usage: %+v %v", usage, err)
	}
	if p, err := w.ProofOf(ctx, w.DB.Read(), w.client, done); err != nil || p.TextVersion != WaiverVersion ||
		p.Address != "192.0.2.1" || p.TextSHA256 == (id.Digest{}) {
		t.Errorf("proof: %+v %v", p, err)
	}
	var n int
	w.tx(func(tx postgres.Tx) (err error) { n, err = w.CancelNotStarted(ctx, tx, w.client, first); return err })
	if n != 1 {
		t.Errorf("%d cancelled", n)
	}
	for id, want := range map[string]Status{done: Completed, running: InCall, mine: Cancelled, other: Matching} {
		if c, err := w.GetForClient(ctx, w.DB.Read(), w.client, id); err != nil || c.Status != want {
			t.Errorf("%s: %s, want %s (%v)", id, c.Status, want, err)
		}
	}
	if open, err := w.OpenOf(ctx, w.DB.Read(), w.client); err != nil || open != 2 {
		t.Errorf("%d open %v", open, err)
	}
	if err := w.DB.InTx(ctx, func(tx postgres.Tx) error { return w.Erase(ctx, tx, w.client) }); !errors.Is(err,
		ErrOpen) {
		t.Errorf("erase: %v", err)
	}
	stranger := w.newClient("other@example.org", "", false, 0)
	if _, err := w.GetForClient(ctx, w.DB.Read(), stranger, mine); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("a stranger sees it: %v", err)
	}
	if _, err := w.ProofOf(ctx, w.DB.Read(), stranger, mine); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("a stranger sees the proof: %v", err)
	}
}
