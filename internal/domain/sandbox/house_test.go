package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/seal"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
)

const clientPhone = "+33612345678"

// house is everything that a consultation needs, wired as in the program.
type house struct {
	*testing.T
	ctx    context.Context
	db     *postgres.DB
	box    *seal.Box
	drop   *seal.Drop
	script func(callID string) sandbox.Script
	pace   sandbox.Pace
	wires  *wires
	app    application.Application

	accounts      *account.Service
	applications  *application.Service
	wallet        *wallet.Service
	lawyers       *lawyer.Service
	telephony     *telephony.Service
	webhooks      *webhook.Service
	consultations *consultation.Service
	calls         *sandbox.Calls
	players       *sandbox.Lawyers
	crews         *sandbox.Crews
}

// wires is the simulated provider with a record of what was dialled.
type wires struct {
	*sandbox.Calls
	mu      sync.Mutex
	dialled []string // role and number
}

func (w *wires) PlaceLeg(ctx context.Context, c telephony.PlaceLeg) error {
	w.mu.Lock()
	w.dialled = append(w.dialled, string(c.Role)+" "+c.To)
	w.mu.Unlock()
	return w.Calls.PlaceLeg(ctx, c)
}

type people struct{ h *house }

func (n people) ClientNumber(ctx context.Context, id string) (string, error) {
	return n.h.consultations.ClientNumber(ctx, id)
}
func (n people) LawyerNumber(ctx context.Context, id string) (string, error) {
	return n.h.lawyers.Phone(ctx, n.h.db.Read(), id)
}
func (n people) LawyerLanguage(context.Context, string) (string, error) { return "", nil } // no one signs in
func (n people) Application(context.Context, string) (string, error)    { return "CRM", nil }

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func open(t *testing.T, clk clock.Clock, script func(string) sandbox.Script) *house {
	t.Parallel()
	public, _, err := seal.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	h := &house{T: t, ctx: t.Context(), db: dbtest.NewWithClock(t, clk), script: script, pace: sandbox.DefaultPace,
		wires: &wires{}}
	h.box = must[*seal.Box](t)(seal.OpenBox(must[string](t)(seal.NewKey())))
	h.drop = must[*seal.Drop](t)(seal.OpenDrop(public))
	h.start()
	for range 2 { // the second call finds the lawyers of the first
		h.tx(func(tx postgres.Tx) error { return h.players.Seed(h.ctx, tx) })
	}
	h.tx(func(tx postgres.Tx) (err error) {
		h.app, _, err = h.applications.Create(h.ctx, tx, application.NewApplication{Name: "Demo CRM",
			RedirectURIs: []string{"https://crm.example/cb"}})
		if err == nil {
			_, err = h.webhooks.CreateEndpoint(h.ctx, tx, h.app.ID, "")
		}
		return err
	})
	return h
}

// silent discards all logs.
var silent = slog.New(slog.DiscardHandler)

// start recreates all services, as a restart does: only the database remembers.
func (h *house) start() {
	h.accounts, h.applications, h.wallet, h.lawyers = account.New(h.box), application.New(), wallet.New(),
		lawyer.New(h.box)
	h.calls = sandbox.NewCalls(h.db, func(id string) sandbox.Script {
		if h.script == nil {
			return sandbox.DefaultScript(id)
		}
		return h.script(id)
	}, silent)
	h.wires.Calls = h.calls
	h.telephony = telephony.New(h.db, h.wires, people{h}, silent)
	h.webhooks = webhook.New(h.db, h.box, webhook.Config{Sandbox: true})
	h.consultations = consultation.New(consultation.Deps{DB: h.db, Box: h.box, Accounts: h.accounts,
		Applications: h.applications, Catalog: catalog.New(), Wallet: h.wallet, Matching: matching.New(h.lawyers),
		Lawyers: h.lawyers, Webhooks: h.webhooks, Notes: note.New(h.box, h.drop), Telephony: h.telephony,
		Stage: sandbox.Stage{}})
	h.crews = sandbox.NewCrews(h.db, h.consultations, h.lawyers, catalog.New())
	h.players = sandbox.NewLawyers(h.db, h.consultations, h.lawyers, silent)
	h.players.Pace = h.pace
}

func (h *house) tx(do func(tx postgres.Tx) error) {
	h.Helper()
	if err := h.db.InTx(h.ctx, do); err != nil {
		h.Fatal(err)
	}
}

func (h *house) client(n int) string {
	h.Helper()
	var id string
	h.tx(func(tx postgres.Tx) error {
		c, err := h.accounts.Create(h.ctx, tx, account.NewClient{Email: fmt.Sprintf("client%d@example.com", n),
			Password: "a long password", Name: "Demo Client", Phone: clientPhone, PhoneVerified: true})
		if err != nil {
			return err
		}
		id = c.ID
		if err := h.wallet.Open(h.ctx, tx, id); err != nil {
			return err
		}
		return h.wallet.Adjust(h.ctx, tx, id, 20000, "test")
	})
	return id
}

