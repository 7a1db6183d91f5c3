package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"partnerd/internal/app/config"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
)

// caller sends requests with their own credentials, which can be ended without affecting others.
type caller struct {
	*partner
	app           application.Application
	secret        string
	client, token string
	lawyer        lawyer.Lawyer
	session       string
}

// ending is an action that ends credentials, in its own transaction.
type ending struct {
	name string
	do   func(c *caller, ctx context.Context, tx postgres.Tx) error
}

const erasure = "erase the client"

var suspension = ending{"suspend the application", func(c *caller, ctx context.Context, tx postgres.Tx) error {
	return c.bank.app.Applications.SetSuspended(ctx, tx, c.app.ID, true)
}}

var (
	endingsOfClients = []ending{suspension,
		{"disconnect", func(c *caller, ctx context.Context, tx postgres.Tx) error {
			return c.bank.app.OAuth.Disconnect(ctx, tx, c.client, c.app.ID)
		}},
		{"disable the client", func(c *caller, ctx context.Context, tx postgres.Tx) error {
			err := c.bank.app.Accounts.SetDisabled(ctx, tx, c.client, true)
			if err == nil {
				_, err = c.bank.app.OAuth.UnlinkAll(ctx, tx, c.client, oauth.ReasonOperator)
			}
			return err
		}},
		{erasure, func(c *caller, ctx context.Context, tx postgres.Tx) error {
			return c.bank.app.Privacy.EraseAgain(ctx, tx, c.client)
		}},
	}
	endingsOfApplications = []ending{suspension,
		{"end the secret", func(c *caller, ctx context.Context, tx postgres.Tx) error {
			_, _, err := c.bank.app.Applications.RotateSecret(ctx, tx, c.app.ID,
				application.Rotation{EndPrevious: true})
			return err
		}},
	}
	endingsOfLawyers = []ending{
		{"suspend the lawyer", func(c *caller, ctx context.Context, tx postgres.Tx) error {
			_, err := c.bank.app.Consultations.SuspendLawyer(ctx, tx, c.lawyer.ID, lawyer.BySuspension)
			return errors.Join(err, c.bank.app.Staff.EndLawyerSessions(ctx, tx, c.lawyer.ID))
		}},
		{"sign the lawyer out", func(c *caller, ctx context.Context, tx postgres.Tx) error {
			return c.bank.app.Staff.SignOut(ctx, tx, c.session)
		}},
	}
)

func endingsOf(path string) []ending {
	switch {
	case strings.HasPrefix(path, "/api/v1/"):
		return endingsOfClients
	case strings.HasPrefix(path, "/api/platform/"):
		return endingsOfApplications
	case strings.HasPrefix(path, "/api/desk/"):
		return endingsOfLawyers
	}
	return nil
}

