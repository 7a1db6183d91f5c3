package web

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/postgres"
	"partnerd/internal/staff"
)

// Why a form that is sent twice does no harm, where the page of the form does not hold it to that. What is signed in by an
// answer is not kept: whoever did not get the answer has to sign in.
var repeatable = map[string]string{
	"/login":                                "signs in",
	"/login/passkey":                        "signs in, and spends its challenge",
	"/logout":                               "ends the session",
	"/oauth/consent":                        "a second code of the same consent replaces nothing",
	"/checkout/:id":                         "the first decision stands",
	"/signup/confirm":                       "the link is spent, and the answer signs in",
	"/password/reset":                       "the link is spent, and the answer signs in",
	"/email/undo":                           "the link is spent, and the answer signs in",
	"/account/privacy/return":               "that nothing is left to send back is no refusal",
	"/account/privacy/erase":                "the session ends with the account",
	"/staff/login":                          "signs in",
	"/staff/login/code":                     "signs in, and spends its code",
	"/staff/login/factor":                   "signs in, and spends its code",
	"/staff/login/passkey":                  "signs in, and spends its challenge",
	"/staff/logout":                         "ends the session",
	"/staff/invitation":                     "the link is spent, and the answer signs in",
	"/staff/password/reset":                 "the link is spent, and the answer signs in",
	"/staff/security/passkeys":              "spends its challenge",
	"/staff/security/passkeys/:id/remove":   "removes by an identifier",
	"/account/security/passkeys":            "spends its challenge",
	"/account/security/passkeys/:id/remove": "removes by an identifier",
	"/developers/join":                      "the link is spent, and the answer signs in",
	"/desk/duty":                            "sets where the lawyer stands",
	"/desk/offers/:id/accept":               "only the state of the offer decides",
	"/desk/offers/:id/decline":              "only the state of the offer decides",
	"/desk/callbacks/:id/claim":             "only the state of the callback decides",
	"/desk/consultations/:id/call":          "only the state of the consultation decides",
	"/desk/consultations/:id/restart":       "only the state of the consultation decides",
	"/desk/consultations/:id/end":           "only the state of the consultation decides",
	"/desk/consultations/:id/withdraw":      "only the state of the consultation decides",
	"/desk/consultations/:id/useless":       "only the state of the consultation decides",
	"/desk/consultations/:id/choice":        "sets what the lawyer chose",
	keyChangePage:                           "sets the key",
	keyPage + "/remove":                     "removes the key",
	"/desk/copies/:id":                      "a copy is taken once",
	"/desk/consultations/:id/draft":         "the text that is kept already is no conflict",
	"/desk/consultations/:id/note":          "the text that is kept already is no conflict",
	"/account/phone/code":                   "see TestCodesAndLinksSentTwiceAnswerTheSame",
	emailFormAddress + "/confirm":           "see TestCodesAndLinksSentTwiceAnswerTheSame",
}

// sendsTwice sends a form twice: the second time does nothing, and is answered as the first.
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
	if again.StatusCode != first.StatusCode || again.Header.Get("Location") != first.Header.Get("Location") || again.body != first.body {
		f.t.Errorf("%s: %d to %q, then %d to %q", path, first.StatusCode, first.Header.Get("Location"), again.StatusCode, again.Header.Get("Location"))
	}
	f.unchanged(before, path+", sent again,")
}

// Every form of every page that is sent twice does what it does once. A page that is new fails until it stands here.
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
		list := must(f.accounts.Sessions(t.Context(), f.db.Read(), f.client.ID, b.cookie(sessionCookie)))
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
		return func() { f.sendsTwice(w.browser, path, filled(w.get(staffSafety).form(path), values...)) }
	}
	apps, cancel, withdraw := "/account/apps/"+f.app.ID+"/disconnect", consultationPath(one.ID)+"/cancel", consultationPath(two.ID)+"/withdraw"
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
		{"/account/phone/zone", client("/account/phone/zone", phoneFormAddress, "zone", "Asia/Tokyo")},
		{"/account/phone", client(phoneFormAddress, phoneFormAddress, "phone", "+33639980003", "present", testPassword)},
		{emailFormAddress, client(emailFormAddress, emailFormAddress, "email", "new@example.com", "present", testPassword)},
		{"/account/security/sessions/:id/end", client(session, "/account/security")},
		{"/account/security/sessions/end", func() {
			f.browser().signIn(f.client.Email)
			client("/account/security/sessions/end", "/account/security")()
		}},
		{"/account/security/password", client("/account/security/password", "/account/security", "present", testPassword, "password", another)},
		{staffSafety + "/language", worker(staffSafety+"/language", "language", "en")},
		{staffSafety + "/codes", worker(staffSafety+"/codes", "code", w.code())},
		{staffSafety + "/password", worker(staffSafety+"/password", "present", staffPassword, "password", another)},
	}
	covered := map[string]bool{staffSafety + "/sessions/:id/end": true, staffSafety + "/sessions/end": true} // as those of a client
	for _, a := range f.pages.devActs() {
		covered[a.Path] = true // its own key, or Do, which is held to that by its declaration
	}
	for _, a := range f.pages.opsActs() {
		covered[a.Path] = true // the entry of the audit log is its key
	}
	for _, s := range scenarios {
		covered[s.route] = true
		s.send()
	}
	e := echo.New()
	f.pages.Register(e)
	routes := map[string]bool{}
	for _, r := range e.Routes() {
		if routes[r.Path] = routes[r.Path] || r.Method == http.MethodPost; r.Method == http.MethodPost && !covered[r.Path] && repeatable[r.Path] == "" {
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

// A code and a link of a mail are spent by the first of two: the other leads to what came of it, and says no "wrong".
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
	b.send(phoneFormAddress, phoneFormAddress, "phone", "+33639980003")
	twice("/account/phone/code", filled(b.get(phoneFormAddress).form("/account/phone/code"), "code", f.code(1)), phoneFormAddress+"?done=phone")
	b.send(emailFormAddress, emailFormAddress, "email", "new@example.com", "present", testPassword)
	link := f.linkIn(f.letter("new@example.com", "Confirm"))
	twice(link, b.get(link).form(link), "/account/security?done=email")
}

// Two that arrive together, at two processes, begin one payment and lead to it.
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
