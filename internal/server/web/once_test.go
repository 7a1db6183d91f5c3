package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/clients"
	"partnerd/internal/server/web/developers"
	"partnerd/internal/server/web/lawyers"
	"partnerd/internal/server/web/shell"
)

// Why a form can be sent twice without harm, where the test below does not send it twice.
var repeatable = map[string]string{
	"/login/passkey": "as /login; it spends its challenge",
	"/oauth/consent": "a second code replaces nothing; the same code twice would " +
		"end the connection",
	"/checkout/:id":                         "the first decision stands",
	"/email/undo":                           "as /password/reset",
	"/account/privacy/return":               "that nothing is left to send back is no refusal",
	"/account/privacy/erase":                "the session ends with the account, and nothing is kept of it",
	"/staff/login/passkey":                  "as /staff/login; it spends its challenge",
	"/staff/security/passkeys":              "spends its challenge",
	"/staff/security/passkeys/:id/remove":   "removes by an identifier",
	"/account/security/passkeys":            "spends its challenge",
	"/account/security/passkeys/:id/remove": "removes by an identifier",
	"/desk/copies/:id":                      "a copy is taken once",
	lawyers.KeyChangePage:                   "sets the key",
	"/account/phone/code":                   "see TestCodesAndLinksSentTwiceAnswerTheSame",
	clients.EmailFormAddress + "/confirm":   "see TestCodesAndLinksSentTwiceAnswerTheSame",
}

// signingIn lists the forms that sign in or out. TestWhatSignsInSentTwiceAnswersTheSame sends them twice.
var signingIn = []string{"/login", "/logout", "/signup/confirm", "/password/reset", "/staff/login", "/staff/login/code",
	"/staff/login/factor", "/staff/logout", "/staff/invitation", "/staff/password/reset", "/developers/join"}

// pressed lists the forms of the desk. Their tests send them twice, see [browser.press].
var pressed = []string{"/desk/duty", "/desk/offers/:id/accept", "/desk/offers/:id/decline", "/desk/callbacks/:id/claim",
	"/desk/consultations/:id/call", "/desk/consultations/:id/restart", "/desk/consultations/:id/end",
	"/desk/consultations/:id/withdraw", "/desk/consultations/:id/useless", "/desk/consultations/:id/choice",
	"/desk/consultations/:id/draft", "/desk/consultations/:id/note", shell.KeyPage + "/remove"}

// sendsTwice sends a form twice. The second time has no effect and gets the first response.
func (f *fixture) sendsTwice(b *browser, path string, form url.Values) {
	f.t.Helper()
	if len(form) == 0 {
		f.t.Fatalf("there is no form for %s", path)
	}
	first := b.post(path, form)
	if first.StatusCode != http.StatusSeeOther && first.StatusCode != http.StatusOK {
		f.t.Fatalf("%s: %d %s", path, first.StatusCode, first.body)
	}
	before := f.state()
	again := b.post(path, form)
	if again.StatusCode != first.StatusCode || again.Header.Get("Location") != first.Header.Get("Location") ||
		again.body != first.body {
		f.t.Errorf("%s: %d to %q, then %d to %q", path, first.StatusCode, first.Header.Get("Location"),
			again.StatusCode, again.Header.Get("Location"))
	}
	f.unchanged(before, path+", sent again,")
}

