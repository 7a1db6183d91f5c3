package consultation

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/money"
	"partnerd/internal/base/seal"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
	"partnerd/internal/infra/sms"
)

// world is the domain with its own database and clock, an application and a client with 100 euros. The test simulates
// the telephony provider through HandleCallEvent, and searches after commits by Sweep.
type world struct {
	*testing.T
	*Service
	Deps
	clock       *clock.Manual
	application string
	client      string
	lawyers     []string
	queue       *queue.Queue
	eventID     int // of the provider
	count       int // of lawyers so far
}

// replica is another process that uses the same database through db.
func (w *world) replica(db *postgres.DB) *Service {
	d := w.deps
	d.DB, d.Searches = db, nil
	return New(d)
}

// newKeys is shared: generating keys is slow, and they hold no state.
var newKeys = sync.OnceValues(func() (*seal.Box, *seal.Drop) {
	key, err := seal.NewKey()
	if err != nil {
		panic(err)
	}
	public, _, err := seal.NewKeyPair()
	if err != nil {
		panic(err)
	}
	box, err := seal.OpenBox(key)
	if err != nil {
		panic(err)
	}
	drop, err := seal.OpenDrop(public)
	if err != nil {
		panic(err)
	}
	return box, drop
})

func newWorld(t *testing.T) *world {
	t.Helper()
	clk := clock.NewManual(noon)
	return newWorldOn(t, dbtest.NewWithClock(t, clk), clk)
}

// newWorldOn creates a world on db. The database takes its time from elsewhere unless clk is its clock.
func newWorldOn(t *testing.T, db *postgres.DB, clk *clock.Manual) *world {
	t.Helper()
	box, drop := newKeys()
	lawyers := lawyer.New(box)
	jobs, err := queue.New(db, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, clock: clk, queue: jobs, Service: New(Deps{
		DB: db, Box: box, Accounts: account.New(box), Applications: application.New(), Catalog: catalog.New(),
		Wallet: wallet.New(), Matching: matching.New(lawyers), Lawyers: lawyers,
		Webhooks: webhook.New(db, box, webhook.Config{Sandbox: true}),
		Notes:    note.New(box, drop), Telephony: telephony.New(db, nil, nil, nil), Mail: mail.New(jobs, box, nil),
		SMS: sms.New(db, jobs, box, nil, slog.New(slog.DiscardHandler)),
	})}
	w.Deps = w.deps
	w.application = w.newApplication("CRM")
	w.client = w.newClient("client@example.org", "+33612345678", true, 10_000)
	t.Cleanup(func() {
		findings, err := books.Verify(context.WithoutCancel(t.Context()), db.Read())
		if err != nil || len(findings) > 0 {
			t.Errorf("the books: %v %s", err, strings.Join(findings, "; "))
		}
		w.expectReasons()
	})
	return w
}

func (w *world) tx(f func(tx postgres.Tx) error) {
	w.Helper()
	if err := w.DB.InTx(w.Context(), f); err != nil {
		w.Fatal(err)
	}
}

func (w *world) newApplication(name string) (id string) {
	w.tx(func(tx postgres.Tx) error {
		a, _, err := w.Applications.Create(w.Context(), tx, application.NewApplication{Name: name,
			RedirectURIs: []string{"https://crm.example/cb"}})
		id = a.ID
		return err
	})
	return id
}

func (w *world) newClient(email, phone string, verified bool, cents money.Cents) (id string) {
	w.tx(func(tx postgres.Tx) error {
		c, err := w.Accounts.Create(w.Context(), tx, account.NewClient{Email: email, Password: "correct horse",
			Name: "Demo Client", Phone: phone, PhoneVerified: verified})
		if err != nil {
			return err
		}
		id = c.ID
		if err := w.Wallet.Open(w.Context(), tx, id); err != nil || cents == 0 {
			return err
		}
		return w.Wallet.Adjust(w.Context(), tx, id, cents, "test")
	})
	return id
}

// online adds a present lawyer for family law in French.
func (w *world) online() (id string) {
	w.Helper()
	w.count++
	w.tx(func(tx postgres.Tx) error {
		l, err := w.Lawyers.Create(w.Context(), tx, lawyer.NewLawyer{
			Email: fmt.Sprintf("lawyer%d@example.org", w.count), Name: "Demo Lawyer", Phone: "+33611111111",
			Simulated: true, Competences: []string{"FAMILY", "TAX"}, Languages: []string{"FR"},
		})
		if err != nil {
			return err
		}
		id = l.ID
		_, err = w.Lawyers.GoOnline(w.Context(), tx, id)
		return err
	})
	w.lawyers = append(w.lawyers, id)
	return id
}

