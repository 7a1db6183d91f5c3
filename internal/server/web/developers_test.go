package web

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"partnerd/internal/domain/application"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/developers"
	"partnerd/internal/server/web/shell"
	"partnerd/internal/server/web/signin"
)

// member is a partner in a browser with the given role in the fixture's application. Without a role they belong to no
// application.
func (f *fixture) member(role portal.Role) *worker {
	f.t.Helper()
	w := f.join(staff.NewPerson{Kind: staff.Partner,
		Email: fmt.Sprintf("%s-%d@crm.example", role, time.Now().UnixNano()), Name: "Pia Partner", Language: "en"})
	if role == "" {
		return w
	}
	f.tx(func(tx postgres.Tx) {
		_, link, err := f.deps.Portal.InviteTo(f.t.Context(), tx, "cli", f.app, w.email, role, "en")
		if err != nil {
			f.t.Fatal(err)
		}
		if _, _, err = f.deps.Portal.Join(f.t.Context(), tx, must(url.Parse(link)).Query().Get("token"), "", "",
			staff.Device{}); err != nil {
			f.t.Fatal(err)
		}
	})
	return w
}

// portalOf gives the application an endpoint with an event. The returned function fills in the IDs in paths.
func (f *fixture) portalOf() (address func(path string, person string) string) {
	var d webhook.Delivery
	f.tx(func(tx postgres.Tx) {
		_, err := f.webhooks.CreateEndpoint(f.t.Context(), tx, f.app.ID, "")
		if err == nil {
			d, err = f.webhooks.SendTest(f.t.Context(), tx, f.app.ID, webhook.Completed)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	})
	return func(path, person string) string {
		id := map[bool]string{true: d.EventID, false: d.ID}[strings.Contains(path, "/events/")]
		switch g := f.deps.Playground; {
		case strings.Contains(path, "/people/:id/cancel"): // a new one each time, which can be cancelled
			f.tx(func(tx postgres.Tx) {
				email := fmt.Sprintf("invited-%d@crm.example", time.Now().UnixNano())
				i, _, err := f.deps.Portal.InviteTo(f.t.Context(), tx, "cli", f.app, email, portal.Viewer, "en")
				id = must(i, err).ID
			})
		case strings.Contains(path, "/people/"):
			id = person
		case strings.Contains(path, "/clients/:id"): // a new one each time, which can be deleted
			f.tx(func(tx postgres.Tx) {
				c, _, err := g.Clients.Create(f.t.Context(), tx, "test", f.app.ID,
					sandbox.NewTestClient{Name: "Camille"})
				id = must(c, err).ID
			})
		case strings.Contains(path, "/lawyers/:id"):
			f.tx(func(tx postgres.Tx) {
				n := sandbox.NewCrewLawyer{Name: "Dominique", Competences: []string{"FAMILY"},
					Languages: []string{"FR"}}
				id = must(g.Crews.Create(f.t.Context(), tx, "test", f.app.ID, n)).ID
			})
		}
		return strings.NewReplacer(":app", f.app.ID, ":id", id).Replace(path)
	}
}

// One table defines who sees and does what in the portal, and every route follows it. For everyone else, the
// application does not exist.
func TestEveryMemberSeesAndDoesWhatTheTableSays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	address := f.portalOf()
	token := func(w *worker) url.Values {
		return url.Values{"csrf": {staff.FormToken(w.cookie(staff.CookieName(false)))}}
	}
	refused := func(status int) bool { return status == http.StatusForbidden || status == http.StatusNotFound }
	for _, role := range append(portal.Roles(), "") {
		w := f.member(role)
		me := must(f.staff.ByEmail(t.Context(), f.db.Read(), w.email)).ID
		w.get(shell.DevelopersDesk).want(t, 200)
		for _, r := range f.pages.developers.Reads() {
			if strings.Contains(r.Path, "/requests/") {
				continue // there is none yet
			}
			want := http.StatusOK
			if role == "" {
				want = http.StatusNotFound
			}
			for _, lang := range []string{"en", "fr"} {
				if p := w.get(address(r.Path, me) + "?lang=" + lang); p.StatusCode != want {
					t.Errorf("%q: %s is %d, want %d\n%s", role, r.Path, p.StatusCode, want, p.body)
				}
			}
		}
		for _, a := range f.pages.developers.Acts() {
			path := address(a.Path, me)
			if a.Name == "remove" || a.Name == "create" {
				continue // below
			}
			want := 0
			switch {
			case role == "":
				want = http.StatusNotFound
			case !role.May(a.Need):
				want = http.StatusForbidden
			}
			got, did := w.get(path).StatusCode, w.post(path, token(w)).StatusCode
			if want == 0 && (got != http.StatusOK || refused(did)) || want != 0 && (got != want || did != want) {
				t.Errorf("%q: %s asks %d and does %d, want %d", role, a.Name, got, did, want)
			}
			if p := w.post(path, url.Values{}); p.StatusCode != http.StatusForbidden {
				t.Errorf("%q: %s without the token of the form is %d", role, a.Name, p.StatusCode)
			}
		}
	}
}

