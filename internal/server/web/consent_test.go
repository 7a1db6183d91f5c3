package web

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"partnerd/internal/domain/application"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/shell"
)

const allScopes = "profile:read wallet:read wallet:topup consultations:read consultations:write notes:read offline_access"

func TestAuthorizeAsksToSignInAndComesBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser()
	p := b.get(f.authorizeURL("profile:read") + "&lang=fr")
	next := must(url.Parse(p.Header.Get("Location"))).Query().Get("next")
	p.wantRedirect(t, http.StatusFound, "/login?next="+url.QueryEscape(next))
	if next != f.authorizeURL("profile:read") {
		t.Errorf("next is %q", next)
	}
	b.get(p.Header.Get("Location")).want(t, 200, "Demo CRM demande l’accès à votre compte")
	for _, stranger := range []string{
		"", "?next=%2Faccount", "?next=" + url.QueryEscape("/api/oauth/authorize?client_id=app_unknown"),
		"?next=" + url.QueryEscape("/api/oauth/authorize?client_id=\x00"),
	} {
		if page := b.get("/login" + stranger); page.StatusCode != 200 ||
			strings.Contains(page.body, "demande l’accès") {
			t.Errorf("/login%s: %d", stranger, page.StatusCode)
		}
	}
	form := b.get(p.Header.Get("Location")).form("/login")
	form.Set("email", "client@example.com")
	form.Set("password", testPassword)
	p = b.post("/login", form)
	p.wantRedirect(t, http.StatusSeeOther, next)
	b.get(next).want(t, 200, `<html lang="fr">`, "Relier Demo CRM à votre compte")
}

func TestConsentPageShowsWhoAsksForWhat(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	p := b.get(f.authorizeURL(allScopes))
	p.want(t, 200, "Connect Demo CRM to your account?", "return to crm.example.",
		"signed in as Demo Client (client@example.com)", "€20.00 each", `name="decision" value="allow"`,
		`name="decision" value="deny"`)
	known := must(shell.LoadTexts())
	for _, s := range application.AllScopes {
		sentence, _, _ := strings.Cut(known["scope."+string(s)]["en"], "%s")
		p.want(t, 200, sentence)
		kind := "hidden"
		if oauth.MayRefuse(s) {
			kind = "checkbox"
		}
		p.want(t, 200, `<input type="`+kind+`" name="scope" value="`+string(s)+`"`)
	}
	if csp := p.Header.Get("Content-Security-Policy"); strings.Contains(csp, "form-action") {
		t.Errorf("the form cannot end at the application: %s", csp)
	}
	if p.form("/oauth/consent")["scope"] == nil || b.get(f.authorizeURL("notes:read")).form("/oauth/consent").
		Get("scope") != "notes:read" {
		t.Error("the form does not hold the scopes")
	}
	// "Not you?" signs out and returns to the same request.
	b.post("/logout", p.form("/logout")).wantRedirect(t, http.StatusSeeOther, f.authorizeURL(allScopes))
}

// answer submits the consent form for scopes, without the unticked ones, and returns its redirect.
func (f *fixture) answer(b *browser, scopes, decision string, unticked ...string) *url.URL {
	f.t.Helper()
	form := b.get(f.authorizeURL(scopes)).form("/oauth/consent")
	form["scope"] = slices.DeleteFunc(form["scope"], func(s string) bool { return slices.Contains(unticked, s) })
	form.Set("decision", decision)
	p := b.post("/oauth/consent", form)
	if p.StatusCode != http.StatusFound || p.Header.Get("Cache-Control") != "no-store" {
		f.t.Fatalf("status %d, Cache-Control %q\n%s", p.StatusCode, p.Header.Get("Cache-Control"), p.body)
	}
	u := must(url.Parse(p.Header.Get("Location")))
	if !strings.HasPrefix(u.String(), redirectURI+"?") || u.Query().Get("state") != "a b+c/é%20&x=1" ||
		u.Query().Get("iss") != f.base {
		f.t.Fatalf("redirected to %s", u)
	}
	return u
}

