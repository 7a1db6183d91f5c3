package oauth

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

func TestApprovalAnswersWithCodeStateAndIssuer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, uri := range []string{callback, callback + "?tenant=1"} {
		r, err := w.svc.ParseAuthorize(t.Context(), w.db.Read(),
			w.authorizeQuery("redirect_uri", uri, "unknown", "ignored"))
		if err != nil {
			t.Fatal(err)
		}
		if r.Application.ID != w.app.ID || len(r.Scopes) != 7 || r.RedirectURI != uri {
			t.Errorf("request: %+v", r)
		}
		var target string
		w.tx(t, func(tx postgres.Tx) (err error) {
			target, err = w.svc.Approve(t.Context(), tx, r, w.client.ID, r.Scopes)
			return err
		})
		q := queryOf(t, target)
		if !strings.HasPrefix(target, uri) || q.Get("state") != state || q.Get("iss") != issuer ||
			len(q.Get("code")) < 43 {
			t.Errorf("redirect: %s", target)
		}
		if strings.Contains(target, "+") {
			t.Errorf("state is not readable by plain percent-decoding: %s", target)
		}
	}
}

func TestDenialEmptyConsentAndDisabledClientsAreAccessDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, err := w.svc.ParseAuthorize(t.Context(), w.db.Read(), w.authorizeQuery())
	if err != nil {
		t.Fatal(err)
	}
	targets := make([]string, 3)
	w.tx(t, func(tx postgres.Tx) (err error) {
		if targets[0], err = w.svc.Deny(t.Context(), tx, r, w.client.ID); err != nil {
			return err
		}
		if targets[1], err = w.svc.Approve(t.Context(), tx, r, w.client.ID, nil); err != nil {
			return err
		}
		if err = w.accounts.SetDisabled(t.Context(), tx, w.client.ID, true); err != nil {
			return err
		}
		targets[2], err = w.svc.Approve(t.Context(), tx, r, w.client.ID, r.Scopes)
		return err
	})
	for _, target := range targets {
		q := queryOf(t, target)
		if q.Get("error") != CodeAccessDenied || q.Get("state") != state || q.Get("iss") != issuer || q.Has("code") {
			t.Errorf("redirect: %s", target)
		}
	}
}

func TestConsentToPartGrantsThatPartOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, err := w.svc.ParseAuthorize(t.Context(), w.db.Read(), w.authorizeQuery("scope", "profile:read wallet:read"))
	if err != nil {
		t.Fatal(err)
	}
	var target string
	w.tx(t, func(tx postgres.Tx) (err error) {
		target, err = w.svc.Approve(t.Context(), tx, r, w.client.ID, []application.Scope{application.WalletRead})
		return err
	})
	if got := w.token(t, w.codeForm(queryOf(t, target).Get("code"))); got.Scope != "wallet:read" ||
		got.RefreshToken != "" {
		t.Errorf("granted: %+v", got)
	}
	err = w.db.InTx(t.Context(), func(tx postgres.Tx) error {
		_, err := w.svc.Approve(t.Context(), tx, r, w.client.ID, []application.Scope{application.NotesRead})
		return err
	})
	var page *PageError
	if !errors.As(err, &page) {
		t.Errorf("consent to more than was asked for: %v", err)
	}
}

// RFC 9700 section 4.11: an authorization server that redirects to any given URI is an open redirector.
func TestRedirectURIMustMatchExactly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, uri := range []string{
		"-", "http://localhost:3000", "http://localhost:3000/callback/", "http://localhost:3000/callback?",
		"http://localhost:3000/callback#", "http://localhost:3000/callback?x=1", "http://localhost:3000/Callback",
		"http://localhost:3001/callback", "https://localhost:3000/callback", "http://LOCALHOST:3000/callback",
		"http://localhost:3000/callback/../callback", "http://evil.localhost:3000/callback",
		"http://localhost:3000/call", "http://user@localhost:3000/callback", "http://localhost:3000/callback\x00",
		" http://localhost:3000/callback", "http://localhost:3000//callback", "http://localhost:3000/callback%20",
		"https://evil.example/callback", "javascript:alert(1)",
		"//localhost:3000/callback",
	} {
		isPage(t, w, "redirect_uri "+uri, w.authorizeQuery("redirect_uri", uri), PageRedirectMismatch)
	}
}