// Only partners have access to the portal, and they have access to no other desk. The checklist for going live is in
// the language of the page, not in that of the API.
func TestWhatWasSeenIsSaidInTheLanguageOfThePage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	live := f.portalOf()(developers.Path(":app", "live"), "")
	w := f.member(portal.Viewer)
	w.get(live+"?lang=fr").want(t, 200, "Le point de réception n’a pas été vérifié",
		"Pas vu au cours des 30 derniers jours",
		"Aucune consultation n’a encore livré ces événements\u00a0: consultation.created")
	w.get(live+"?lang=en").want(t, 200, "The endpoint has not been checked",
		"No consultation has delivered these events yet: consultation.created")
}

func TestKindsKeepToTheirPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	address := f.portalOf()
	client := f.browser().signIn(f.client.Email)
	outside := map[string]*worker{"lawyer": f.lawyer(), "operator": f.operator(staff.Admin)}
	paths := []string{shell.DevelopersDesk}
	for _, r := range f.pages.developers.Reads() {
		paths = append(paths, address(r.Path, "stf_x"))
	}
	for _, a := range f.pages.developers.Acts() {
		paths = append(paths, address(a.Path, "stf_x"))
	}
	for _, path := range paths {
		for kind, w := range outside {
			if p := w.get(path); p.StatusCode != http.StatusForbidden {
				t.Errorf("a %s gets %d at %s", kind, p.StatusCode, path)
			}
		}
		if p := client.get(path); p.StatusCode != http.StatusSeeOther ||
			!strings.HasPrefix(p.Header.Get("Location"), "/staff/login?") {
			t.Errorf("a client gets %d at %s", p.StatusCode, path)
		}
	}
	w := f.member(portal.Owner)
	for _, path := range []string{
		"/ops", "/ops/people", "/ops/applications/" + f.app.ID, "/desk", "/desk/history", "/desk/key",
	} {
		if p := w.get(path); p.StatusCode != http.StatusForbidden {
			t.Errorf("somebody of a partner gets %d at %s", p.StatusCode, path)
		}
	}
	w.get("/account").wantRedirect(t, http.StatusFound, "/login?next=%2Faccount")
	w.get("/staff/login").wantRedirect(t, http.StatusSeeOther, shell.DevelopersDesk)
	w.get("/staff/security").want(t, 200, `href="/developers"`)
}