func (f *fixture) redeem(u *url.URL) oauth.TokenResponse {
	f.t.Helper()
	r, err := f.oauth.Token(f.t.Context(), url.Values{"grant_type": {"authorization_code"},
		"code": {u.Query().Get("code")}, "redirect_uri": {redirectURI},
		"code_verifier": {pkceVerifier}, "client_id": {f.app.ID}, "client_secret": {f.secret}}, "")
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func TestAllowGrantsWhatWasTicked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	if got := f.redeem(f.answer(b, allScopes, "allow")).Scope; got != allScopes {
		t.Errorf("granted %q", got)
	}
	got := f.redeem(f.answer(b, allScopes, "allow", "wallet:topup", "notes:read"))
	if got.Scope != "profile:read wallet:read consultations:read consultations:write offline_access" {
		t.Errorf("granted %q", got.Scope)
	}
	silent := b.get(f.authorizeURL("profile:read")) // allowed before
	if got := f.redeem(must(url.Parse(silent.Header.Get("Location")))); got.Scope != "profile:read" ||
		got.RefreshToken != "" {
		t.Errorf("granted %+v", got)
	}
}

func TestRefusalGoesBackWithAccessDenied(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	q := f.answer(f.browser().signIn("client@example.com"), allScopes, "deny").Query()
	if q.Get("error") != "access_denied" || q.Has("code") {
		t.Errorf("redirected with %v", q)
	}
}

func TestConsentCannotExceedTheRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	form := b.get(f.authorizeURL("profile:read")).form("/oauth/consent")
	form["scope"] = []string{"profile:read", "consultations:write"}
	form.Set("decision", "allow")
	p := b.post("/oauth/consent", form)
	if got := f.redeem(must(url.Parse(p.Header.Get("Location")))).Scope; got != "profile:read" {
		t.Errorf("granted %q", got)
	}
	form.Set("request", strings.Replace(form.Get("request"), "crm.example", "evil.example", 1))
	b.post("/oauth/consent", form).want(t, 400, "cannot be connected")
	form.Set("request", "%zz")
	b.post("/oauth/consent", form).want(t, 400)
	form = b.get(f.authorizeURL("profile:read", "prompt", "consent")).form("/oauth/consent")
	form.Set("decision", "perhaps")
	b.post("/oauth/consent", form).want(t, 400)
}

func TestConsentToNothingAsksAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	form := b.get(f.authorizeURL("notes:read wallet:topup")).form("/oauth/consent")
	form.Del("scope")
	form.Set("decision", "allow")
	p := b.post("/oauth/consent", form)
	p.want(t, 422, "Tick at least one box", `role="alert"`, "autofocus", "<title>Error:")
	if got := p.form("/oauth/consent")["scope"]; len(got) != 0 {
		t.Errorf("ticked again: %v", got)
	}
}

func TestConsentNeedsThisBrowsersSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.newClient("other@example.com", "Other Client")
	b, other := f.browser().signIn("client@example.com"), f.browser().signIn("other@example.com")
	form := b.get(f.authorizeURL("profile:read")).form("/oauth/consent")
	form.Set("decision", "allow")
	other.post("/oauth/consent", form).want(t, http.StatusForbidden)
	f.browser().post("/oauth/consent", form).wantRedirect(t, http.StatusFound,
		"/login?next="+url.QueryEscape(f.authorizeURL("profile:read")))
	b.header.Set("Sec-Fetch-Site", "cross-site")
	b.post("/oauth/consent", form).want(t, http.StatusForbidden)
	b.header.Set("Sec-Fetch-Site", "same-origin")
	b.post("/oauth/consent", form).want(t, http.StatusFound)
}

// An untrusted URL is never redirected to. Every other error is reported there (traps T18, T19).
func TestFaultyAuthorizeRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, b := range []*browser{f.browser(), f.browser().signIn("client@example.com")} {
		for _, change := range [][]string{
			{"client_id", "app_unknown"}, {"client_id", ""}, {"client_id", "a\x00b"}, {"client_id", "\xff"},
			{"redirect_uri", ""}, {"redirect_uri", redirectURI + "/"}, {"redirect_uri", "https://evil.example/"},
			{"redirect_uri", "javascript:alert(1)"},
		} {
			p := b.get(f.authorizeURL("profile:read", change...))
			p.want(t, 400, "This application cannot be connected", "For the developer")
			if p.Header.Get("Location") != "" || !strings.HasPrefix(p.Header.Get("Content-Type"), "text/html") {
				t.Errorf("%v: %v", change, p.Header)
			}
		}
		broken := b.get(f.authorizeURL("profile:read") + "&x=%zz")
		broken.want(t, 400, "This application cannot be connected", "not well-formed")
		p := b.get(strings.Replace(f.authorizeURL("all"), "state=", "state=a;b", 1)) // as some callers build it
		if state := must(url.Parse(p.Header.Get("Location"))).Query().Get("state"); !strings.HasPrefix(state, "a;b") {
			t.Errorf("state came back as %q", state)
		}
		for want, change := range map[string][]string{
			"unsupported_response_type": {"response_type", "token"}, "invalid_scope": {"scope", "all"},
			"invalid_request": {"code_challenge_method", "plain"},
		} {
			p := b.get(f.authorizeURL("profile:read", change...))
			u := must(url.Parse(p.Header.Get("Location")))
			if p.StatusCode != http.StatusFound || u.Host != "crm.example" || u.Query().Get("error") != want {
				t.Errorf("%v: %d to %s", change, p.StatusCode, u)
			}
		}
	}
}

