package simulate

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/seal"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
)

// sweepEvery is the interval between sweeps, besides the sweep at the end of every offer.
const sweepEvery = 10 * time.Second

// event is something planned for a time. Events with the same time run in the order in which they were planned.
type event struct {
	at  time.Time
	seq int
	do  func() error
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) } //nolint:forcetypeassert // heap pushes what it is given
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// world is the domain on a database with a clock that the simulation advances. It is for one goroutine.
type world struct {
	ctx           context.Context
	clock         *clock.Manual
	db            *postgres.DB
	consultations *consultation.Service
	lawyers       *lawyer.Service
	calls         *telephony.Service
	wallet        *wallet.Service
	accounts      *account.Service
	application   string

	rng     *rand.Rand
	planned events
	seq     int
	seen    map[string]bool // offers that their lawyers have seen
	idle    []string        // clients without a consultation
	clients int
	next    int // number of the next phone event
	offered func(matching.Offer) error
}

// noPhone is a provider that is never called, because the simulation reports phone events itself.
type noPhone struct{ telephony.None }

func newWorld(ctx context.Context, url string, seed uint64, start time.Time) (*world, error) {
	w := &world{ctx: ctx, clock: clock.NewManual(start), rng: rand.New(rand.NewPCG(seed, 1)), seen: map[string]bool{}}
	var err error
	if w.db, err = postgres.Open(ctx, url, postgres.Options{Clock: w.clock, Test: true}); err != nil {
		return nil, err
	}
	key, err1 := seal.NewKey()
	public, _, err2 := seal.NewKeyPair()
	box, err3 := seal.OpenBox(key)
	drop, err4 := seal.OpenDrop(public)
	silent := slog.New(slog.DiscardHandler)
	jobs, err5 := queue.New(w.db, silent)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	applications := application.New()
	w.lawyers, w.wallet, w.accounts = lawyer.New(box), wallet.New(), account.New(box)
	w.calls = telephony.New(w.db, noPhone{}, nil, silent)
	w.consultations = consultation.New(consultation.Deps{
		DB: w.db, Box: box, Accounts: w.accounts, Applications: applications, Catalog: catalog.New(), Wallet: w.wallet,
		Matching: matching.New(w.lawyers), Lawyers: w.lawyers,
		Webhooks: webhook.New(w.db, box, webhook.Config{Sandbox: true}), Notes: note.New(box, drop), Telephony: w.calls,
		Mail: mail.New(jobs, box, nil), Logger: silent,
	})
	err = w.db.InTx(ctx, func(tx postgres.Tx) error {
		a, _, err := applications.Create(ctx, tx, application.NewApplication{Name: "Demo CRM",
			RedirectURIs: []string{"https://crm.example/callback"}})
		w.application = a.ID
		return err
	})
	return w, errors.Join(err, w.consultations.SearchCommitted(ctx))
}

// after plans do for a duration from now.
func (w *world) after(d time.Duration, do func() error) { w.at(w.clock.Now().Add(d), do) }

func (w *world) at(t time.Time, do func() error) {
	w.seq++
	heap.Push(&w.planned, event{at: t, seq: w.seq, do: do})
}

// run executes everything planned before a time, and settles each event before the next. While open returns true, it
// also sweeps at the usual interval.
func (w *world) run(until time.Time, open func() bool) error {
	swept := w.clock.Now()
	for len(w.planned) > 0 && w.planned[0].at.Before(until) {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		at, do := swept.Add(sweepEvery), w.sweep
		if !open() || w.planned[0].at.Before(at) {
			next := heap.Pop(&w.planned).(event) //nolint:forcetypeassert // the heap holds nothing else
			at, do = next.at, next.do
		}
		if d := at.Sub(w.clock.Now()); d > 0 {
			w.clock.Advance(d)
		}
		if now := w.clock.Now(); now.Sub(swept) >= sweepEvery {
			swept = now
		}
		err := do()
		if err == nil {
			err = w.settle()
		}
		if err != nil {
			return fmt.Errorf("at %s: %w", w.clock.Now().Format(time.TimeOnly), err)
		}
	}
	return nil
}

var newOffersSQL = postgres.SQL(postgres.Report,
	`SELECT id, consultation_id, lawyer_id, created_at, expires_at FROM offers
	WHERE state = 'OPEN' AND created_at >= $1 ORDER BY created_at, id`)