// Actions that give access need a recent sign-in. Others do not.
func TestSensitiveActsTakeAFreshSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	address := f.portalOf()
	w := f.member(portal.Owner)
	me := must(f.staff.ByEmail(t.Context(), f.db.Read(), w.email)).ID
	f.clock.Advance(staff.FreshSignIn + time.Second)
	for _, a := range f.pages.developers.Acts() {
		path := address(a.Path, me)
		again := "/staff/login?again=1&next=" + url.QueryEscape(path)
		p := w.get(path)
		if sent := p.StatusCode == http.StatusSeeOther && p.Header.Get("Location") == again; sent != a.Fresh {
			t.Errorf("%s: %d to %s", a.Name, p.StatusCode, p.Header.Get("Location"))
		}
		if a.Fresh {
			w.post(path, url.Values{"csrf": {staff.FormToken(w.cookie(staff.CookieName(false)))}}).
				wantRedirect(t, http.StatusSeeOther, again)
		}
	}
}

// A developer's first steps lead from an email to an application, its secrets and its events.
func TestAnApplicationByOneself(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser()
	b.get("/developers").wantRedirect(t, http.StatusSeeOther, "/staff/login?next=%2Fdevelopers")
	b.get("/developers/login").want(t, 200, "Sign in to the developer portal", `href="/developers/signup"`)
	form := b.get("/developers/signup").form("/developers/signup")
	form.Set("email", "no address")
	b.post("/developers/signup", form).want(t, 422, "Error")
	form.Set("email", "operator@partners.example")
	known := b.post("/developers/signup", form)
	known.want(t, 200, "Check your email")
	b.post("/developers/signup", url.Values{"email": {"x@crm.example"}}).want(t, 403)
	dead := b.get("/developers/join?token=lnk_none")
	dead.want(t, http.StatusGone, "ask an owner of the application to invite you again",
		`href="/developers/signup">Create an account<`, `href="/developers/login"`)
	b.get("/developers/join?lang=fr&token=lnk_none").want(t, http.StatusGone,
		"demandez à un de ses propriétaires de vous inviter à nouveau")
	b.get("/developers/join?lang=en&token=lnk_none")

	w := f.member("")
	w.get("/developers").want(t, 200, "Create application")
	form = w.get("/developers/new").form("/developers/new")
	form.Set("name", "My CRM")
	form.Set("redirects", "http://crm.example/cb")
	w.post("/developers/new", form).want(t, 422, "must use https", `value="My CRM"`)
	form.Set("redirects", "http://localhost:3000/cb\r\nhttps://crm.example/cb")
	made := w.follow(w.post("/developers/new", form))
	made.want(t, 200, "it is shown only once")
	shown := regexp.MustCompile(`<dd><span id="secret\d"><code>([^<]+)</code>`).FindAllStringSubmatch(made.body, -1)
	if len(shown) != 3 {
		t.Fatal(made.body)
	}
	app, secret, signing := shown[0][1], shown[1][1], shown[2][1]
	works := func(secret string) bool {
		_, err := f.apps.Authenticate(t.Context(), f.db.Read(), app, secret)
		return err == nil
	}
	if !works(secret) || !strings.HasPrefix(signing, "whsec_") {
		t.Errorf("%v", shown)
	}
	act := func(path string, values ...string) page {
		t.Helper()
		form := w.get(developers.Path(app, path)).form(developers.Path(app, path))
		for i := 0; i < len(values); i += 2 {
			form.Set(values[i], values[i+1])
		}
		return w.post(developers.Path(app, path), form)
	}
	w.get(developers.Path(app)).want(t, 200, "My CRM", app, "http://localhost:3000/cb https://crm.example/cb",
		"3000 of 3000 remaining")
	w.get("/developers").want(t, 200, "My CRM")
	// no second application, no second secret
	w.follow(w.post("/developers/new", form)).want(t, 200, "was shown once", developers.Path(app))
	rotated := w.follow(act("secret", "hours", "24"))
	fresh := regexp.MustCompile(`sk_[A-Za-z0-9_-]+`).FindString(rotated.body)
	if !works(secret) || !works(fresh) || fresh == secret {
		t.Errorf("after a rotation: %q", fresh)
	}
	for _, bad := range []string{"", "-1", "2161", "x"} {
		act("secret", "hours", bad, "end", "yes").want(t, 422)
	}
	act("secret", "hours", "24").want(t, 422, "previous secret still works", "choose which of the two to end now")
	if !works(secret) || !works(fresh) {
		t.Error("a second rotation ended a secret")
	}
	w.get(developers.Path(app)).want(t, 200, "End previous secret")
	act("secret/end").wantRedirect(t, http.StatusSeeOther, developers.Path(app)+"?done=secret-end")
	if works(secret) || !works(fresh) {
		t.Error("the previous secret goes on")
	}
	act("edit", "name", "Better CRM", "redirects", "https://crm.example/cb", "contact", "dev@crm.example").
		wantRedirect(t, http.StatusSeeOther, developers.Path(app)+"?done=edit")
	act("edit", "redirects", " ").want(t, 422, "Redirect URIs: A value is required.")
	w.get(developers.Path(app)+"?done=edit").want(t, 200, "Better CRM", "The settings were saved.")

	sent := act("webhooks/test", "type", string(webhook.Completed))
	if sent.StatusCode != http.StatusSeeOther {
		t.Fatal(sent.body)
	}
	delivery := w.get(sent.Header.Get("Location"))
	delivery.want(t, 200, "consultation.completed", `"type": "consultation.completed"`)
	act("webhooks/test", "type", "consultation.invented").want(t, 422)
	event := must(f.webhooks.EventsBefore(t.Context(), app, 0, 1))[0]
	w.get(developers.Path(app, "events")).want(t, 200, event.ID)
	for want, header := range map[string]string{
		"valid and recent":        webhook.Sign(signing, time.Now(), event.Body),
		"signed with another":     webhook.Sign("whsec_other", time.Now(), event.Body),
		"not in the form":         "t=1,v1=2",
		"seconds away":            webhook.Sign(signing, time.Now().Add(-time.Hour), event.Body),
		"another body: the bytes": webhook.Sign(signing, time.Now(), append([]byte(" "), event.Body...)),
	} {
		body := string(event.Body)
		if strings.HasPrefix(want, "another body") {
			body = "x" + body
			header = webhook.Sign(signing, time.Now(), []byte("y"))
			want = "Neither the body nor the signature"
		}
		act("webhooks/signature", "header", "X-Other: 1\r\nx-service-signature: "+header, "body", body).
			want(t, 200, want)
	}
	act("webhooks/signature", "header", webhook.Sign(signing, time.Now(), event.Body),
		"body", strings.Replace(string(event.Body), ":", ": ", 1)).want(t, 200, "from byte")
	old := signing
	replaced := w.follow(act("webhooks/secret"))
	signing = regexp.MustCompile(`whsec_[A-Za-z0-9_-]+`).FindString(replaced.body)
	if signing == "" || signing == old {
		t.Error(replaced.body)
	}
	act("webhooks/signature", "header", webhook.Sign(old, time.Now(), event.Body), "body", string(event.Body)).
		want(t, 200, "valid for the previous secret")
	for _, path := range []string{"", "/webhooks", "/events", "/deliveries", "/people", "/requests"} {
		page := w.get(developers.Path(app) + path)
		for _, secret := range []string{secret, fresh, signing, old} {
			if strings.Contains(html.UnescapeString(page.body), secret) {
				t.Errorf("%s shows a secret again", path)
			}
		}
	}
	act("people/invite", "email", "colleague@crm.example", "role", "viewer", "tongue", "fr").wantRedirect(t,
		http.StatusSeeOther, developers.Path(app, "people")+"?done=invite")
	w.get(developers.Path(app, "people")).want(t, 200, "colleague@crm.example", "Withdraw invitation",
		"Leave application")
	me := must(f.staff.ByEmail(t.Context(), f.db.Read(), w.email)).ID
	act("people/"+me+"/remove").want(t, 422, "needs at least one owner")
	act("people/"+me+"/role", "role", "viewer").want(t, 422, "needs at least one owner")
}