// Every form of every page that is sent twice takes effect once. A new page fails this test until it is listed here.
func TestEveryFormSentTwiceIsDoneOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous)
	b, w := f.browser().signIn(f.client.Email), f.operator(staff.Admin)
	f.browser().signIn(f.client.Email)
	f.redeem(f.answer(b, "profile:read", "allow"))
	one := f.start()
	two := f.start()
	paid := f.newCheckout(5000)
	f.tx(func(tx postgres.Tx) {
		if err := f.provider.Pay(t.Context(), tx, paid.ID); err != nil {
			t.Fatal(err)
		}
	})
	f.report(paid)
	open := f.newCheckout(2000)
	elsewhere := func() string {
		list := must(f.accounts.Sessions(t.Context(), f.db.Read(), f.client.ID, b.cookie(shell.SessionCookie)))
		for _, s := range list {
			if !s.Current {
				return s.ID
			}
		}
		t.Fatal("there is no other session")
		return ""
	}
	client := func(path, page string, values ...string) func() {
		return func() { f.sendsTwice(b, path, filled(b.get(page).form(path), values...)) }
	}
	visitor := func(path string, values ...string) func() {
		return func() {
			v := f.browser()
			f.sendsTwice(v, path, filled(v.get(path).form(path), values...))
		}
	}
	worker := func(path string, values ...string) func() {
		return func() { f.sendsTwice(w.browser, path, filled(w.get(shell.StaffSafety).form(path), values...)) }
	}
	apps, cancel, withdraw := "/account/apps/"+f.app.ID+"/disconnect", clients.ConsultationPath(one.ID)+
		"/cancel", clients.ConsultationPath(two.ID)+"/withdraw"
	session, topUp := "/account/security/sessions/"+elsewhere()+"/end", "/account/wallet/topups/"+open.ID+"/cancel"
	another := "another long phrase to sign in"
	f.clock.Advance(30 * time.Second) // the device shows another code
	scenarios := []struct {
		route string
		send  func()
	}{
		{"/signup", visitor("/signup", "name", "Nina New", "email", "nina@example.com")},
		{"/password/forgot", visitor("/password/forgot", "email", f.client.Email)},
		{"/staff/password/forgot", visitor("/staff/password/forgot", "email", w.email)},
		{"/developers/signup", visitor("/developers/signup", "email", "dev@crm.example")},
		{"/account/wallet/topup", client("/account/wallet/topup", "/account/wallet", "amount", "2000")},
		{"/account/wallet/topups/:id/cancel", client(topUp, "/account/wallet")},
		{"/account/consultations/:id/cancel", client(cancel, cancel)},
		{"/account/consultations/:id/withdraw", client(withdraw, withdraw)},
		{"/account/wallet/refund", client("/account/wallet/refund", "/account/wallet/refund")},
		{"/account/apps/:id/disconnect", client(apps, "/account/apps")},
		{"/account/phone/zone", client("/account/phone/zone", clients.PhoneFormAddress, "zone", "Asia/Tokyo")},
		{"/account/phone", client(clients.PhoneFormAddress, clients.PhoneFormAddress, "phone", "+33639980003",
			"present", testPassword)},
		{clients.EmailFormAddress, client(clients.EmailFormAddress, clients.EmailFormAddress, "email",
			"new@example.com",
			"present", testPassword)},
		{"/account/security/sessions/:id/end", client(session, "/account/security")},
		{"/account/security/sessions/end", func() {
			f.browser().signIn(f.client.Email)
			client("/account/security/sessions/end", "/account/security")()
		}},
		{"/account/security/password", client("/account/security/password", "/account/security",
			"present", testPassword, "password", another)},
		{shell.StaffSafety + "/language", worker(shell.StaffSafety+"/language", "language", "en")},
		{shell.StaffSafety + "/codes", worker(shell.StaffSafety+"/codes", "code", w.code())},
		{shell.StaffSafety + "/password", worker(shell.StaffSafety+"/password", "present", staffPassword, "password",
			another)},
	}
	// as those of a client
	covered := map[string]bool{shell.StaffSafety + "/sessions/:id/end": true, shell.StaffSafety + "/sessions/end": true}
	for _, a := range f.pages.developers.Acts() {
		covered[a.Path] = true // its own key, or Do, which is declared to be repeatable
	}
	for _, a := range f.pages.operators.Acts() {
		covered[a.Path] = true // its key is the ID of the audit entry
	}
	for _, path := range slices.Concat(signingIn, pressed) {
		covered[path] = true
	}
	for _, s := range scenarios {
		covered[s.route] = true
		s.send()
	}
	e := echo.New()
	f.pages.Register(e)
	routes := map[string]bool{}
	for _, r := range e.Routes() {
		if routes[r.Path] = routes[r.Path] || r.Method == http.MethodPost; r.Method == http.MethodPost &&
			!covered[r.Path] && repeatable[r.Path] == "" {
			t.Errorf("%s is a form that no test sends twice", r.Path)
		}
	}
	for path := range repeatable {
		if !routes[path] && !strings.Contains(path, "passkey") {
			t.Errorf("%s takes no form", path)
		}
	}
}

func filled(form url.Values, values ...string) url.Values {
	if len(form) == 0 {
		return nil
	}
	for i := 0; i < len(values); i += 2 {
		form.Set(values[i], values[i+1])
	}
	return form
}

