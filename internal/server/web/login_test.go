package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/shell"
)

func TestNextStaysOnThisSite(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"/account/apps":                "/account/apps",
		"/api/oauth/authorize?a=b&c=":  "/api/oauth/authorize?a=b&c=",
		"/checkout/x?y=%2F%2Fz":        "/checkout/x?y=%2F%2Fz",
		"":                             "/account",
		"account":                      "/account",
		"//evil.example":               "/account",
		"///evil.example":              "/account",
		`/\evil.example`:               "/account",
		`/a\b`:                         "/account",
		"/\t/evil.example":             "/account",
		"/\n/evil.example":             "/account",
		"/x\r\nSet-Cookie: a=b":        "/account",
		"https://evil.example/":        "/account",
		"javascript:alert(1)":          "/account",
		"/%zz":                         "/account",
		"/.//evil.example/login":       "/account",
		"/%2e%2e//evil.example":        "/account",
		"/a/..//evil.example":          "/account",
		"/account//evil":               "/account",
		"/":                            "/",
		"/account/":                    "/account/",
		"/" + strings.Repeat("a", 1e4): "/account",
	} {
		if got := shell.SafeNext(raw); got != want {
			t.Errorf("%q becomes %q, want %q", raw, got, want)
		}
	}
}

func TestSignInLeadsToNextUnderANewSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser()
	b.get("/account/apps").wantRedirect(t, http.StatusFound, "/login?next=%2Faccount%2Fapps")
	login := func(next string) string {
		form := b.get("/login?next=" + url.QueryEscape(next)).form("/login")
		form.Set("email", " CLIENT@example.com ")
		form.Set("password", testPassword)
		p := b.post("/login", form)
		p.wantRedirect(t, http.StatusSeeOther, shell.SafeNext(next))
		for _, k := range p.Cookies() {
			if k.Name == shell.SessionCookie && (!k.HttpOnly || k.Secure || k.SameSite != http.SameSiteLaxMode ||
				k.Path != "/" || k.MaxAge != 0) {
				t.Errorf("session cookie: %s", k)
			}
		}
		return b.cookie(shell.SessionCookie)
	}
	before := b.get("/login").Cookies()
	first := login("/account/apps")
	for _, k := range before {
		if k.Value == first {
			t.Error("the session has a name that existed before the sign-in")
		}
	}
	b.get("/account/apps").want(t, 200, "Signed in as Demo Client", "No application is connected")
	b.get("/account").want(t, 200, "Hello Demo Client")
	b.get("/login?next=//evil.example").wantRedirect(t, http.StatusFound, "/account")

	// Signing out ends the session itself, not only the cookie.
	b.post("/logout", b.get("/account/apps").form("/logout")).wantRedirect(t, http.StatusSeeOther, "/")
	if b.cookie(shell.SessionCookie) != "" {
		t.Error("the cookie is still there")
	}
	b.header.Set("Cookie", shell.SessionCookie+"="+first)
	b.get("/account/apps").wantRedirect(t, http.StatusFound, "/login?next=%2Faccount%2Fapps")
	b.header.Del("Cookie")
	if second := login("//evil.example"); second == first || second == "" {
		t.Error("the session name was used again")
	}
}

func TestAnOlderSessionOfTheBrowserEndsWithANewSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	old := b.cookie(shell.SessionCookie)
	form := url.Values{"csrf": {shell.CSRFToken(old)}, "email": {"client@example.com"}, "password": {testPassword}}
	b.post("/login", form).wantRedirect(t, http.StatusSeeOther, "/account")
	if b.cookie(shell.SessionCookie) == old {
		t.Fatal("the session was not renewed")
	}
	other := f.browser()
	other.header.Set("Cookie", shell.SessionCookie+"="+old)
	other.get("/account/apps").wantRedirect(t, http.StatusFound, "/login?next=%2Faccount%2Fapps")
}

func TestAnExpiredSessionLeadsBackToSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	f.clock.Advance(12*time.Hour + time.Second)
	b.get("/account/apps").wantRedirect(t, http.StatusFound, "/login?next=%2Faccount%2Fapps")
	b.signIn("client@example.com").get("/account/apps").want(t, 200)
}

func TestADisabledClientIsSignedOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	f.tx(func(tx postgres.Tx) {
		if err := f.accounts.SetDisabled(t.Context(), tx, f.client.ID, true); err != nil {
			t.Fatal(err)
		}
	})
	b.get("/account/apps").wantRedirect(t, http.StatusFound, "/login?next=%2Faccount%2Fapps")
}

// TestADisabledClientWhoKnowsThePasswordIsToldSo also checks the email in their language. A caller without the password
// learns nothing.
func TestADisabledClientWhoKnowsThePasswordIsToldSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t).work()
	b := f.browser()
	b.header.Set("Accept-Language", "fr")
	b.signIn("client@example.com")
	f.letter("client@example.com", "Alerte de sécurité")
	if err := f.operators.DisableClient(t.Context(), operator.Act{Actor: "stf_1", Reason: "abuse"},
		f.client.ID); err != nil {
		t.Fatal(err)
	}
	if m := f.letter("client@example.com", "Votre compte a été désactivé"); !strings.Contains(m.Text,
		"L’argent de votre portefeuille vous appartient toujours") ||
		!strings.Contains(m.Text, "l’entreprise dont l’application") {
		t.Errorf("mail: %s", m.Text)
	}
	send := func(email, password string) page {
		return f.browser().send("/login", "/login", "email", email, "password", password)
	}
	p := send("client@example.com", testPassword)
	p.want(t, http.StatusForbidden, "Your account is disabled", "your account was disabled",
		"Ask the company whose application")
	send("client@example.com", "wrong").want(t, http.StatusUnprocessableEntity, "password is incorrect")
	send("nobody@example.com", testPassword).want(t, http.StatusUnprocessableEntity, "password is incorrect")
	if err := f.operators.EnableClient(t.Context(), operator.Act{Actor: "stf_1", Reason: "cleared"},
		f.client.ID); err != nil {
		t.Fatal(err)
	}
	f.letter("client@example.com", "est réactivé")
}

// TestMailsComeInTheClientsOwnLanguage holds whatever the language of the browser that caused them.
func TestMailsComeInTheClientsOwnLanguage(t *testing.T) {
	t.Parallel()
	f := newFixture(t).work()
	f.browser().signIn("client@example.com")
	f.letter("client@example.com", "Security alert")
	strange := f.browser()
	strange.header.Set("Accept-Language", "fr")
	strange.send("/password/forgot", "/password/forgot", "email", "client@example.com").want(t, 200)
	f.letter("client@example.com", "Choose a new password")
	strange.signIn("client@example.com")
	f.letter("client@example.com", "Security alert")
	strange.get("/account?lang=fr").want(t, 200) // the client's choice
	f.browser().send("/password/forgot", "/password/forgot", "email", "client@example.com").want(t, 200)
	f.letter("client@example.com", "Choisissez un nouveau mot de passe")
}

// TestMoneyOfADisabledClientGoesBack checks that it is refunded to its source, however old the top-up is.
func TestMoneyOfADisabledClientGoesBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	paid := f.newCheckout(3000)
	f.tx(func(tx postgres.Tx) {
		if err := f.provider.Pay(t.Context(), tx, paid.ID); err != nil {
			t.Fatal(err)
		}
	})
	f.report(paid)
	f.clock.Advance(100 * 24 * time.Hour)
	if err := f.operators.DisableClient(t.Context(), operator.Act{Actor: "stf_1", Reason: "abuse"},
		f.client.ID); err != nil {
		t.Fatal(err)
	}
	w := f.operator(staff.Finance)
	at := "/ops/clients/" + f.client.ID + "/return"
	w.send(at, at, "reason", "asked for it")
	if got := f.balance(); got != 0 {
		t.Errorf("the wallet still has %d", got)
	}
	if open, err := f.payments.Returning(t.Context(), f.db.Read(), f.client.ID); err != nil || len(open) != 1 ||
		open[0].Amount != 3000 {
		t.Errorf("on its way: %+v %v", open, err)
	}
	w.send(at, at, "reason", "again").want(t, http.StatusUnprocessableEntity,
		"The wallet holds no unused money from top-ups")
}