// follow loads the page to which a response redirects.
func (w *worker) follow(p page) page {
	if p.StatusCode != http.StatusSeeOther {
		return p
	}
	return w.get(p.Header.Get("Location"))
}

// An empty list names the button that adds the first entry to those who may use it, and a filter says that it is one.
func TestAnEmptyListNamesWhatFillsIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.portalOf()
	const none, begin = "There are no test clients yet.", "To start, choose “Create test client”."
	clients := developers.Path(f.app.ID, "clients")
	f.member(portal.Developer).get(clients).want(t, 200, none+" "+begin, ">Create test client</a>")
	viewer := f.member(portal.Viewer)
	if p := viewer.get(clients); !strings.Contains(p.body, none) || strings.Contains(p.body, begin) {
		t.Errorf("a viewer reads %s", p.body)
	}
	viewer.get(developers.Path(f.app.ID, "deliveries")+"?state=FAILED").want(t, 200, "No results for this filter.")
	if p := viewer.get(developers.Path(f.app.ID, "live") + "?done=examine"); strings.Contains(p.body, `role="status"`) {
		t.Error("checks are counted before there was one")
	}
}

// Who has as many applications as a person may have reads the number, in their language.
func TestTheLimitOfApplicationsIsNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.member("")
	me := must(f.staff.ByEmail(t.Context(), f.db.Read(), w.email)).ID
	n := application.NewApplication{Name: "Mine", RedirectURIs: []string{"https://crm.example/cb"}}
	for range portal.MaxApplications {
		f.tx(func(tx postgres.Tx) { must(f.deps.Portal.Create(t.Context(), tx, me, n)) })
	}
	form := filled(w.get("/developers/new").form("/developers/new"), "name", "One more", "redirects",
		"https://crm.example/cb")
	w.post("/developers/new", form).want(t, 422, "You already own 10 applications, the maximum.")
	w.get("/developers?lang=fr")
	w.post("/developers/new", form).want(t, 422, "Vous possédez déjà 10 applications, le maximum.")
}