// signsInTwice sends a form that signs in or out again, from the browser that got the response and from one that lost
// it. Both continue, and the second one gets the session of the first.
func (f *fixture) signsInTwice(b *browser, path string, form url.Values) page {
	f.t.Helper()
	if len(form) == 0 {
		f.t.Fatalf("there is no form for %s", path)
	}
	dropped, home := f.browser(), must(url.Parse(b.base))
	dropped.client.Jar.SetCookies(home, b.client.Jar.Cookies(home))
	first := b.post(path, form)
	first.want(f.t, http.StatusSeeOther)
	before, to := f.state(), first.Header.Get("Location")
	b.post(path, form).wantRedirect(f.t, http.StatusSeeOther, to)
	dropped.post(path, form).wantRedirect(f.t, http.StatusSeeOther, to)
	f.unchanged(before, path+", sent again,")
	for _, name := range []string{shell.SessionCookie, staff.CookieName(false)} {
		if got, want := dropped.cookie(name), b.cookie(name); got != want {
			f.t.Errorf("%s: the cookie %s is %q, not %q", path, name, got, want)
		}
	}
	return first
}

// A form that signs in or out and is sent twice leads to the page of the first response. It runs only once, so there is
// one session.
func TestWhatSignsInSentTwiceAnswersTheSame(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous).work()
	b := f.browser()
	opened := func(b *browser, link, action string, values ...string) url.Values {
		return filled(b.get(link).form(action), values...)
	}
	form := opened(b, "/login", "/login", "email", f.client.Email, "password", testPassword)
	f.signsInTwice(b, "/login", form)
	f.clock.Advance(shell.SignInFor)
	late := f.browser() // knows the form, but is another browser
	late.post("/login", form).wantRedirect(t, http.StatusSeeOther, "/account")
	if late.cookie(shell.SessionCookie) != "" {
		t.Error("another browser is signed in by the form")
	}
	f.signsInTwice(b, "/logout", b.get("/account").form("/logout"))

	b.post("/signup", opened(b, "/signup", "/signup", "name", "Nina New", "email", "nina@example.com"))
	link := f.linkIn(f.letter("nina@example.com", "Confirm"))
	f.signsInTwice(b, "/signup/confirm", opened(b, link, "/signup/confirm", "password", staffPassword))
	b = f.browser()
	b.post("/password/forgot", opened(b, "/password/forgot", "/password/forgot", "email", f.client.Email))
	link = f.linkIn(f.letter(f.client.Email, "password"))
	f.signsInTwice(b, "/password/reset", opened(b, link, "/password/reset", "password", staffPassword))

	link = ""
	f.tx(func(tx postgres.Tx) {
		_, link, _ = f.staff.Invite(t.Context(), tx, staff.NewPerson{Kind: staff.Operator,
			Email: "new@partners.example", Name: "N", Language: "en", Roles: []staff.Role{staff.Support}})
	})
	w := &worker{browser: f.browser(), f: f, email: "new@partners.example"}
	form = opened(w.browser, strings.TrimPrefix(link, f.base), "/staff/invitation", "password", staffPassword)
	f.signsInTwice(w.browser, "/staff/invitation", form)
	factor := w.get("/staff/login/factor")
	w.secret = strings.ReplaceAll(secretShown.FindStringSubmatch(factor.body)[1], " ", "")
	form = filled(factor.form("/staff/login/factor"), "code", w.code())
	w.showsCodesOnce(f.signsInTwice(w.browser, "/staff/login/factor", form)).want(t, http.StatusOK,
		"Your recovery codes")
	f.signsInTwice(w.browser, "/staff/logout", w.get("/ops").form("/staff/logout"))
	f.clock.Advance(time.Minute)
	f.signsInTwice(w.browser, shell.StaffLogin, opened(w.browser, shell.StaffLogin, shell.StaffLogin, "email", w.email,
		"password", staffPassword))
	f.signsInTwice(w.browser, "/staff/login/code", opened(w.browser, "/staff/login/code", "/staff/login/code",
		"code", w.code()))
	b = f.browser()
	b.post("/staff/password/forgot", opened(b, "/staff/password/forgot", "/staff/password/forgot", "email", w.email))
	link = f.linkIn(f.letter(w.email, "password"))
	f.signsInTwice(b, "/staff/password/reset", opened(b, link, "/staff/password/reset", "password",
		"another phrase for the desk"))
	b = f.browser()
	b.post("/developers/signup", opened(b, "/developers/signup", "/developers/signup", "email", "dev@crm.example"))
	link = f.linkIn(f.letter("dev@crm.example", ""))
	f.signsInTwice(b, "/developers/join", opened(b, link, "/developers/join", "name", "Fleur",
		"password", staffPassword))
}

