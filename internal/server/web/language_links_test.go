package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/shell"
)

// The form without its own page, because it is on every page.
var everywhere = []string{"/logout"}

// A page that responds to a form links to the page of that form in the other language, and keeps the visitor's next
// page.
func TestTheLanguageLinksOfAnAnswerLeadToTheForm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := echo.New()
	f.pages.Register(e)
	shown := map[string]bool{}
	for _, r := range e.Routes() {
		shown[r.Path] = shown[r.Path] || r.Method == http.MethodGet
	}
	const request = "client_id=app_1&state=a%26b"
	for _, r := range e.Routes() {
		if r.Method != http.MethodPost {
			continue
		}
		form := url.Values{"next": {"/desk?a=b"}, "token": {"lnk_1"}, "request": {request}, "password": {"typed"},
			"email": {"typed"}}
		path := strings.NewReplacer(":app", "app_1", ":id", "one_1").Replace(r.Path)
		c := e.NewContext(httptest.NewRequest(http.MethodPost, path, nil), httptest.NewRecorder())
		c.SetPath(r.Path)
		c.Request().PostForm = form
		to := must(url.Parse(shell.LanguageLinks(c, "en")[0].URL))
		q := to.Query()
		switch {
		case q.Get("lang") != "fr" || strings.Contains(to.RawQuery, "typed"):
			t.Errorf("%s: %s", r.Path, to)
		case r.Path == shell.ConsentPath:
			if to.Path != "/api/oauth/authorize" || q.Get("state") != "a&b" || q.Get("client_id") != "app_1" {
				t.Errorf("%s: %s", r.Path, to)
			}
		case strings.Contains(" "+strings.Join(everywhere, " ")+" ", " "+r.Path+" "):
			if to.Path != "/" {
				t.Errorf("%s: %s", r.Path, to)
			}
		case to.Path == "/" || !strings.HasPrefix(path, to.Path) || shown[r.Path] && to.Path != path:
			t.Errorf("%s leads to %s", r.Path, to)
		case q.Get("next") != "/desk?a=b" || q.Get("token") != "lnk_1":
			t.Errorf("%s loses the way: %s", r.Path, to)
		}
	}
}

func TestARefusedSignInKeepsTheJourneyInTheOtherLanguage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser()
	const next = "/account/consultations"
	form := filled(b.get("/login?next="+next).form("/login"), "email", f.client.Email, "password", "wrong phrase")
	p := b.post("/login", form)
	p.want(t, http.StatusUnprocessableEntity)
	if !strings.Contains(strings.ToLower(p.body), `href="/login?lang=fr&amp;next=%2faccount%2fconsultations"`) {
		t.Error(p.body)
	}
	b.get("/login?lang=fr&next="+url.QueryEscape(next)).want(t, http.StatusOK, `<html lang="fr">`, `value="`+next+`"`)
}

// The language shown by the browser may be the choice of an earlier user. The account's language therefore applies
// after every sign-in. Only a link that a signed-in person follows changes it.
func TestTheLanguageOfTheAccountWinsAtASignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.operator(staff.Admin)
	f.clock.Advance(60e9)
	kept := func(want string) {
		t.Helper()
		if p := must(f.staff.ByEmail(t.Context(), f.db.Read(), w.email)); p.Language != want {
			t.Errorf("the account has %q", p.Language)
		}
	}
	b := f.browser()
	b.get(shell.StaffLogin+"?lang=fr").want(t, http.StatusOK, `<html lang="fr">`)
	w.password(b, staffPassword)
	w.enter(b, w.code()).want(t, http.StatusSeeOther)
	b.get("/ops").want(t, http.StatusOK, `<html lang="en">`)
	kept("en")
	b.get("/ops?lang=fr").want(t, http.StatusOK, `<html lang="fr">`)
	kept("fr")
	other := f.browser() // where nobody chose
	f.clock.Advance(60e9)
	w.password(other, staffPassword)
	w.enter(other, w.code())
	other.get("/ops").want(t, http.StatusOK, `<html lang="fr">`)
}

func TestTheLanguageOfAClientWinsAtASignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.browser().signIn(f.client.Email).get("/account?lang=en").want(t, http.StatusOK, `<html lang="en">`)
	b := f.browser()
	b.get("/login?lang=fr").want(t, http.StatusOK, `<html lang="fr">`) // another person
	b.signIn(f.client.Email).get("/account").want(t, http.StatusOK, `<html lang="en">`)
	if c := must(f.accounts.Get(t.Context(), f.db.Read(), f.client.ID)); c.Language != "en" {
		t.Errorf("the account has %q", c.Language)
	}
}

// An invitation read in French continues in French, even if its email was in English.
func TestAnInvitationLeadsOnInTheReadersLanguage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var link string
	f.tx(func(tx postgres.Tx) {
		_, link, _ = f.staff.Invite(t.Context(), tx, staff.NewPerson{Kind: staff.Operator,
			Email: "new@partners.example", Name: "N", Language: "en", Roles: []staff.Role{staff.Support}})
	})
	b := f.browser()
	opened := b.get(strings.TrimPrefix(link, f.base) + "&lang=fr")
	opened.want(t, http.StatusOK, `<html lang="fr">`)
	form := filled(opened.form("/staff/invitation"), "password", staffPassword)
	b.post("/staff/invitation", form).want(t, http.StatusSeeOther)
	b.get("/staff/login/factor").want(t, http.StatusOK, `<html lang="fr">`)
	if p := must(f.staff.ByEmail(t.Context(), f.db.Read(), "new@partners.example")); p.Language != "fr" {
		t.Errorf("the account has %q", p.Language)
	}
}