// In live nobody signs up, and nobody makes an application.
func TestLiveHasNoSignUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(d *services) { d.Sandbox = false })
	for _, path := range []string{"/developers/signup", "/developers/new"} {
		f.browser().get(path).want(t, http.StatusNotFound)
	}
	if p := f.browser().get("/developers/login"); strings.Contains(p.body, "/developers/signup") {
		t.Error("a sign-up is offered")
	}
	if _, err := f.deps.Portal.Create(t.Context(), f.db.Read(), "stf_x",
		application.NewApplication{}); err == nil {
		t.Error("an application is made")
	}
}

// ofSandbox has every page and every action.
func ofSandbox() *developers.Pages {
	return developers.New(signin.New(&shell.Shell{Sandbox: true}, signin.Deps{}),
		developers.Deps{Clock: &sandbox.Clock{}, Playground: &developers.Playground{}})
}

// The table of roles in developers.md matches the program.
func TestDevelopersTableIsWrittenDown(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# Who can see and do what in the developer portal\n\nWritten by a test (developers_test.go -update) from the tables in developers/pages.go and developers/acts.go. No one else has access.\n\n| | owner | developer | viewer | fresh sign-in |\n|---|---|---|---|---|\n")
	row := func(what string, need portal.Role, fresh bool) {
		fmt.Fprintf(&b, "| %s |", what)
		for _, r := range portal.Roles() {
			b.WriteString(map[bool]string{true: " x |", false: " |"}[need == "" || r.May(need)])
		}
		b.WriteString(map[bool]string{true: " x |\n", false: " |\n"}[fresh])
	}
	for _, r := range ofSandbox().Reads() {
		row("`"+r.Path+"`", portal.Viewer, false)
	}
	for _, a := range ofSandbox().Acts() {
		row(a.Name, a.Need, a.Fresh)
	}
	if *update {
		if err := os.WriteFile("developers.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(must(os.ReadFile("developers.md"))); got != b.String() {
		t.Error("developers.md is out of date: run this test with -update")
	}
}

// While an application is suspended, its team can read everything and end things. Actions that begin something say on
// their page why they are refused.
func TestASuspendedApplicationIsReadAndEnded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	address := f.portalOf()
	w := f.member(portal.Owner)
	me := must(f.staff.ByEmail(t.Context(), f.db.Read(), w.email)).ID
	paths := map[string]string{}
	for _, a := range f.pages.developers.Acts() {
		paths[a.Name] = address(a.Path, me)
	}
	f.tx(func(tx postgres.Tx) {
		if err := f.apps.SetSuspended(t.Context(), tx, f.app.ID, true); err != nil {
			t.Fatal(err)
		}
	})
	page := w.get(developers.Path(f.app.ID))
	page.want(t, 200, "Suspended", "The APIs reject its credentials and its tokens.",
		"Contact the operator of the service.")
	ends := []string{"secret-end", "signature", "uninvite", "role", "remove", "client-delete", "lawyer-delete",
		"lawyer-away"}
	form := url.Values{"csrf": {staff.FormToken(w.cookie(staff.CookieName(false)))}}
	for _, a := range f.pages.developers.Acts() {
		if a.Need == "" {
			continue // needs no application
		}
		if a.Ends != slices.Contains(ends, a.Name) {
			t.Errorf("%s: goes on while suspended: %t", a.Name, a.Ends)
		}
		p := w.post(paths[a.Name], form)
		if refused := p.StatusCode == http.StatusConflict &&
			strings.Contains(p.body, "The application is suspended"); refused == a.Ends {
			t.Errorf("%s while suspended: %d", a.Name, p.StatusCode)
		}
	}
}

