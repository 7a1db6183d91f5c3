package consultation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// TestCrowd runs lawyers, cancelling clients and the sweepers of several replicas concurrently until everything has
// ended. Nothing is stranded, no lock is contended permanently, and every history and every cent is accounted for.
func TestCrowd(t *testing.T) {
	t.Parallel()
	const n, people = 24, 6
	w := newWorld(t)
	var clients []string
	for i := range people {
		clients = append(clients, w.newClient(fmt.Sprintf("crowd%d@example.org", i), fmt.Sprintf("+3361234567%d", i),
			true, n/people*Price))
	}
	for range 6 {
		w.online()
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var ids []string
	for i := range n {
		cmd := w.command()
		cmd.ClientID = clients[i%people]
		c, err := w.tryCreate(cmd)
		w.do(err)
		ids = append(ids, c.ID)
	}
	var crew sync.WaitGroup
	for _, l := range w.lawyers {
		crew.Go(func() {
			for i := 0; ctx.Err() == nil && w.open(ctx) > 0; i++ {
				w.play(ctx, l, i)
			}
		})
	}
	for range 3 {
		crew.Go(func() {
			for ctx.Err() == nil && w.open(ctx) > 0 {
				w.clock.Advance(5 * time.Millisecond)
				if err := w.Sweep(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	crew.Go(func() {
		for i := 0; i < n; i += 4 {
			err := w.DB.InTx(ctx, func(tx postgres.Tx) error {
				_, err := w.CancelForClient(ctx, tx, clients[i%people], ids[i])
				return err
			})
			if err != nil && !errors.Is(err, ErrNotCancellable) {
				t.Error(err)
			}
		}
	})
	crew.Wait()
	ended := map[Status]int{}
	for i, id := range ids {
		c, err := w.Get(t.Context(), w.DB.Read(), w.application, clients[i%people], id)
		w.do(err)
		ended[c.Status]++
		w.events(id) // checks the sequence
	}
	if ended[Completed]+ended[Cancelled]+ended[Expired] != n || ended[Completed] == 0 || ended[Cancelled] == 0 {
		t.Errorf("ended as %v", ended)
	}
	var held, available money.Cents
	for _, client := range clients {
		b, err := w.Wallet.Balance(t.Context(), w.DB.Read(), client)
		w.do(err)
		held, available = held+b.Held, available+b.Available
	}
	if held != 0 || int(available) != (n-ended[Completed])*int(Price) {
		t.Errorf("available %d held %d after %v", available, held, ended)
	}
}

// open counts the consultations that have not ended.
func (w *world) open(ctx context.Context) (n int) {
	err := w.DB.Pool().QueryRow(ctx,
		`SELECT count(*) FROM consultations WHERE status NOT IN ('COMPLETED', 'CANCELLED', 'EXPIRED')`).Scan(&n)
	if err != nil && ctx.Err() == nil {
		w.Error(err)
	}
	return n
}

// play takes one turn for a lawyer. Errors are expected when others were faster.
func (w *world) play(ctx context.Context, l string, turn int) {
	say := func(err error) {
		for _, fine := range []error{nil, matching.ErrOfferGone, ErrNotYours, ErrForbidden, ErrTooEarly,
			telephony.ErrLineBusy, telephony.ErrNoCall, lawyer.ErrLeaseLost, ctx.Err()} {
			if errors.Is(err, fine) {
				return
			}
		}
		w.Error(err)
	}
	lease, err := w.Lawyers.GoOnline(ctx, w.DB.Read(), l) // back from the pause after a missed offer
	say(err)
	if o, ok, err := w.Matching.OpenFor(ctx, w.DB.Read(), l); err == nil && ok {
		if l == w.lawyers[0] && turn%5 == 0 { // only one lawyer declines, so no work is stranded
			say(w.DeclineOffer(ctx, lease, o.ID, matching.ReasonConflict))
			return
		}
		say(w.AcceptOffer(ctx, lease, o.ID))
	}
	jobs, err := w.InHands(ctx, w.DB.Read(), l)
	say(err)
	for _, c := range jobs {
		switch c.Status {
		case Assigned:
			say(w.StartCall(ctx, lease, c.ID))
			call, ok, err := w.Telephony.Active(ctx, w.DB.Read(), c.ID)
			if say(err); !ok {
				w.clock.Advance(lineBusyRetry / 20) // the client is on another call
				continue
			}
			for i, e := range []telephony.Event{
				{Kind: telephony.LegAnswered, Role: telephony.Lawyer}, {Kind: telephony.LegDigits,
					Role: telephony.Lawyer, Digits: "1"},
				{Kind: telephony.LegAnswered, Role: telephony.Client},
				{Kind: telephony.LegDigits, Role: telephony.Client, Digits: "1"}, {Kind: telephony.LegsJoined},
			} {
				e.ID, e.CallID, e.At = fmt.Sprint(i), call.ID, w.clock.Now()
				say(w.HandleCallEvent(ctx, e))
			}
		case InCall:
			say(w.EndCall(ctx, lease, c.ID))
		case CallEnded:
			say(w.SubmitNote(ctx, lease, c.ID, "note", "preview"))
		}
	}
}