func TestUntrustworthyRequestsAreNeverRedirected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"-", "app_test_unknown", w.app.ID + " ", strings.ToUpper(w.app.ID), "\x00", "\xff",
		strings.Repeat("a", 1<<16), "' OR 1=1 --"} {
		isPage(t, w, "client_id", w.authorizeQuery("client_id", id), PageUnknownApplication)
	}
	for _, name := range []string{"client_id", "redirect_uri"} {
		q := w.authorizeQuery()
		q[name] = append(q[name], q[name][0])
		isPage(t, w, "two of "+name, q, PageMalformed)
	}
}

func isPage(t *testing.T, w *world, what string, q url.Values, code string) {
	t.Helper()
	_, err := w.svc.ParseAuthorize(t.Context(), w.db.Read(), q)
	var page *PageError
	if !errors.As(err, &page) || page.Code != code {
		t.Errorf("%.60q: got %v, want page %s", what, err, code)
	}
}

func TestAuthorizeFaultsAreToldToTheApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := challengeOf(verifier)
	for _, c := range []struct {
		name, value, want string
	}{
		{"response_type", "-", CodeInvalidRequest}, {"response_type", "token", CodeUnsupportedResponseType},
		{"response_type", "code token", CodeUnsupportedResponseType},
		{"scope", "-", CodeInvalidRequest}, {"scope", "profile:read admin", CodeInvalidScope},
		{"scope", "profile:read  wallet:read", CodeInvalidScope}, {"scope", "PROFILE:READ", CodeInvalidScope},
		{"scope", " ", CodeInvalidScope}, {"state", "-", CodeInvalidRequest}, {"state", "", CodeInvalidRequest},
		{"code_challenge", "-", CodeInvalidRequest}, {"code_challenge", good[:42], CodeInvalidRequest},
		{"code_challenge", good + "A", CodeInvalidRequest}, {"code_challenge", good[:42] + "=", CodeInvalidRequest},
		{"code_challenge", good[:42] + "+", CodeInvalidRequest}, {"code_challenge", good + "\n", CodeInvalidRequest},
		{"code_challenge_method", "-", CodeInvalidRequest}, {"code_challenge_method", "plain", CodeInvalidRequest},
		{"code_challenge_method", "s256", CodeInvalidRequest},
		{"response_mode", "fragment", CodeInvalidRequest},
	} {
		isRedirect(t, w, w.authorizeQuery(c.name, c.value), c.want, c.name != "state")
	}
	for _, name := range []string{"response_type", "scope", "state", "code_challenge", "code_challenge_method"} {
		q := w.authorizeQuery()
		q[name] = append(q[name], q[name][0])
		isRedirect(t, w, q, CodeInvalidRequest, name != "state")
	}
	isRedirect(t, w, w.authorizeQuery("client_id", w.other.ID), CodeInvalidScope, true) // requests more than it may
	w.tx(t, func(tx postgres.Tx) error { return w.applications.SetSuspended(t.Context(), tx, w.app.ID, true) })
	isRedirect(t, w, w.authorizeQuery(), CodeUnauthorizedClient, true)
}

func isRedirect(t *testing.T, w *world, q url.Values, code string, withState bool) {
	t.Helper()
	_, err := w.svc.ParseAuthorize(t.Context(), w.db.Read(), q)
	var r *RedirectError
	if !errors.As(err, &r) {
		t.Errorf("%v: got %v, want a redirect", q, err)
		return
	}
	got := queryOf(t, r.URL)
	if got.Get("error") != code || got.Get("iss") != issuer || got.Has("code") ||
		!strings.HasPrefix(r.URL, callback+"?") {
		t.Errorf("%v: redirect %s, want %s", q, r.URL, code)
	}
	if withState && got.Get("state") != state || !withState && got.Has("state") {
		t.Errorf("%v: state in %s", q, r.URL)
	}
}