// A person who joins continues in the language in which they read the invitation, whatever the language of its email.
func TestJoiningKeepsTheLanguageOfTheReader(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var link string
	f.tx(func(tx postgres.Tx) {
		var err error
		if _, link, err = f.deps.Portal.InviteTo(t.Context(), tx, "cli", f.app, "fleur@crm.example",
			portal.Developer, "en"); err != nil {
			t.Fatal(err)
		}
	})
	b := f.browser()
	b.header.Set("Accept-Language", "fr")
	page := b.get(strings.TrimPrefix(link, f.base))
	page.want(t, http.StatusOK, `<html lang="fr">`)
	form := filled(page.form("/developers/join"), "name", "Fleur", "password", staffPassword)
	b.post("/developers/join", form).want(t, http.StatusSeeOther)
	b.get("/staff/login/factor").want(t, http.StatusOK, `<html lang="fr">`)
	if who := must(f.staff.ByEmail(t.Context(), f.db.Read(), "fleur@crm.example")); who.Language != "fr" {
		t.Errorf("their language is %s", who.Language)
	}
}

// The checklist can be completed on a laptop: a URL on the developer's own machine counts neither as done nor as
// missing.
func TestTheChecklistLeavesAddressesOfALaptopForLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	live := f.portalOf()(developers.Path(":app", "live"), "")
	w := f.member(portal.Viewer)
	later := func() int { return strings.Count(w.get(live+"?lang=en").body, "not checked here") }
	before := later() // the text above the list
	f.tx(func(tx postgres.Tx) {
		change := application.Change{RedirectURIs: []string{"http://localhost:3000/callback"}}
		if _, _, err := f.deps.Applications.Update(t.Context(), tx, f.app.ID, change, false); err != nil {
			t.Fatal(err)
		}
	})
	if n := later(); n != before+1 {
		t.Errorf("%d items more are not checked, want 1", n-before)
	}
	w.get(live+"?lang=en").want(t, 200, "http://localhost:3000/callback works in the sandbox only.",
		"You need no tunnel")
	w.get(live+"?lang=fr").want(t, 200, "non vérifié ici",
		"http://localhost:3000/callback ne fonctionne que dans le bac à sable.")
}