func (h *house) create(clientID, language string, record bool) string {
	h.Helper()
	var id string
	h.tx(func(tx postgres.Tx) error {
		c, err := h.consultations.Create(h.ctx, tx,
			consultation.CreateCommand{Request: consultation.Request{ApplicationID: h.app.ID, ClientID: clientID,
				Competence: "FAMILY", Language: language, Subject: "A question", RecordingConsent: record},
				Evidence: consultation.Evidence{RequestID: "req", IdempotencyKey: "key", Address: "192.0.2.1",
					UserAgent: "test"}})
		id = c.ID
		return err
	})
	return id
}

type standing struct {
	Status   string
	Duration int // -1: none
}

func (h *house) standing(id string) (s standing) {
	h.Helper()
	err := h.db.Pool().QueryRow(h.ctx, "SELECT status, COALESCE(duration_sec, -1) FROM consultations WHERE id = $1",
		id).Scan(&s.Status, &s.Duration)
	if err != nil {
		h.Fatal(err)
	}
	return s
}

// events lists the types of a consultation's events, without their common prefix.
func (h *house) events(id string) string {
	h.Helper()
	rows, err := h.db.Pool().Query(h.ctx,
		"SELECT body FROM webhook_events WHERE consultation_id = $1 ORDER BY sequence", id)
	if err != nil {
		h.Fatal(err)
	}
	defer rows.Close()
	var types []string
	for rows.Next() {
		var body []byte
		var e struct{ Type string }
		if err := rows.Scan(&body); err != nil {
			h.Fatal(err)
		}
		if err := json.Unmarshal(body, &e); err != nil {
			h.Fatal(err)
		}
		types = append(types, strings.TrimPrefix(e.Type, "consultation."))
	}
	return strings.Join(types, " ")
}

func (h *house) balance(clientID string) wallet.Balance {
	h.Helper()
	return must[wallet.Balance](h.T)(h.wallet.Balance(h.ctx, h.db.Read(), clientID))
}

func (h *house) verifyBooks() {
	h.Helper()
	if findings := must[[]string](h.T)(books.Verify(h.ctx, h.db.Read())); len(findings) > 0 {
		h.Errorf("the books: %v", findings)
	}
}

// run starts all workers as the program does, until the test ends. The simulated lawyers, who are already on duty, do
// their first action late.
func (h *house) run(late time.Duration) {
	h.Helper()
	if _, err := h.players.Turn(h.ctx); err != nil {
		h.Fatal(err)
	}
	ctx, stop := context.WithCancel(h.ctx)
	var g errgroup.Group
	h.Cleanup(func() {
		stop()
		if err := g.Wait(); err != nil {
			h.Error(err)
		}
	})
	g.Go(func() error { return h.consultations.Run(ctx) })
	g.Go(func() error { return h.consultations.Lead(ctx) })
	g.Go(func() error { return h.telephony.RunCommands(ctx) })
	g.Go(func() error { return h.telephony.LeadCommands(ctx) })
	g.Go(func() error { return h.telephony.RunPoll(ctx, h.consultations.HandleCallEvent) })
	g.Go(func() error { return h.webhooks.Run(ctx) })
	g.Go(func() error { return h.webhooks.Lead(ctx) })
	g.Go(func() error { return h.calls.Run(ctx, h.consultations.HandleCallEvent) })
	g.Go(func() error {
		select {
		case <-time.After(late):
			return h.players.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	})
}

// play runs all workers once.
func (h *house) play() {
	h.Helper()
	err := h.consultations.Sweep(h.ctx)
	if err == nil {
		_, err = h.players.Turn(h.ctx)
	}
	for n := 1; n > 0 && err == nil; {
		var a, b int
		if a, err = h.telephony.Execute(h.ctx); err == nil {
			b, err = h.calls.Deliver(h.ctx, h.consultations.HandleCallEvent)
		}
		n = a + b
	}
	if err != nil {
		h.Fatal(err)
	}
}

// until plays with a manual clock, in steps, until done returns true or limit has passed.
func (h *house) until(clk *clock.Manual, step, limit time.Duration, done func() bool) {
	h.Helper()
	for begin := clk.Now(); ; clk.Advance(step) {
		h.play()
		if done() {
			return
		}
		if clk.Now().Sub(begin) > limit {
			h.Fatalf("not done within %s", limit)
		}
	}
}

func (h *house) is(id string, status consultation.Status) func() bool {
	return func() bool { return h.standing(id).Status == string(status) }
}
