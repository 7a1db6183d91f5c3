package oauth

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

func TestCodeAndRefreshGiveTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t)
	if got.TokenType != "Bearer" || got.ExpiresIn != 900 ||
		got.Scope != application.FormatScopes(application.AllScopes) || got.RefreshTokenExpiresIn != 90*24*3600 {
		t.Errorf("answer: %+v", got)
	}
	seen := map[string]bool{got.RefreshToken: true, got.AccessToken: true}
	for range 3 { // each refresh token is new, and the newest always works
		next := w.token(t, w.refreshForm(got.RefreshToken))
		if seen[next.RefreshToken] || seen[next.AccessToken] || !w.alive(t, next.AccessToken) ||
			!w.alive(t, got.AccessToken) {
			t.Fatalf("refresh: %+v", next)
		}
		seen[next.RefreshToken], seen[next.AccessToken] = true, true
		got = next
	}
}

func TestTokenFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		name, value string
		status      int
		code        string
	}{
		{"grant_type", "-", 400, CodeInvalidRequest}, {"grant_type", "refresh", 400, CodeInvalidRequest},
		{"client_id", "-", 400, CodeInvalidRequest}, {"client_id", "app_test_unknown", 401, CodeInvalidClient},
		{"client_secret", "-", 401, CodeInvalidClient}, {"client_secret", "wrong", 401, CodeInvalidClient},
		{"client_secret", w.otherSecret, 401, CodeInvalidClient}, {"code", "-", 400, CodeInvalidRequest},
		{"code", "unknown", 400, CodeInvalidGrant}, {"redirect_uri", "-", 400, CodeInvalidRequest},
		{"redirect_uri", callback + "?tenant=1", 400, CodeInvalidGrant},
		{"redirect_uri", "https://evil.example/", 400, CodeInvalidGrant}, {"redirect_uri", "::", 400, CodeInvalidGrant},
		{"code_verifier", "-", 400, CodeInvalidRequest}, {"code_verifier", strings.Repeat("a", 43), 400,
			CodeInvalidGrant},
		{"code_verifier", "short", 400, CodeInvalidGrant}, {"code_verifier", verifier + "=", 400, CodeInvalidGrant},
		{"code_verifier", strings.Repeat("a", 129), 400, CodeInvalidGrant}, {"code_verifier", challengeOf(verifier),
			400, CodeInvalidGrant},
	} {
		code := w.code(t)
		w.refused(t, c.name+"="+c.value, w.codeForm(code, c.name, c.value), c.status, c.code)
		w.token(t, w.codeForm(code)) // a refused request has consumed nothing
	}
	w.refused(t, "empty form", url.Values{}, 400, CodeInvalidRequest)
	w.refused(t, "no refresh token", w.refreshForm("", "refresh_token", "-"), 400, CodeInvalidRequest)
	w.refused(t, "unknown refresh token", w.refreshForm("rt_unknown"), 400, CodeInvalidGrant)
	tokens := w.link(t)
	w.refused(t, "access token as refresh token", w.refreshForm(tokens.AccessToken), 400, CodeInvalidGrant)
	w.refused(t, "refresh token as code", w.codeForm(tokens.RefreshToken), 400, CodeInvalidGrant)
}

func TestOtherGrantTypesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, grantType := range []string{
		"client_credentials", "password", "implicit", "__implicit", "urn:ietf:params:oauth:grant-type:token-exchange",
	} {
		w.refused(t, grantType, w.codeForm("x", "grant_type", grantType, "username", "client@example.com",
			"password", "a long password"), 400, CodeInvalidRequest)
	}
}

func TestPKCEIsRequiredAtTheTokenEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refused(t, "no verifier", w.codeForm(w.code(t), "code_verifier", "-"), 400, CodeInvalidRequest)
	long := strings.Repeat("aZ09-._~", 16) // 128 characters of every kind
	w.token(t, w.codeForm(w.code(t, "code_challenge", challengeOf(long)), "code_verifier", long))
	// An attacker who replaces the challenge with the verifier itself (plain) does not succeed.
	w.refused(t, "plain", w.codeForm(w.code(t, "code_challenge", verifier), "code_verifier", verifier), 400,
		CodeInvalidGrant)
}

func TestCodeLivesFiveMinutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	early, late := w.code(t), w.code(t)
	w.clk.Advance(CodeLifetime - time.Microsecond)
	w.token(t, w.codeForm(early))
	w.clk.Advance(time.Microsecond)
	w.refused(t, "after five minutes", w.codeForm(late), 400, CodeInvalidGrant)
}

func TestCodeBelongsToItsApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := w.code(t)
	w.refused(t, "another application", w.codeForm(code, "client_id", w.other.ID, "client_secret", w.otherSecret), 400,
		CodeInvalidGrant)
	w.token(t, w.codeForm(code))
}

// An application's people learn why one of their codes or tokens was refused, and nothing about those of another
// application.
func TestARefusalOfAGrantSaysWhyToTheApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	why := func(form url.Values, parameter, text string) {
		t.Helper()
		_, err := w.svc.Token(t.Context(), form, "")
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeInvalidGrant || e.Fault.Parameter != parameter ||
			!strings.Contains(e.Fault.Why, text) || strings.Contains(e.Description, e.Fault.Why) {
			t.Errorf("%s %q: %+v", parameter, text, e)
		}
	}
	code := w.code(t)
	why(w.codeForm(code, "client_id", w.other.ID, "client_secret", w.otherSecret), "code", "unknown")
	why(w.codeForm("cod_nothing"), "code", "unknown")
	why(w.codeForm(code, "redirect_uri", "https://elsewhere.example/"), "redirect_uri", "not registered")
	why(w.codeForm(code, "code_verifier", strings.Repeat("x", 43)), "code_verifier", "code_challenge")
	got := w.token(t, w.codeForm(code))
	why(w.refreshForm("rt_nothing"), "refresh_token", "unknown")
	why(w.refreshForm(got.RefreshToken, "client_id", w.other.ID, "client_secret", w.otherSecret), "refresh_token",
		"unknown")
	next := w.token(t, w.refreshForm(got.RefreshToken))
	why(w.refreshForm(got.RefreshToken), "refresh_token", "already used")
	why(w.refreshForm(next.RefreshToken), "refresh_token", "ended")
	late := w.code(t)
	why(w.codeForm(code), "code", "already used")
	w.clk.Advance(CodeLifetime)
	why(w.codeForm(late), "code", "expired")
}

func TestRefreshTokenNeedsOfflineAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t, "scope", "wallet:read profile:read")
	if got.RefreshToken != "" || got.RefreshTokenExpiresIn != 0 || got.Scope != "profile:read wallet:read" ||
		!w.alive(t, got.AccessToken) {
		t.Errorf("answer: %+v", got)
	}
	if only := w.link(t, "scope", "offline_access"); only.RefreshToken == "" {
		t.Error("offline_access alone gives no refresh token")
	}
}

func TestRefreshTokenLivesNinetyDaysSinceTheLastRefresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t)
	for range 3 {
		w.clk.Advance(RefreshTokenLifetime - time.Second)
		got = w.token(t, w.refreshForm(got.RefreshToken))
	}
	w.clk.Advance(RefreshTokenLifetime)
	w.refused(t, "after ninety days", w.refreshForm(got.RefreshToken), 400, CodeInvalidGrant)
}

// A stolen refresh token is useless without the secret of its application, and trying it has no effect.
func TestRefreshNeedsTheApplicationsOwnSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t)
	w.refused(t, "no secret", w.refreshForm(got.RefreshToken, "client_secret", "-"), 401, CodeInvalidClient)
	w.refused(t, "empty secret", w.refreshForm(got.RefreshToken, "client_secret", ""), 401, CodeInvalidClient)
	w.refused(t, "wrong secret", w.refreshForm(got.RefreshToken, "client_secret", w.secret+"x"), 401, CodeInvalidClient)
	w.refused(t, "another application", w.refreshForm(got.RefreshToken, "client_id", w.other.ID,
		"client_secret", w.otherSecret), 400, CodeInvalidGrant)
	if !w.alive(t, got.AccessToken) {
		t.Error("a failed attempt ended the session")
	}
	w.token(t, w.refreshForm(got.RefreshToken))
}

func TestRefreshMayNarrowAndNeverWiden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t, "scope", "profile:read wallet:read offline_access")
	for _, scope := range []string{"profile:read notes:read", "notes:read", "unknown", "profile:read  wallet:read"} {
		w.refused(t, scope, w.refreshForm(got.RefreshToken, "scope", scope), 400, CodeInvalidRequest)
	}
	narrow := w.token(t, w.refreshForm(got.RefreshToken, "scope", "wallet:read"))
	p, err := w.svc.Authenticate(t.Context(), narrow.AccessToken)
	if err != nil || narrow.Scope != "wallet:read" || !p.Has(application.WalletRead) || p.Has(application.ProfileRead) {
		t.Errorf("narrowed: %+v %+v %v", narrow, p, err)
	}
	full := w.token(t, w.refreshForm(narrow.RefreshToken))
	if full.Scope != "profile:read wallet:read offline_access" {
		t.Errorf("the refresh token lost scopes: %q", full.Scope)
	}
}

