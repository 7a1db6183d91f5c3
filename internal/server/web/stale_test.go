package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/shell"
)

// meanwhile gives b the session cookie of a person who signed in in another tab of the same browser.
func (b *browser) meanwhile(name, token string) {
	b.client.Jar.SetCookies(must(url.Parse(b.base)), []*http.Cookie{{Name: name, Value: token, Path: "/"}})
}

// If a person signs in in another tab, an older form to sign in redirects, even with new values. It signs nobody else
// in and has no effect. While nobody is signed in, it is shown again.
func TestAStaleFormToSignInLeadsOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous).work()
	other := f.newClient("other@example.com", "Other Client")
	session := f.browser().signIn(f.client.Email).cookie(shell.SessionCookie)
	f.clock.Advance(time.Second)
	member := f.member(portal.Owner)
	staffCookie := staff.CookieName(false)
	staffSession := member.cookie(staffCookie)
	colleague := f.operator(staff.Admin)
	for _, c := range []struct {
		open, path, cookie, token, to string
		values                        []string
	}{
		{"/login?next=/account/wallet", "/login", shell.SessionCookie, session, "/account/wallet",
			[]string{"email", other.Email, "password", testPassword}},
		{"/login", "/login", shell.SessionCookie, session, "/account",
			[]string{"email", other.Email, "password", testPassword}},
		{"/signup", "/signup", shell.SessionCookie, session, "/account", []string{"name", "Nina New", "email",
			"nina@example.com"}},
		{"/password/forgot", "/password/forgot", shell.SessionCookie, session, "/account",
			[]string{"email", other.Email}},
		{shell.StaffLogin + "?next=/developers/new", shell.StaffLogin, staffCookie, staffSession, "/developers/new",
			[]string{"email", colleague.email, "password", staffPassword}},
		{shell.StaffLogin, shell.StaffLogin, staffCookie, staffSession, shell.DevelopersDesk,
			[]string{"email", colleague.email, "password", staffPassword}},
		{"/staff/password/forgot", "/staff/password/forgot", staffCookie, staffSession, shell.DevelopersDesk,
			[]string{"email", colleague.email}},
		{"/developers/signup", "/developers/signup", staffCookie, staffSession, shell.DevelopersDesk,
			[]string{"email", "dev@crm.example"}},
	} {
		b := f.browser()
		form := filled(b.get(c.open).form(c.path), c.values...)
		if form == nil {
			t.Fatalf("%s has no form", c.open)
		}
		b.meanwhile(c.cookie, "nobody's")
		if p := b.post(c.path, form); p.StatusCode != http.StatusForbidden {
			t.Errorf("%s with nobody signed in: %d", c.path, p.StatusCode)
		}
		b.meanwhile(c.cookie, c.token)
		before := f.state()
		b.post(c.path, form).wantRedirect(t, http.StatusSeeOther, c.to)
		f.unchanged(before, c.path+", when it is stale,")
		if b.cookie(c.cookie) != c.token {
			t.Errorf("%s: the session is another one", c.path)
		}
	}
}

// The same holds for entering a code of the second factor and for setting one up.
func TestAStaleSecondFactorLeadsOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous).work()
	w := f.operator(staff.Admin)
	session := w.cookie(staff.CookieName(false))
	b := f.browser()
	w.password(b, staffPassword)
	form := filled(b.get("/staff/login/code?next=/ops/lawyers").form("/staff/login/code"), "code", "000000")
	b.meanwhile(staff.CookieName(false), session)
	b.post("/staff/login/code", form).wantRedirect(t, http.StatusSeeOther, "/ops/lawyers")

	// A second factor is set up with the secret of its own sign-in, not with that of another unfinished one.
	invite := func(email string) *browser {
		var link string
		f.tx(func(tx postgres.Tx) {
			_, link, _ = f.staff.Invite(t.Context(), tx, staff.NewPerson{Kind: staff.Operator, Email: email,
				Name: "N", Language: "en", Roles: []staff.Role{staff.Support}})
		})
		b := f.browser()
		address := strings.TrimPrefix(link, f.base)
		b.post("/staff/invitation", filled(b.get(address).form("/staff/invitation"), "password", staffPassword))
		return b
	}
	one, two := invite("one@partners.example"), invite("two@partners.example")
	form = filled(one.get("/staff/login/factor?next=/ops").form("/staff/login/factor"), "code", "000000")
	one.meanwhile(staff.CookieName(false), two.cookie(staff.CookieName(false)))
	again := one.post("/staff/login/factor", form)
	again.want(t, http.StatusForbidden, "open for too long")
	if again.form("/staff/login/factor").Get("next") != "/ops" {
		t.Error("the form is not shown again")
	}
	one.meanwhile(staff.CookieName(false), session)
	one.post("/staff/login/factor", form).wantRedirect(t, http.StatusSeeOther, "/ops")
}

// The form of an emailed link does more than sign in. A stale one is not skipped. It is shown again, says why, and then
// works.
func TestAStaleFormOfALinkIsSentOnceMore(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous).work()
	session := f.browser().signIn(f.client.Email).cookie(shell.SessionCookie)
	b := f.browser()
	b.post("/signup", filled(b.get("/signup").form("/signup"), "name", "Nina New", "email", "nina@example.com"))
	link := f.linkIn(f.letter("nina@example.com", "Confirm"))
	f.stillWorks(link, "/signup/confirm", shell.SessionCookie, session, "password", staffPassword)
	b.post("/password/forgot", filled(b.get("/password/forgot").form("/password/forgot"), "email", f.client.Email))
	link = f.linkIn(f.letter(f.client.Email, "password"))
	session = f.browser().signIn(f.client.Email).cookie(shell.SessionCookie) // the sign-up ended the previous session
	f.stillWorks(link, "/password/reset", shell.SessionCookie, session, "password", staffPassword)

	w := f.operator(staff.Admin)
	cookie := staff.CookieName(false)
	session = w.cookie(cookie)
	f.tx(func(tx postgres.Tx) {
		_, link, _ = f.staff.Invite(t.Context(), tx, staff.NewPerson{Kind: staff.Operator,
			Email: "new@partners.example", Name: "N", Language: "en", Roles: []staff.Role{staff.Support}})
	})
	f.stillWorks(strings.TrimPrefix(link, f.base), "/staff/invitation", cookie, session, "password", staffPassword)
	asked := b.get("/developers/signup").form("/developers/signup")
	b.post("/developers/signup", filled(asked, "email", "dev@crm.example"))
	link = f.linkIn(f.letter("dev@crm.example", ""))
	f.stillWorks(link, "/developers/join", cookie, session, "name", "Fleur", "password", staffPassword)
	asked = b.get("/staff/password/forgot").form("/staff/password/forgot")
	b.post("/staff/password/forgot", filled(asked, "email", w.email))
	link = f.linkIn(f.letter(w.email, "password"))
	f.stillWorks(link, "/staff/password/reset", cookie, session, "password", "another phrase for the desk")
}

func (f *fixture) stillWorks(link, path, cookie, session string, values ...string) {
	f.t.Helper()
	b := f.browser()
	stale := filled(b.get(link).form(path), values...)
	b.meanwhile(cookie, session)
	before := f.state()
	again := b.post(path, stale)
	again.want(f.t, http.StatusConflict, "Submit this form again.")
	f.unchanged(before, path+", when it is stale,")
	b.post(path, filled(again.form(path), values...)).want(f.t, http.StatusSeeOther)
}