func TestAuthorizeWithoutDatabaseIsAPageOfOurs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.db.Close()
	f.browser().get(f.authorizeURL("profile:read")).want(t, 500, "Something went wrong on our side")
}

// If the page of a form restricts form-action, Chromium blocks all later redirects, even those after the application's
// redirect URI.
func TestOnlyPagesThatLeadToAnApplicationLetFormsLeave(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	next := "?next=" + url.QueryEscape(f.authorizeURL("profile:read"))
	for path, leave := range map[string]bool{
		"/login": false, "/login?next=%2Faccount": false, "/signup": false, "/login" + next: true,
	} {
		if csp := f.browser().get(path).Header.Get("Content-Security-Policy"); strings.Contains(csp,
			"form-action") == leave || !strings.Contains(csp, "default-src 'none'") {
			t.Errorf("%s: %s", path, csp)
		}
	}
}

func TestDisconnectTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	token := f.redeem(f.answer(b, allScopes, "allow"))
	if _, err := f.oauth.Authenticate(t.Context(), token.AccessToken); err != nil {
		t.Fatal(err)
	}
	p := b.get("/account/apps")
	p.want(t, 200, "Demo CRM", "Connected since", "1 June 2026", "already under way continue", "€20.00 each",
		"Consultations started", "Spent via this application")
	action := "/account/apps/" + f.app.ID + "/disconnect"
	form := p.form(action)

	other := f.browser().signIn(f.newClient("other@example.com", "Other Client").Email)
	other.post(action, form).want(t, http.StatusForbidden)
	other.get("/account/apps").want(t, 200, "No application is connected")
	other.post(action, other.get("/account/apps").form("/logout")).wantRedirect(t, http.StatusSeeOther,
		"/account/apps?done=app")
	if _, err := f.oauth.Authenticate(t.Context(), token.AccessToken); err != nil {
		t.Fatalf("somebody else's disconnect ended the session: %v", err)
	}

	b.post(action, form).wantRedirect(t, http.StatusSeeOther, "/account/apps?done=app")
	b.get("/account/apps?done=app").want(t, 200, `role="status"`, "The application was disconnected",
		"No application is connected")
	if _, err := f.oauth.Authenticate(t.Context(), token.AccessToken); !errors.Is(err, oauth.ErrUnauthorized) {
		t.Errorf("the access token still works: %v", err)
	}
	b.post("/account/apps/%00/disconnect", form).want(t, http.StatusNotFound)
	f.browser().post(action, form).wantRedirect(t, http.StatusFound, "/login?next=%2Faccount%2Fapps")
}

func TestTheAccountPageShowsTheWallet(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.tx(func(tx postgres.Tx) {
		if err := f.wallet.Adjust(t.Context(), tx, f.client.ID, 123456, "gift"); err != nil {
			t.Fatal(err)
		}
	})
	b := f.browser().signIn("client@example.com")
	b.get("/account").want(t, 200, "€1234.56")
	b.get("/account?lang=fr").want(t, 200, "1234,56\u00a0€")
}

// Consent is remembered for the redirect URI to which it was given. Adding another URI to the application yields no
// code there from a linked client, only the consent page.
func TestAnotherRedirectURIIsAskedForAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	f.redeem(f.answer(b, allScopes, "allow"))
	if p := b.get(f.authorizeURL("profile:read")); p.StatusCode != http.StatusFound {
		t.Fatalf("the same redirect URI is asked for again: %d", p.StatusCode)
	}
	f.tx(func(tx postgres.Tx) {
		_, _, err := f.apps.Update(t.Context(), tx, f.app.ID,
			application.Change{RedirectURIs: []string{redirectURI, "https://evil.example/take"}}, false)
		if err != nil {
			t.Fatal(err)
		}
	})
	b.get(f.authorizeURL("profile:read", "redirect_uri", "https://evil.example/take")).
		want(t, http.StatusOK, "evil.example")
	if p := b.get(f.authorizeURL("profile:read")); p.StatusCode != http.StatusFound {
		t.Errorf("the old one is asked for again: %d", p.StatusCode)
	}
}
