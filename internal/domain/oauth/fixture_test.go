package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/seal"
	"partnerd/internal/base/seal/sealtest"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

const (
	issuer   = "http://localhost:8080"
	callback = "http://localhost:3000/callback"
	verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // RFC 7636 appendix B
	state    = "a b+c/é%20&x=1"
)

// world is a database with two applications, two clients and the service under test, on a manual clock.
type world struct {
	db           *postgres.DB
	box          *seal.Box
	clk          *clock.Manual
	accounts     *account.Service
	applications *application.Service
	svc          *Service
	app, other   application.Application
	secret       string
	otherSecret  string
	client       account.Client
	second       account.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{clk: clock.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), box: newBox(t)}
	w.db = dbtest.NewWithClock(t, w.clk)
	w.accounts, w.applications = account.New(w.box), application.New()
	w.svc = w.replica(t)
	w.tx(t, func(tx postgres.Tx) (err error) {
		if w.app, w.secret, err = w.applications.Create(t.Context(), tx, application.NewApplication{Name: "Demo CRM",
			RedirectURIs: []string{callback, callback + "?tenant=1"}}); err != nil {
			return err
		}
		if w.other, w.otherSecret, err = w.applications.Create(t.Context(), tx,
			application.NewApplication{Name: "Other CRM", RedirectURIs: []string{callback},
				Scopes: []application.Scope{application.ProfileRead, application.OfflineAccess}}); err != nil {
			return err
		}
		if w.client, err = w.accounts.Create(t.Context(), tx, account.NewClient{Email: "client@example.com",
			Password: "a long password", Name: "Demo Client"}); err != nil {
			return err
		}
		w.second, err = w.accounts.Create(t.Context(), tx, account.NewClient{Email: "second@example.com",
			Password: "a long password", Name: "Second Client"})
		return err
	})
	return w
}

func newBox(t *testing.T) *seal.Box {
	t.Helper()
	return sealtest.Box(t)
}

// replica creates another service on the same database.
func (w *world) replica(t *testing.T) *Service {
	t.Helper()
	s, err := New(t.Context(), w.db, w.box, w.accounts, w.applications,
		Config{Issuer: issuer, Audience: issuer + "/api/v1"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) tx(t *testing.T, f func(tx postgres.Tx) error) {
	t.Helper()
	if err := w.db.InTx(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// authorizeQuery returns a valid authorization request for all scopes, with changes as pairs of name and value. The
// value "-" removes the parameter.
func (w *world) authorizeQuery(changes ...string) url.Values {
	q := url.Values{
		"response_type": {"code"}, "client_id": {w.app.ID}, "redirect_uri": {callback},
		"scope": {application.FormatScopes(application.AllScopes)}, "state": {state},
		"code_challenge": {challengeOf(verifier)}, "code_challenge_method": {"S256"},
	}
	change(q, changes)
	return q
}

func change(v url.Values, changes []string) {
	for i := 0; i < len(changes); i += 2 {
		v.Set(changes[i], changes[i+1])
		if changes[i+1] == "-" {
			v.Del(changes[i])
		}
	}
}

// code signs in, consents to everything requested and returns the code.
func (w *world) code(t *testing.T, changes ...string) string {
	t.Helper()
	var target string
	w.tx(t, func(tx postgres.Tx) error {
		r, err := w.svc.ParseAuthorize(t.Context(), tx, w.authorizeQuery(changes...))
		if err != nil {
			return err
		}
		target, err = w.svc.Approve(t.Context(), tx, r, w.client.ID, r.Scopes)
		return err
	})
	return queryOf(t, target).Get("code")
}

func queryOf(t *testing.T, target string) url.Values {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}

func (w *world) codeForm(code string, changes ...string) url.Values {
	f := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback},
		"code_verifier": {verifier}, "client_id": {w.app.ID}, "client_secret": {w.secret}}
	change(f, changes)
	return f
}

func (w *world) refreshForm(token string, changes ...string) url.Values {
	f := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {w.app.ID},
		"client_secret": {w.secret}}
	change(f, changes)
	return f
}

// link runs the whole flow.
func (w *world) link(t *testing.T, changes ...string) TokenResponse {
	t.Helper()
	return w.token(t, w.codeForm(w.code(t, changes...)))
}

func (w *world) token(t *testing.T, form url.Values) TokenResponse {
	t.Helper()
	r, err := w.svc.Token(t.Context(), form, "")
	if err != nil {
		t.Fatalf("token request refused: %v", err)
	}
	return r
}

// refused checks that a token request fails with a status and a code.
func (w *world) refused(t *testing.T, what string, form url.Values, status int, code string) {
	t.Helper()
	_, err := w.svc.Token(t.Context(), form, "")
	isRefusal(t, what, err, status, code)
}

func isRefusal(t *testing.T, what string, err error, status int, code string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Status != status || e.Code != code {
		t.Errorf("%s: got %v, want %d %s", what, err, status, code)
		return
	}
	if e.Description == "" || strings.ContainsAny(e.Description, "\"\\") {
		t.Errorf("%s: description %q", what, e.Description)
	}
}

// alive reports whether an access token is accepted.
func (w *world) alive(t *testing.T, access string) bool {
	t.Helper()
	_, err := w.svc.Authenticate(context.WithoutCancel(t.Context()), access)
	if err != nil && !errors.Is(err, ErrUnauthorized) {
		t.Fatalf("authenticate: %v", err)
	}
	return err == nil
}