// Resuming a suspended application restores its grants. Grants that were open when a client was disabled stay ended.
func TestSuspensionStopsCodesRefreshesAndAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got, code := w.link(t), w.code(t)
	suspend := func(off bool) {
		w.tx(t, func(tx postgres.Tx) error { return w.applications.SetSuspended(t.Context(), tx, w.app.ID, off) })
	}
	stopped := func(what string, status int, answer string) {
		t.Helper()
		w.refused(t, what+": code", w.codeForm(code), status, answer)
		w.refused(t, what+": refresh", w.refreshForm(got.RefreshToken), status, answer)
		if w.alive(t, got.AccessToken) {
			t.Errorf("%s: the access token is accepted", what)
		}
	}
	suspend(true)
	stopped("application suspended", 401, CodeInvalidClient) // after invalid_grant, partners discard their tokens
	suspend(false)
	if !w.alive(t, got.AccessToken) {
		t.Error("suspended and let in again: the access token is refused")
	}
	got = w.token(t, w.refreshForm(got.RefreshToken))
	w.disable(t, true)
	stopped("client disabled", 400, CodeInvalidGrant)
	w.disable(t, false)
	stopped("client disabled and enabled again", 400, CodeInvalidGrant)
	if scopes, err := w.svc.Remembered(t.Context(), w.db.Read(), w.client.ID, w.app.ID,
		w.app.RedirectURIs[0]); len(scopes) != 0 || err != nil {
		t.Errorf("remembered %v %v", scopes, err)
	}
}

// disable disables or enables the client as an operator does.
func (w *world) disable(t *testing.T, disabled bool) {
	t.Helper()
	w.tx(t, func(tx postgres.Tx) error {
		err := w.accounts.SetDisabled(t.Context(), tx, w.client.ID, disabled)
		if err == nil && disabled {
			_, err = w.svc.UnlinkAll(t.Context(), tx, w.client.ID, ReasonOperator)
		}
		return err
	})
}

func TestPreviousSecretWorksDuringTheOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t)
	var fresh string
	w.tx(t, func(tx postgres.Tx) (err error) {
		fresh, _, err = w.applications.RotateSecret(t.Context(), tx, w.app.ID,
			application.Rotation{Overlap: application.SecretOverlap})
		return err
	})
	got = w.token(t, w.refreshForm(got.RefreshToken))
	got = w.token(t, w.refreshForm(got.RefreshToken, "client_secret", fresh))
	w.clk.Advance(application.SecretOverlap)
	w.refused(t, "previous secret", w.refreshForm(got.RefreshToken), 401, CodeInvalidClient)
	w.token(t, w.refreshForm(got.RefreshToken, "client_secret", fresh))
}

// A scope taken from an application also disappears from grants made earlier.
func TestScopesTakenFromAnApplicationEndAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t)
	update := func(scopes ...application.Scope) {
		w.tx(t, func(tx postgres.Tx) error {
			_, _, err := w.applications.Update(t.Context(), tx, w.app.ID, application.Change{Scopes: scopes}, false)
			return err
		})
	}
	update(application.ProfileRead, application.OfflineAccess)
	p, err := w.svc.Authenticate(t.Context(), got.AccessToken)
	if err != nil || !p.Has(application.ProfileRead) || p.Has(application.WalletTopUp) {
		t.Errorf("principal: %+v %v", p, err)
	}
	w.refused(t, "ask for what was taken", w.refreshForm(got.RefreshToken, "scope", "wallet:topup"), 400,
		CodeInvalidRequest)
	got = w.token(t, w.refreshForm(got.RefreshToken))
	if got.Scope != "profile:read offline_access" {
		t.Errorf("scope after the change: %q", got.Scope)
	}
	update(application.ProfileRead)
	if last := w.token(t, w.refreshForm(got.RefreshToken)); last.RefreshToken != "" || last.Scope != "profile:read" {
		t.Errorf("without offline_access: %+v", last)
	}
	other := w.code(t, "scope", "profile:read")
	update(application.WalletRead)
	w.refused(t, "nothing left", w.codeForm(other), 400, CodeInvalidGrant)
	update(application.AllScopes...)
	if full := w.token(t, w.codeForm(other)); full.Scope != "profile:read" {
		t.Errorf("a refused code was consumed or its grant changed: %+v", full)
	}
}