func (w *world) command() CreateCommand {
	return CreateCommand{
		Request: Request{ApplicationID: w.application, ClientID: w.client, Competence: "FAMILY", Subject: "Séparation",
			Description: "Que faire ?", ExternalRef: "case-7"},
		Evidence: Evidence{RequestID: "req_1", IdempotencyKey: "key-1", Address: "192.0.2.1", UserAgent: "crm/1"},
	}
}

func (w *world) create() string {
	w.Helper()
	c, err := w.tryCreate(w.command())
	if err != nil {
		w.Fatal(err)
	}
	return c.ID
}

func (w *world) tryCreate(cmd CreateCommand) (c Consultation, err error) {
	err = w.DB.InTx(w.Context(), func(tx postgres.Tx) error {
		c, err = w.Create(w.Context(), tx, cmd)
		return err
	})
	return c, err
}

func (w *world) cancelIt(id string) (c Consultation, err error) {
	err = w.DB.InTx(w.Context(), func(tx postgres.Tx) error {
		c, err = w.Cancel(w.Context(), tx, w.application, w.client, id)
		return err
	})
	return c, err
}

func (w *world) sweep() {
	w.Helper()
	if err := w.Sweep(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// pass advances the clock with all lawyers present, and sweeps once at the end.
func (w *world) pass(d time.Duration) {
	w.Helper()
	w.clock.Advance(d)
	if err := w.Lawyers.Heartbeat(w.Context(), w.DB.Read(), w.lawyers...); err != nil {
		w.Fatal(err)
	}
	w.sweep()
}

func (w *world) refund(id string, amount money.Cents) error {
	return w.DB.InTx(w.Context(), func(tx postgres.Tx) error {
		_, err := w.Refund(w.Context(), tx, id, amount)
		return err
	})
}

func (w *world) closeIt(id string, reason Reason) error {
	return w.DB.InTx(w.Context(), func(tx postgres.Tx) error {
		_, err := w.Close(w.Context(), tx, id, reason)
		return err
	})
}

// lease returns the lease of the lawyer's current connection.
func (w *world) lease(lawyerID string) lawyer.Lease {
	w.Helper()
	l, err := w.Lawyers.Get(w.Context(), w.DB.Read(), lawyerID)
	if err != nil {
		w.Fatal(err)
	}
	return lawyer.Lease{LawyerID: lawyerID, Epoch: l.LeaseEpoch}
}

// offerOf returns the lawyer's open offer.
func (w *world) offerOf(lawyerID string) matching.Offer {
	w.Helper()
	o, ok, err := w.Matching.OpenFor(w.Context(), w.DB.Read(), lawyerID)
	if err != nil || !ok {
		w.Fatalf("lawyer has no open offer (%v)", err)
	}
	return o
}

func (w *world) do(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) assigned(lawyerID string) string {
	w.Helper()
	id := w.create()
	w.sweep()
	w.do(w.AcceptOffer(w.Context(), w.lease(lawyerID), w.offerOf(lawyerID).ID))
	return id
}

// offerBesides offers a consultation whose client is already being served, as two concurrent searches may.
func (w *world) offerBesides(id, lawyerID string) {
	w.Helper()
	for _, sql := range []string{
		"UPDATE lawyers SET state = 'OFFERED' WHERE id = $1",
		"UPDATE lawyer_pairs SET idle_since = NULL WHERE lawyer_id = $1",
	} {
		if _, err := w.DB.Pool().Exec(w.Context(), sql, lawyerID); err != nil {
			w.Fatal(err)
		}
	}
	_, err := w.DB.Pool().Exec(w.Context(),
		`INSERT INTO offers (id, consultation_id, lawyer_id, state, created_at, expires_at)
		VALUES ('ofr_besides', $1, $2, 'OPEN', $3, $4)`, id, lawyerID, w.clock.Now(),
		w.clock.Now().Add(matching.OfferTime))
	if err != nil {
		w.Fatal(err)
	}
}

// provider reports one event of the consultation's call.
func (w *world) provider(id string, e telephony.Event) error {
	w.Helper()
	call, ok, err := w.Telephony.Active(w.Context(), w.DB.Read(), id)
	if err != nil || !ok {
		w.Fatalf("no call under way (%v)", err)
	}
	w.eventID++
	e.ID, e.CallID, e.At = fmt.Sprint(w.eventID), call.ID, w.clock.Now()
	return w.HandleCallEvent(w.Context(), e)
}

// lawyerReady makes the lawyer answer and press 1.
func (w *world) lawyerReady(id string) {
	w.Helper()
	w.do(w.provider(id, telephony.Event{Kind: telephony.LegAnswered, Role: telephony.Lawyer}))
	w.do(w.provider(id, telephony.Event{Kind: telephony.LegDigits, Role: telephony.Lawyer, Digits: "1"}))
}

// confirmed takes the call to the point where only the joining is left.
func (w *world) confirmed(lawyerID, id string) {
	w.Helper()
	w.do(w.StartCall(w.Context(), w.lease(lawyerID), id))
	w.lawyerReady(id)
	w.do(w.provider(id, telephony.Event{Kind: telephony.LegAnswered, Role: telephony.Client}))
	w.do(w.provider(id, telephony.Event{Kind: telephony.LegDigits, Role: telephony.Client, Digits: "1"}))
}

func (w *world) inCall(lawyerID string) string {
	w.Helper()
	id := w.assigned(lawyerID)
	w.confirmed(lawyerID, id)
	w.do(w.provider(id, telephony.Event{Kind: telephony.LegsJoined}))
	return id
}

func (w *world) callEnded(lawyerID string, after time.Duration) string {
	w.Helper()
	id := w.inCall(lawyerID)
	w.clock.Advance(after)
	w.do(w.provider(id, telephony.Event{Kind: telephony.CallOver, By: telephony.Client}))
	return id
}

func (w *world) completed(lawyerID string) string {
	w.Helper()
	id := w.callEnded(lawyerID, 90*time.Second)
	w.do(w.SubmitNote(w.Context(), w.lease(lawyerID), id, "Le texte complet.", "Un aperçu."))
	return id
}

// unreached simulates an attempt that the client does not answer, after which the lawyer chooses to wait for the next.
func (w *world) unreached(id string) {
	w.Helper()
	w.unanswered(id)
	if c := w.read(id); c.ChooseBy != nil {
		w.do(w.ChooseRedial(w.Context(), w.lease(c.LawyerID), id, true))
	}
}

func (w *world) unanswered(id string) {
	w.Helper()
	w.lawyerReady(id)
	w.do(w.provider(id, telephony.Event{Kind: telephony.LegFailed, Role: telephony.Client, Reason: telephony.NoAnswer}))
}

func (w *world) read(id string) Consultation {
	w.Helper()
	c, err := w.Get(w.Context(), w.DB.Read(), w.application, w.client, id)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// events lists the events of a consultation by sequence as type[data.status], with the duration if there is one. The
// sequence must be 1, 2, 3 …
func (w *world) events(id string) string {
	w.Helper()
	rows, err := w.DB.Pool().Query(w.Context(),
		`SELECT sequence, type, convert_from(body, 'UTF8')::jsonb #>> '{data,status}',
		coalesce(convert_from(body, 'UTF8')::jsonb #>> '{data,durationSec}', '') FROM webhook_events WHERE consultation_id = $1 ORDER BY sequence`, id)
	if err != nil {
		w.Fatal(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var seq int
		var kind, status, duration string
		if err := rows.Scan(&seq, &kind, &status, &duration); err != nil {
			w.Fatal(err)
		}
		if seq != len(out)+1 {
			w.Errorf("event %d has sequence %d", len(out)+1, seq)
		}
		if duration != "" {
			status += " " + duration
		}
		out = append(out, strings.TrimPrefix(kind, "consultation.")+"["+status+"]")
	}
	return strings.Join(out, " ")
}

const started = "created[DRAFT] payment_authorized[MATCHING] matching[MATCHING]"

// expect compares the status, the events after the first three, and the client's money (available and held).
func (w *world) expect(id string, status Status, events string, available, held money.Cents) {
	w.Helper()
	if got := w.read(id).Status; got != status {
		w.Errorf("status %s, want %s", got, status)
	}
	if want := strings.TrimSpace(started + " " + events); w.events(id) != want {
		w.Errorf("events\n%s, want\n%s", w.events(id), want)
	}
	b, err := w.Wallet.Balance(w.Context(), w.DB.Read(), w.client)
	if err != nil || b.Available != available || b.Held != held {
		w.Errorf("available %d held %d (%v), want %d and %d", b.Available, b.Held, err, available, held)
	}
}

func (w *world) expectLawyer(id string, want lawyer.State) {
	w.Helper()
	l, err := w.Lawyers.Get(w.Context(), w.DB.Read(), id)
	if err != nil || l.State != want {
		w.Errorf("lawyer is %s (%v), want %s", l.State, err, want)
	}
}