// settle completes the requested searches and shows the offers to their lawyers.
func (w *world) settle() error {
	if err := w.consultations.SearchCommitted(w.ctx); err != nil {
		return err
	}
	type row struct {
		ID, ConsultationID, LawyerID string
		CreatedAt, ExpiresAt         time.Time
	}
	offers, err := postgres.Query[row](w.ctx, w.db.Read(), newOffersSQL, w.clock.Now())
	if err != nil {
		return err
	}
	for _, o := range offers {
		if w.seen[o.ID] {
			continue
		}
		w.seen[o.ID] = true
		w.at(o.ExpiresAt, func() error { return w.sweep() })
		err := w.offered(matching.Offer{ID: o.ID, ConsultationID: o.ConsultationID, LawyerID: o.LawyerID,
			CreatedAt: o.CreatedAt, ExpiresAt: o.ExpiresAt})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) sweep() error { return w.consultations.Sweep(w.ctx) }

var (
	insertClientSQL = postgres.SQL(postgres.Batch,
		`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at)
		VALUES ($1, $1 || '@client.example', 'Demo Client', '', $2, $2)`)
	presentSQL = postgres.SQL(postgres.Batch, `UPDATE lawyer_presence SET heartbeat_at = $2 WHERE lawyer_id = $1`)
)

// anyone returns a client with money and without a consultation.
func (w *world) anyone() (client string, err error) {
	if n := len(w.idle); n > 0 {
		client, w.idle = w.idle[n-1], w.idle[:n-1]
		return client, nil
	}
	w.clients++
	client = "cli_" + strconv.Itoa(w.clients)
	return client, w.db.InTx(w.ctx, func(tx postgres.Tx) error {
		if _, err := tx.Exec(w.ctx, insertClientSQL, client, tx.Now); err != nil {
			return err
		}
		if err := w.accounts.SetPhone(w.ctx, tx, client, "+33639980001", true); err != nil {
			return err
		}
		return w.wallet.Adjust(w.ctx, tx, client, 100*consultation.Price, "Opening balance")
	})
}

// create creates a consultation for a client.
func (w *world) create(client string, p matching.Pair) (c consultation.Consultation, err error) {
	return c, w.db.InTx(w.ctx, func(tx postgres.Tx) error {
		c, err = w.consultations.Create(w.ctx, tx, consultation.CreateCommand{
			Request: consultation.Request{ApplicationID: w.application, ClientID: client, Competence: p.Competence,
				Language: p.Language, Subject: "Question"},
			Evidence: consultation.Evidence{RequestID: "simulated", IdempotencyKey: strconv.Itoa(w.seq)},
		})
		return err
	})
}

// ended makes a client available for another consultation.
func (w *world) ended(client string) { w.idle = append(w.idle, client) }

// signOn starts a lawyer's lease and keeps it until a given time.
func (w *world) signOn(lawyerID string, until time.Time) (lease lawyer.Lease, err error) {
	err = w.db.InTx(w.ctx, func(tx postgres.Tx) error {
		if lease, err = w.lawyers.GoOnline(w.ctx, tx, lawyerID); err != nil {
			return err
		}
		_, err = tx.Exec(w.ctx, presentSQL, lawyerID, until)
		return err
	})
	if err != nil {
		return lease, err
	}
	return lease, w.consultations.LawyerAvailable(w.ctx, lawyerID)
}

// Events that a phone reports.
var (
	answers = []telephony.Event{{Kind: telephony.LegAnswered, Role: telephony.Lawyer},
		{Kind: telephony.LegDigits, Role: telephony.Lawyer, Digits: "1"},
		{Kind: telephony.LegAnswered, Role: telephony.Client},
		{Kind: telephony.LegDigits, Role: telephony.Client, Digits: "1"}, {Kind: telephony.LegsJoined}}
	noAnswer = []telephony.Event{answers[0], answers[1], {Kind: telephony.LegFailed, Role: telephony.Client,
		Reason: telephony.NoAnswer}}
)

// phone reports events of a consultation's current call, or returns false if it has none.
func (w *world) phone(consultationID string, list []telephony.Event) (bool, error) {
	call, active, err := w.calls.Active(w.ctx, w.db.Read(), consultationID)
	if err != nil || !active {
		return false, err
	}
	for _, e := range list {
		w.next++
		e.ID, e.CallID, e.At = strconv.Itoa(w.next), call.ID, w.clock.Now()
		if err := w.consultations.HandleCallEvent(w.ctx, e); err != nil {
			return false, err
		}
	}
	return true, nil
}

// exponential draws a duration with the given mean.
func (w *world) exponential(mean time.Duration) time.Duration {
	return time.Duration(w.rng.ExpFloat64() * float64(mean))
}

// between draws a duration uniformly.
func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rng.Int64N(int64(most-least)))
}

// chance returns true with the given probability.
func (w *world) chance(p float64) bool { return w.rng.Float64() < p }