// caller creates a new caller of every kind. Only a client without money can be erased.
func (p *partner) caller(rich bool) *caller {
	t, b, ctx := p.t, p.bank, p.t.Context()
	c := &caller{partner: p}
	n := b.clients.Add(1)
	err := b.app.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		if c.app, c.secret, err = b.app.Applications.Create(ctx, tx,
			application.NewApplication{Name: fmt.Sprint("App ", n),
				RedirectURIs: b.crm.RedirectURIs, Scopes: application.AllScopes}); err != nil {
			return err
		}
		if _, err = b.app.Webhooks.CreateEndpoint(ctx, tx, c.app.ID,
			p.real["https://crm.example/webhooks"]); err != nil {
			return err
		}
		c.lawyer, err = b.app.Lawyers.Create(ctx, tx, lawyer.NewLawyer{Email: fmt.Sprintf("lawyer%d@bar.example", n),
			Name: "A Lawyer", Phone: fmt.Sprintf("+331980%05d", n), Competences: []string{"TAX"},
			Languages: []string{"PT"}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c.session = dbtest.SignIn(t, b.app.DB, c.lawyer.ID)
	crm, secret := b.crm, b.secret
	b.crm, b.secret = c.app, c.secret
	c.client, c.token = b.client()
	b.crm, b.secret = crm, secret
	if !rich {
		return c
	}
	err = b.app.DB.InTx(ctx,
		func(tx postgres.Tx) error { return b.app.Wallet.Adjust(ctx, tx, c.client, 10_000, "Test") })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// request returns a valid request of an operation by the caller. When its body is read, it calls reading, and then
// waits.
func (c *caller) request(op describedOperation, reading func()) *http.Request {
	var contentType string
	var example map[string]any
	for media, content := range op.RequestBody.Content {
		contentType, example = media, content.Examples[slices.Sorted(maps.Keys(content.Examples))[0]].Value
	}
	r := c.valid(op, contentType, example)
	switch {
	case strings.HasPrefix(op.path, "/api/v1/"):
		r.header.Set("Authorization", "Bearer "+c.token)
	case strings.HasPrefix(op.path, "/api/platform/"):
		setBasic(r.header, c.app.ID, c.secret)
	default:
		r.header.Set("Cookie", staff.CookieName(false)+"="+c.session)
		if r.header.Get("X-CSRF-Token") != "" {
			r.header.Set("X-CSRF-Token", staff.FormToken(c.session))
		}
	}
	var body io.Reader
	if r.json != nil {
		values := map[string]json.RawMessage{}
		for name, v := range r.json {
			values[name] = json.RawMessage(v)
		}
		body = &held{strings.NewReader(asJSON(c.t, values)), reading}
		r.header.Set("Content-Type", contentType)
	}
	q := httptest.NewRequestWithContext(c.t.Context(), op.method, "/", body)
	u, err := url.Parse(r.path + "?" + r.query.Encode())
	if err != nil {
		c.t.Fatal(err)
	}
	q.URL, q.RequestURI, q.Header = u, u.RequestURI(), r.header
	c.sent++
	// so that no rate limit hides the rule under test
	q.RemoteAddr = fmt.Sprintf("100.64.%d.%d:1234", c.sent/256, c.sent%256)
	return q
}

type held struct {
	io.Reader
	reading func()
}

func (h *held) Read(to []byte) (int, error) {
	if h.reading != nil {
		h.reading()
		h.reading = nil
	}
	return h.Reader.Read(to)
}

// everything returns what API actions write, except what an ending itself changes.
func (b *bank) everything() string {
	b.t.Helper()
	var all strings.Builder
	for _, table := range []string{
		"consultations", "topup_sessions", "webhook_endpoints", "idempotency_keys", "note_recipients",
		"sandbox_clients", "sandbox_lawyers", "conformance_runs", "holds", "offers",
	} {
		var sum *string
		err := b.app.DB.Pool().QueryRow(b.t.Context(),
			`SELECT md5(string_agg(x::text, ',' ORDER BY x::text)) FROM `+table+` x`).Scan(&sum)
		if err != nil {
			b.t.Fatal(err)
		}
		fmt.Fprintln(&all, table, sum != nil, deref(sum))
	}
	return all.String()
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// writing returns the operations of the APIs that change something: according to the contracts, all that do not read.
func writing(t *testing.T) map[string]describedOperation {
	ops := readContracts(t)
	maps.DeleteFunc(ops, func(_ string, op describedOperation) bool {
		return op.method == http.MethodGet || endingsOf(op.path) == nil
	})
	if len(ops) < 40 {
		t.Fatalf("%d operations write", len(ops))
	}
	return ops
}

func newPartner(t *testing.T) *partner {
	b := openBank(t, func(c *config.Config) { c.DatabaseConns = 8 })
	return (&intruder{t: t, handler: b.handler, seen: map[int]int{}}).partner(b)
}

// TestNoBodyOutlivesItsCredentials holds back a request's body until its credentials have ended. The request is
// rejected for that, and nothing is done.
func TestNoBodyOutlivesItsCredentials(t *testing.T) {
	t.Parallel()
	p := newPartner(t)
	for name, op := range writing(t) {
		if len(op.RequestBody.Content) == 0 {
			continue
		}
		for _, e := range endingsOf(op.path) {
			c := p.caller(e.name != erasure)
			var before string
			w := httptest.NewRecorder()
			p.bank.handler.ServeHTTP(w, c.request(op, func() {
				err := p.bank.app.DB.InTx(t.Context(), func(tx postgres.Tx) error { return e.do(c, t.Context(), tx) })
				if err != nil {
					t.Fatalf("%s: %v", e.name, err)
				}
				before = p.bank.everything()
			}))
			if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), `"UNAUTHORIZED"`) {
				t.Errorf("%s, %s: %d %s", name, e.name, w.Code, w.Body)
			}
			if after := p.bank.everything(); after != before {
				t.Errorf("%s, %s: changed something", name, e.name)
			}
		}
	}
}

// TestNoActOutlivesItsCredentials ends the credentials between their check and the action that they authorise. The
// action notices it.
func TestNoActOutlivesItsCredentials(t *testing.T) {
	t.Parallel()
	p := newPartner(t)
	for name, op := range writing(t) {
		for _, e := range endingsOf(op.path) {
			c := p.caller(e.name != erasure)
			request := c.request(op, nil)
			before := p.bank.everything()
			answered := make(chan *httptest.ResponseRecorder, 1)
			err := p.bank.app.DB.InTx(t.Context(), func(tx postgres.Tx) error {
				if err := e.do(c, t.Context(), tx); err != nil {
					return err
				}
				go func() {
					w := httptest.NewRecorder()
					p.bank.handler.ServeHTTP(w, request)
					answered <- w
				}()
				return p.awaitWaiter(answered)
			})
			if err != nil {
				t.Fatalf("%s: %v", e.name, err)
			}
			w := <-answered
			// its own rules come first
			desk := strings.HasPrefix(op.path, "/api/desk/") && w.Code >= 400 && w.Code < 500
			if w.Code != http.StatusUnauthorized && !desk && !unbound[op.ID] {
				t.Errorf("%s, %s: %d %s", name, e.name, w.Code, w.Body)
			}
			if before != p.bank.everything() {
				t.Errorf("%s, %s: changed something: %d %s", name, e.name, w.Code, w.Body)
			}
		}
	}
}

// unbound operations only read, or renew something that expires.
var unbound = map[string]bool{"checkSignature": true, "beat": true}

// awaitWaiter waits until the request waits for a lock, or has a response.
func (p *partner) awaitWaiter(answered chan *httptest.ResponseRecorder) error {
	for {
		var waiting int
		err := p.bank.app.DB.Pool().QueryRow(p.t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		if err != nil || waiting > 0 || len(answered) > 0 {
			return err
		}
	}
}