// The first of two forms uses up a code or an emailed link. The second leads to the result and does not say "wrong".
func TestCodesAndLinksSentTwiceAnswerTheSame(t *testing.T) {
	t.Parallel()
	f := newFixture(t).work()
	b := f.browser().signIn(f.client.Email)
	twice := func(path string, form url.Values, to string) {
		t.Helper()
		for range 2 {
			b.post(path, form).wantRedirect(t, http.StatusSeeOther, to)
		}
	}
	b.send(clients.PhoneFormAddress, clients.PhoneFormAddress, "phone", "+33639980003")
	twice("/account/phone/code", filled(b.get(clients.PhoneFormAddress).form("/account/phone/code"), "code", f.code(1)),
		clients.PhoneFormAddress+"?done=phone")
	b.send(clients.EmailFormAddress, clients.EmailFormAddress, "email", "new@example.com", "present", testPassword)
	link := f.linkIn(f.letter("new@example.com", "Confirm"))
	twice(link, b.get(link).form(link), "/account/security?done=email")
}

// Two forms that arrive together at two processes begin one payment and lead to it.
func TestATopUpSentTwiceAtOnceBeginsOnePayment(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b, other := f.browser().signIn(f.client.Email), f.replica()
	other.signIn(f.client.Email)
	other.client.Jar.SetCookies(must(url.Parse(other.base)), b.client.Jar.Cookies(must(url.Parse(b.base))))
	form := filled(b.get("/account/wallet").form("/account/wallet/topup"), "amount", "2000")
	to := make([]string, 6)
	var all sync.WaitGroup
	for i := range to {
		all.Go(func() { to[i] = []*browser{b, other}[i%2].post("/account/wallet/topup", form).Header.Get("Location") })
	}
	all.Wait()
	for _, at := range to {
		if at == "" || at != to[0] {
			t.Fatalf("%q", to)
		}
	}
}

// A form that is sent again with other values has no effect. The page says why, shows where the first one led, and
// offers to send the new values.
func TestAFormSentAgainWithOtherValuesSaysSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.member(portal.Owner)
	for path, values := range map[string][3]string{
		"/developers/new":                           {"name", "First CRM", "Second CRM"},
		developers.Path(f.app.ID, "secret"):         {"hours", "1", "2"},
		developers.Path(f.app.ID, "clients", "new"): {"name", "First", "Second"},
		developers.Path(f.app.ID, "clock"):          {"minutes", "1", "2"},
	} {
		form := filled(w.get(path).form(path), values[0], values[1], "redirects", redirectURI)
		first := w.post(path, form)
		to := first.Header.Get("Location")
		first.wantRedirect(t, http.StatusSeeOther, to)
		form.Set(values[0], values[2])
		before := f.state()
		again := w.post(path, form)
		again.want(t, http.StatusConflict, `role="alert"`, "You have already submitted this form with other values",
			`<a href="`+to+`"`, `<a href="`+path+`"`)
		f.unchanged(before, path+", sent with other values,")
		form.Set(shell.OnceField, again.form(path).Get(shell.OnceField))
		form.Set("end", "yes") // the previous secret
		w.post(path, form).want(t, http.StatusSeeOther)
	}
}

// If two forms outside a transaction arrive together, only one is executed. The other waits and gets the same response.
func TestTheClockSentTwiceAtOnceAdvancesOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.member(portal.Owner)
	path := developers.Path(f.app.ID, "clock")
	form := filled(w.get(path).form(path), "minutes", "30")
	to := make([]page, 4)
	var all sync.WaitGroup
	for i := range to {
		all.Go(func() { to[i] = w.post(path, form) })
	}
	all.Wait()
	for _, at := range to {
		at.wantRedirect(t, http.StatusSeeOther, to[0].Header.Get("Location"))
	}
}