func TestRefusedSignInTellsNothingAboutTheAccount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	texts := map[string]bool{}
	for _, email := range []string{"client@example.com", "nobody@example.com"} {
		b := f.browser()
		form := b.get("/login").form("/login")
		form.Set("email", email)
		form.Set("password", "wrong")
		p := b.post("/login", form)
		p.want(t, http.StatusUnprocessableEntity, `role="alert"`, `aria-invalid="true"`, "autofocus",
			"<title>Error: sign in")
		texts[strings.NewReplacer(email, "", p.form("/login").Get("csrf"), "").Replace(p.body)] = true
		if strings.Contains(p.body, "wrong") {
			t.Error("the password is on the page")
		}
		if b.cookie(shell.SessionCookie) != "" {
			t.Error("signed in")
		}
	}
	if len(texts) != 1 {
		t.Error("the page tells whether the account exists")
	}
}

func TestSignInNamesTheEmptyField(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser()
	form := b.get("/login").form("/login")
	b.post("/login", form).want(t, 422, `aria-describedby="email-fault" autofocus`, "Enter your email address.",
		"Enter your password.")
	form.Set("email", "client@example.com")
	b.post("/login", form).want(t, 422, `aria-describedby="password-fault" autofocus`, `value="client@example.com"`)
}

// Login CSRF: another site must not be able to sign a visitor in.
func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	victim, attacker := f.browser(), f.browser()
	form := attacker.get("/login").form("/login")
	form.Set("email", "client@example.com")
	form.Set("password", testPassword)
	victim.get("/login")
	victim.post("/login", form).want(t, http.StatusForbidden, "Allow cookies and try again")
	f.browser().post("/login", form).want(t, http.StatusForbidden)

	own := victim.get("/login").form("/login")
	own.Set("email", "client@example.com")
	own.Set("password", testPassword)
	for name, value := range map[string]string{
		"Sec-Fetch-Site": "cross-site", "Origin": "https" + strings.TrimPrefix(f.base, "http"),
	} {
		victim.header.Set(name, value)
		victim.post("/login", own).want(t, http.StatusForbidden, "This form is no longer valid")
		victim.header.Del(name)
	}
	victim.header.Set("Origin", f.base)
	victim.post("/login", own).wantRedirect(t, http.StatusSeeOther, "/account")

	// Another site cannot sign the visitor out either.
	victim.post("/logout", url.Values{"csrf": {form.Get("csrf")}}).want(t, http.StatusForbidden)
	victim.get("/account/apps").want(t, 200)
}

func TestSignInIsThrottledPerAccountAndPerAddress(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(d *services) { d.LoginPerAccount, d.LoginPerAddress = 2, 5 })
	try := func(email string) page {
		b := f.browser()
		form := b.get("/login").form("/login")
		form.Set("email", email)
		form.Set("password", testPassword)
		return b.post("/login", form)
	}
	for range 2 {
		try("nobody@example.com").want(t, 422)
	}
	p := try("NOBODY@example.com")
	p.want(t, http.StatusTooManyRequests, "Too many attempts", "30 seconds")
	if p.Header.Get("Retry-After") != "30" {
		t.Errorf("Retry-After: %q", p.Header.Get("Retry-After"))
	}
	for range 6 { // signing in is not guessing
		try("client@example.com").want(t, http.StatusSeeOther)
	}
	try("third@example.com").want(t, 422)
	try("fourth@example.com").want(t, 422)
	try("client@example.com").want(t, http.StatusTooManyRequests) // the limit of the address is reached
	f.clock.Advance(time.Minute)
	try("client@example.com").want(t, http.StatusSeeOther)
}
