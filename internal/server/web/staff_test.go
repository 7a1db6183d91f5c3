package web

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/pquerna/otp/totp"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/shell"
)

// worker is a staff member in a browser.
type worker struct {
	*browser
	f      *fixture
	email  string
	secret string   // of the device
	codes  []string // recovery codes
}

const staffPassword = "a long phrase for the desk"

var (
	secretShown = regexp.MustCompile(`<code>([A-Z2-7 ]{32,})</code>`)
	codeShown   = regexp.MustCompile(`<code>([0-9a-z]{4}(?:-[0-9a-z]{4}){3})</code>`)
)

// join accepts an invitation as people do: password, device, recovery codes.
func (f *fixture) join(n staff.NewPerson) *worker {
	f.t.Helper()
	w := &worker{browser: f.browser(), f: f, email: n.Email}
	var link string
	f.tx(func(tx postgres.Tx) {
		var err error
		if _, link, err = f.staff.Invite(f.t.Context(), tx, n); err != nil {
			f.t.Fatal(err)
		}
	})
	form := w.get(strings.TrimPrefix(link, f.base)).form("/staff/invitation")
	form.Set("password", staffPassword)
	w.post("/staff/invitation", form).wantRedirect(f.t, http.StatusSeeOther, "/staff/login/code")
	w.get("/staff/login/code").wantRedirect(f.t, http.StatusSeeOther, "/staff/login/factor")
	page := w.get("/staff/login/factor")
	w.secret = strings.ReplaceAll(secretShown.FindStringSubmatch(page.body)[1], " ", "")
	form = page.form("/staff/login/factor")
	form.Set("code", w.code())
	page = w.showsCodesOnce(w.post("/staff/login/factor", form))
	for _, m := range codeShown.FindAllStringSubmatch(page.body, -1) {
		w.codes = append(w.codes, m[1])
	}
	if strings.Contains(page.body, "?lang=") {
		f.t.Error("a link leads away from codes that nobody sees again")
	}
	if page.StatusCode != 200 || len(w.codes) != 10 {
		f.t.Fatalf("%d, recovery codes %v\n%s", page.StatusCode, w.codes, page.body)
	}
	return w
}

// showsCodesOnce follows the response of a form to the page with new recovery codes.
func (w *worker) showsCodesOnce(answer page) page {
	w.t.Helper()
	to := answer.Header.Get("Location")
	if answer.StatusCode != http.StatusSeeOther || codeShown.MatchString(answer.body) {
		w.t.Fatalf("%d to %q\n%s", answer.StatusCode, to, answer.body)
	}
	shown := w.get(to)
	if shown.StatusCode != http.StatusOK || !codeShown.MatchString(shown.body) {
		w.t.Fatalf("%s: %d\n%s", to, shown.StatusCode, shown.body)
	}
	if again := w.get(to); codeShown.MatchString(again.body) {
		w.t.Errorf("codes are shown again: %s", again.body)
	}
	return shown
}

// code returns the current code of the device.
func (w *worker) code() string { return must(totp.GenerateCode(w.secret, w.f.clock.Now())) }

func (f *fixture) operator(roles ...staff.Role) *worker {
	return f.join(staff.NewPerson{Kind: staff.Operator, Email: fmt.Sprintf("operator-%d@partners.example",
		f.clock.Now().Unix()), Name: "Olga Operator", Language: "en", Roles: roles})
}

func (f *fixture) lawyer() *worker {
	f.t.Helper()
	f.tx(func(tx postgres.Tx) {
		err := dbtest.Exec(f.t.Context(), tx,
			`INSERT INTO lawyers (id, email, name, password_hash, state, created_at, updated_at) VALUES ('law_1', 'l@bar.example', 'L', '!', 'OFFLINE', $1, $1)`, f.clock.Now())
		if err != nil {
			f.t.Fatal(err)
		}
	})
	return f.join(staff.NewPerson{Kind: staff.Lawyer, LawyerID: "law_1", Email: "l@bar.example",
		Name: "Lea Lawyer", Language: "fr"})
}

// password enters the password in the browser b.
func (w *worker) password(b *browser, password string) page {
	form := b.get("/staff/login?next=/ops").form("/staff/login")
	form.Set("email", w.email)
	form.Set("password", password)
	return b.post("/staff/login", form)
}

func (w *worker) enter(b *browser, code string) page {
	form := b.get("/staff/login/code?next=/ops").form("/staff/login/code")
	form.Set("code", code)
	return b.post("/staff/login/code", form)
}

func TestStaffSignInTakesTwoFactors(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.operator(staff.Support)
	first := w.cookie("partnerd_staff")
	w.get("/staff/security").want(t, 200, "Unused codes: 10.", "this browser")
	w.post("/staff/logout", w.get("/ops").form("/staff/logout")).wantRedirect(t, http.StatusSeeOther, "/staff/login")
	if w.cookie("partnerd_staff") != "" {
		t.Error("the cookie stays")
	}
	w.get("/ops").wantRedirect(t, http.StatusSeeOther, "/staff/login?next=%2Fops")

	b := f.browser()
	w.password(b, "a wrong phrase for it").want(t, 422, "password is incorrect")
	other := *w
	other.email = "nobody@partners.example"
	other.password(b, staffPassword).want(t, 422, "password is incorrect")
	w.password(b, staffPassword).wantRedirect(t, http.StatusSeeOther, "/staff/login/code?next=%2Fops")
	half := b.cookie("partnerd_staff")
	b.get("/ops").wantRedirect(t, http.StatusSeeOther, "/staff/login?next=%2Fops") // the password alone gives no access
	b.get("/staff/security").wantRedirect(t, http.StatusSeeOther, "/staff/login?next=%2Fstaff%2Fsecurity")
	b.get("/staff/login/factor").wantRedirect(t, http.StatusSeeOther, "/staff/login") // and shows no secret
	// used by the sign-in at the invitation
	w.enter(b, w.code()).want(t, 422, "has already been used")
	f.clock.Advance(30 * time.Second)
	w.enter(b, w.code()).wantRedirect(t, http.StatusSeeOther, "/ops")
	if full := b.cookie("partnerd_staff"); full == half || full == first || full == "" {
		t.Errorf("tokens %q %q %q", first, half, full)
	}
	b.get("/ops").want(t, 200)
	f.clock.Advance(31 * time.Minute)
	b.get("/ops").wantRedirect(t, http.StatusSeeOther, "/staff/login?next=%2Fops")

	w.password(b, staffPassword)
	w.enter(b, strings.ToUpper(w.codes[3])).wantRedirect(t, http.StatusSeeOther, "/ops")
	b.get("/staff/security").want(t, 200, "Unused codes: 9.")
	b = f.browser()
	w.password(b, staffPassword)
	w.enter(b, w.codes[3]).want(t, 422, "has already been used")
}

func TestStaffFormsAreOfTheSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.operator(staff.Admin)
	for _, path := range []string{"/staff/logout", "/staff/security/password", "/staff/security/codes",
		"/staff/security/language", "/staff/security/sessions/end"} {
		w.post(path, url.Values{"csrf": {"x"}, "language": {"fr"}}).want(t, 403)
	}
	w.get("/staff/security").want(t, 200)

	f.clock.Advance(time.Minute)
	b := f.browser()
	// of a form created for another browser
	foreign := f.browser().get("/staff/login").form("/staff/login").Get("csrf")
	refused := func(path string, form url.Values) {
		t.Helper()
		form.Set("csrf", foreign)
		b.post(path, form).want(t, 403)
	}
	b.get("/staff/login")
	refused("/staff/login", url.Values{"email": {w.email}, "password": {staffPassword}})
	refused("/staff/password/forgot", url.Values{"email": {w.email}})
	w.password(b, staffPassword)
	refused("/staff/login/code", url.Values{"code": {w.code()}})
	var invitation string
	f.tx(func(tx postgres.Tx) {
		_, link, err := f.staff.Invite(t.Context(), tx, staff.NewPerson{Kind: staff.Operator,
			Email: "new@partners.example", Name: "N", Language: "en", Roles: []staff.Role{staff.Support}})
		if err != nil {
			t.Fatal(err)
		}
		_, invitation, _ = strings.Cut(link, "token=")
	})
	use := url.Values{"token": {invitation}, "password": {staffPassword}}
	refused("/staff/invitation", use)
	use.Set("csrf", b.get("/staff/invitation?token="+invitation).form("/staff/invitation").Get("csrf"))
	b.post("/staff/invitation", use).wantRedirect(t, http.StatusSeeOther, "/staff/login/code")
	refused("/staff/login/factor", url.Values{"code": {"000000"}})
	// without a second factor
	b.get("/staff/security").wantRedirect(t, http.StatusSeeOther, "/staff/login?next=%2Fstaff%2Fsecurity")
}

// A page is open to people of the right kind and role, and only in a staff session.
func TestPagesAreForTheirRoles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := echo.New()
	here := func(c echo.Context, _ staff.Session) error { return c.NoContent(http.StatusNoContent) }
	pages := map[string]echo.HandlerFunc{"/lawyer": f.pages.signIn.WithLawyer(here),
		"/any":     f.pages.signIn.WithOperator(nil, here),
		"/finance": f.pages.signIn.WithOperator([]staff.Role{staff.Finance}, here),
		"/both":    f.pages.signIn.WithOperator([]staff.Role{staff.Support, staff.Security}, here)}
	for path, h := range pages {
		e.GET(path, h)
	}
	client := f.browser().signIn(f.client.Email).cookie("partnerd")
	tokens := map[string]string{"lawyer": f.lawyer().cookie("partnerd_staff"), "client": client, "nobody": ""}
	for _, role := range []staff.Role{staff.Support, staff.Finance, staff.Admin} {
		f.clock.Advance(time.Second)
		tokens[string(role)] = f.operator(role).cookie("partnerd_staff")
	}
	open := map[string]string{"/lawyer": "lawyer", "/any": "support finance admin", "/finance": "finance admin",
		"/both": "support admin"}
	for path := range pages {
		for who, token := range tokens {
			want := http.StatusForbidden
			switch {
			case who == "client" || who == "nobody":
				want = http.StatusSeeOther
			case strings.Contains(open[path], who):
				want = http.StatusNoContent
			}
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.AddCookie(&http.Cookie{Name: "partnerd_staff", Value: token})
			r.AddCookie(&http.Cookie{Name: "partnerd", Value: client})
			w := httptest.NewRecorder()
			e.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s as %s: %d, want %d", path, who, w.Code, want)
			}
		}
	}
	b := f.browser()
	b.header = http.Header{"Cookie": {"partnerd=" + tokens["admin"]}}
	b.get("/account").wantRedirect(t, http.StatusFound, "/login?next=%2Faccount")
}

func TestASignInLeadsToADeskOnly(t *testing.T) {
	t.Parallel()
	operator, lawyer := staff.Person{Kind: staff.Operator}, staff.Person{Kind: staff.Lawyer}
	for _, c := range []struct {
		raw    string
		person staff.Person
		want   string
	}{
		{"/ops", operator, "/ops"}, {"/ops/refunds?page=2", operator, "/ops/refunds?page=2"},
		{"/desk/con_1", lawyer, "/desk/con_1"}, {"/staff/security", lawyer, "/staff/security"},
		{"", operator, "/ops"}, {"", lawyer, "/desk"}, {"/account", lawyer, "/desk"}, {"/opsy", operator, "/ops"},
		{"//evil.example/ops", operator, "/ops"}, {"/\\evil.example", operator, "/ops"},
		{"https://evil.example/ops", operator, "/ops"}, {"/ops/..//evil.example", operator, "/ops"},
		{"/ops\t//evil.example", operator, "/ops"}, {"/staff/logout", operator, "/ops"},
		{"/api/oauth/authorize?client_id=app_1", operator, "/ops"},
	} {
		if got := shell.StaffNext(c.raw, c.person); got != c.want {
			t.Errorf("%q leads a %s to %q, want %q", c.raw, c.person.Kind, got, c.want)
		}
	}
}

// Codes of the device are counted per person, across sessions and processes.
func TestCodesAreGuessedOfAPersonNotOfASession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous)
	w := f.operator(staff.Admin)
	f.clock.Advance(time.Minute)
	for range shell.GuessQuota.Burst {
		b := f.browser()
		w.password(b, staffPassword).wantRedirect(t, http.StatusSeeOther, "/staff/login/code?next=%2Fops")
		w.enter(b, "000000").want(t, 422)
	}
	b := f.replica()
	w.password(b, staffPassword)
	p := w.enter(b, w.code())
	p.want(t, http.StatusTooManyRequests, "Too many wrong codes were entered. Enter a recovery code",
		`action="/staff/login/code"`)
	if p.Header.Get("Retry-After") != "3600" {
		t.Errorf("Retry-After %q", p.Header.Get("Retry-After"))
	}
}

// However a code is padded, it counts as the code that it is tried as. It is reported, and refused while the limit is
// reached.
func TestPaddingACodeEscapesNoLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous).work()
	w := f.operator(staff.Admin)
	f.clock.Advance(time.Minute)
	b := f.browser()
	w.password(b, staffPassword).wantRedirect(t, http.StatusSeeOther, "/staff/login/code?next=%2Fops")
	pads := []string{"\t", "\n", "\u0085", "\u2003", "\u3000", "\u200b", "\u200d", "\ufeff", "-", "_"}
	for i := range shell.GuessQuota.Burst {
		wrong := fmt.Sprintf("%06d", (i+1)*99_991)
		w.enter(b, wrong+strings.Repeat(pads[i%len(pads)], 10/len(pads[i%len(pads)]))).want(t, 422,
			"has already been used")
	}
	f.letter(w.email, "Someone knows your password")
	for _, pad := range append(pads, "") {
		w.enter(b, w.code()+strings.Repeat(pad, 10)).want(t, http.StatusTooManyRequests)
	}
	w.enter(b, w.codes[0]).wantRedirect(t, http.StatusSeeOther, "/ops")
}

// Wrong recovery codes are reported, and never keep a person from entering a right one.
func TestWrongRecoveryCodesAreToldAndKeepNobodyOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous).work()
	w := f.operator(staff.Admin)
	f.clock.Advance(time.Minute)
	stranger := f.browser()
	w.password(stranger, staffPassword)
	for range shell.GuessQuota.Burst + 2 {
		w.enter(stranger, "0000-0000-0000-0000").want(t, 422, "has already been used")
	}
	f.letter(w.email, "Someone knows your password")
	fresh := f.browser()
	w.password(fresh, staffPassword)
	w.enter(fresh, w.code()).wantRedirect(t, http.StatusSeeOther, "/ops")
	f.clock.Advance(time.Minute)
	other := f.browser()
	w.password(other, staffPassword)
	w.enter(other, w.codes[0]).wantRedirect(t, http.StatusSeeOther, "/ops")
}

// A stranger who only knows the password cannot lock out the owner, who is notified once a day.
func TestWhoKnowsThePasswordOnlyKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous).work()
	w := f.operator(staff.Admin)
	w.post("/staff/logout", w.get("/ops").form("/staff/logout"))
	f.clock.Advance(time.Minute)
	stranger := f.browser()
	w.password(stranger, staffPassword).wantRedirect(t, http.StatusSeeOther, "/staff/login/code?next=%2Fops")
	for range shell.GuessQuota.Burst {
		w.enter(stranger, "000000").want(t, 422, "has already been used")
	}
	w.enter(stranger, w.code()).want(t, http.StatusTooManyRequests)
	told := f.letter(w.email, "Someone knows your password")
	for _, part := range []string{"2026-06-01 08:31 UTC, from the IP address 127.0.0.1",
		f.base + "/staff/password/forgot", f.base + "/staff/security"} {
		if !strings.Contains(told.Text, part) {
			t.Errorf("the mail lacks %q: %s", part, told.Text)
		}
	}

	w.password(w.browser, staffPassword) // known, and therefore counted separately
	w.enter(w.browser, w.code()).wantRedirect(t, http.StatusSeeOther, "/ops")
	fresh := f.browser()
	w.password(fresh, staffPassword)
	w.enter(fresh, "0000-0000-0000-0000").want(t, 422)
	w.enter(fresh, w.codes[0]).wantRedirect(t, http.StatusSeeOther, "/ops")

	f.clock.Advance(time.Minute)
	renewal := w.get("/staff/security").form("/staff/security/codes")
	renewal.Set("code", w.code())
	w.showsCodesOnce(w.post("/staff/security/codes", renewal))
	f.letter(w.email, "recovery codes were replaced")
	f.outbox.mu.Lock()
	sent := slices.Clone(f.outbox.mails)
	f.outbox.mu.Unlock()
	if slices.ContainsFunc(sent, func(m mail.Message) bool { return m.Subject == told.Subject }) {
		t.Error("told again within a day")
	}
	change := w.get("/staff/security").form("/staff/security/password")
	change.Set("present", staffPassword)
	change.Set("password", "another phrase for the desk")
	w.post("/staff/security/password", change).wantRedirect(t, http.StatusSeeOther, "/staff/security?done=password")
	w.post("/staff/logout", w.get("/ops").form("/staff/logout"))
	f.clock.Advance(time.Minute)
	w.password(w.browser, "another phrase for the desk")
	// still known, after the password has changed
	w.enter(w.browser, w.code()).wantRedirect(t, http.StatusSeeOther, "/ops")
}

// Each secret that a signed-in person enters again is counted per purpose, and blocks nothing else.
func TestEachSecretThatIsShownOnceMoreIsCountedByItself(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous)
	w := f.operator(staff.Admin)
	f.clock.Advance(time.Minute)
	show := func(action string, values ...string) page {
		form := w.get("/staff/security").form(action)
		for i := 0; i < len(values); i += 2 {
			form.Set(values[i], values[i+1])
		}
		return w.post(action, form)
	}
	for range shell.GuessQuota.Burst {
		show("/staff/security/password", "present", "a wrong phrase for it", "password", "another phrase for the desk").
			want(t, 422)
	}
	show("/staff/security/password", "present", staffPassword, "password", "another phrase for the desk").
		want(t, http.StatusTooManyRequests)
	for range shell.GuessQuota.Burst - 1 {
		show("/staff/security/codes", "code", "000000").want(t, 422)
	}
	w.showsCodesOnce(show("/staff/security/codes", "code", w.code()))
	show("/staff/security/codes", "code", "000000").want(t, 422)
	show("/staff/security/codes", "code", "000000").want(t, http.StatusTooManyRequests)
	f.clock.Advance(time.Minute)
	b := f.browser()
	w.password(b, staffPassword)
	w.enter(b, w.code()).wantRedirect(t, http.StatusSeeOther, "/ops")
}

// Browsers store no personal data from a page. Tokens in its URL are sent to no other site.
func TestStaffPagesAreNotKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.operator(staff.Admin)
	for _, path := range []string{"/staff/login", "/staff/login?again=1", "/staff/login/code", "/staff/login/factor",
		"/staff/invitation?token=x", "/staff/password/forgot", "/staff/password/reset?token=x", "/staff/security",
		"/ops"} {
		h := w.get(path).Header
		if h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "same-origin" ||
			!strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: %v", path, h)
		}
	}
}

// Strangers who guess lock out each other, but not a browser that has signed in before.
func TestGuessingKeepsNoWorkerOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(d *services) { d.LoginPerAccount, d.LoginPerAddress = 1000, 1000 })
	w := f.operator(staff.Admin)
	stranger := f.browser()
	for range shell.GuessQuota.Burst {
		w.password(stranger, "a wrong phrase for it").want(t, 422)
	}
	w.password(stranger, staffPassword).want(t, http.StatusTooManyRequests)
	w.post("/staff/logout", w.get("/ops").form("/staff/logout"))
	w.password(w.browser, staffPassword).wantRedirect(t, http.StatusSeeOther, "/staff/login/code?next=%2Fops")
	for range shell.GuessQuota.Burst {
		w.enter(w.browser, "000000").want(t, 422)
	}
	f.clock.Advance(time.Minute)
	w.enter(w.browser, w.code()).want(t, http.StatusTooManyRequests)
	f.clock.Advance(time.Hour)
	w.password(w.browser, staffPassword)
	w.enter(w.browser, w.code()).wantRedirect(t, http.StatusSeeOther, "/ops")
}

// A stranger who guesses from the same network does not lock out a known browser.
func TestGuessingFromOneNetworkKeepsNoKnownBrowserOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(d *services) { d.LoginPerAddress = 2 })
	w, client := f.operator(staff.Admin), f.browser().signIn("client@example.com")
	w.post("/staff/logout", w.get("/ops").form("/staff/logout"))
	client.post("/logout", client.get("/account").form("/logout"))
	for _, email := range []string{"a@example.com", "b@example.com"} {
		f.browser().try(email, "guess").want(t, 422)
	}
	f.browser().try("c@example.com", "guess").want(t, http.StatusTooManyRequests)
	w.password(w.browser, staffPassword).wantRedirect(t, http.StatusSeeOther, "/staff/login/code?next=%2Fops")
	client.signIn("client@example.com")
}

func TestWorkersLookAfterTheirSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t).work()
	w := f.operator(staff.Admin)
	f.clock.Advance(time.Minute)
	form := w.get("/staff/security").form("/staff/security/codes")
	form.Set("code", w.code())
	page := w.showsCodesOnce(w.post("/staff/security/codes", form))
	page.want(t, 200, "Your recovery codes", `download="recovery-codes.txt"`)
	if strings.Contains(page.body, w.codes[0]) {
		t.Error("an old code is shown")
	}
	var fresh []string
	for _, m := range codeShown.FindAllStringSubmatch(page.body, -1) {
		fresh = append(fresh, m[1])
	}
	_, saved, _ := strings.Cut(page.body, `href="data:text/plain;charset=utf-8,`)
	saved, _, _ = strings.Cut(saved, `"`)
	file, err := url.PathUnescape(html.UnescapeString(saved))
	if err != nil || file != strings.Join(fresh, "\r\n")+"\r\n" {
		t.Errorf("the file has %q, the page %q: %v", file, fresh, err)
	}
	script := regexp.MustCompile(`<script src="(/assets/codes[^"]*)" defer>`).FindStringSubmatch(page.body)
	if policy := page.Header.Get("Content-Security-Policy"); script == nil ||
		!strings.HasSuffix(policy, "; script-src 'self'") {
		t.Fatalf("script %q under %q", script, policy)
	}
	if got := page.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("the codes are kept: %q", got)
	}
	w.get(script[1]).want(t, http.StatusOK, "codes-copy", "codes-print")
	form = w.get("/staff/security").form("/staff/security/language")
	form.Set("language", "fr")
	w.post("/staff/security/language", form)
	w.get("/staff/security").want(t, 200, "Langue", `<html lang="fr">`)
	form = w.get("/staff/security?lang=en").form("/staff/security/password")
	form.Set("present", "a wrong phrase for it")
	form.Set("password", "another phrase for the desk")
	w.post("/staff/security/password", form).want(t, 422, "not your current password")
	form.Set("present", staffPassword)
	w.post("/staff/security/password", form).wantRedirect(t, http.StatusSeeOther, "/staff/security?done=password")

	b := f.browser()
	form = b.get("/staff/password/forgot").form("/staff/password/forgot")
	form.Set("email", w.email)
	b.post("/staff/password/forgot", form).want(t, 200, "emailed a link")
	link := ""
	for n := 1; link == ""; n++ {
		if m := regexp.MustCompile(`\S+/staff/password/reset\?token=\S+`).FindString(f.mail(n).Text); m != "" {
			link = strings.TrimPrefix(m, f.base)
		}
	}
	form = b.get(link).form("/staff/password/reset")
	form.Set("password", "short")
	b.post("/staff/password/reset", form).want(t, 422, "12 to 256")
	form.Set("password", staffPassword)
	b.post("/staff/password/reset", form).wantRedirect(t, http.StatusSeeOther, "/staff/login/code")
	b.get(link).want(t, 410)
	w.get("/ops").wantRedirect(t, http.StatusSeeOther, "/staff/login?next=%2Fops") // signed out by it
	f.clock.Advance(time.Minute)
	w.enter(b, w.code()).wantRedirect(t, http.StatusSeeOther, "/ops") // the second factor is the same
}

// The email of an invitation names its sender, says when it ends, and distinguishes a new invitation from the previous
// one. A name that contains a link is refused. An operator with such a name from before can still get other roles.
func TestAnInvitationToWorkNamesWhoSendsIt(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t).work(), t.Context()
	invited := staff.NewPerson{Kind: staff.Operator, Email: "olga@partners.example", Name: "Olga Operator",
		Language: "en", Roles: []staff.Role{staff.Admin}}
	olga := f.invitedBy(func(tx postgres.Tx) (staff.Person, string, error) { return f.staff.Invite(ctx, tx, invited) })
	if m := f.mail(1); !strings.Contains(m.Text, "invited by the partnerd team") ||
		!strings.Contains(m.Text, " UTC.") {
		t.Error(m.Text)
	}
	invited.Email, invited.SentBy = "new@partners.example", olga.ID
	anew := f.invitedBy(func(tx postgres.Tx) (staff.Person, string, error) { return f.staff.Invite(ctx, tx, invited) })
	if m := f.mail(2); !strings.Contains(m.Text, "invited by Olga Operator (olga@partners.example) to work") ||
		m.Subject != "You are invited to work with partnerd" {
		t.Error(m)
	}
	f.invitedBy(func(tx postgres.Tx) (staff.Person, string, error) {
		return f.staff.Reinvite(ctx, tx, anew.ID, olga.ID)
	})
	if m := f.mail(3); !strings.Contains(m.Text, "sent a new invitation by Olga Operator (olga@partners.example)") ||
		m.Subject != "Your new invitation to partnerd" {
		t.Error(m)
	}
	invited.Email, invited.Name = "other@partners.example", "Pay at evil.com"
	if err := f.db.InTx(ctx, func(tx postgres.Tx) error {
		_, _, err := f.staff.Invite(ctx, tx, invited)
		return err
	}); !errors.Is(err, staff.ErrInvalid) {
		t.Error(err)
	}
	f.tx(func(tx postgres.Tx) {
		if err := tx.Gorm(ctx).Exec("UPDATE staff SET name = 'Pay at evil.com' WHERE id = ?",
			anew.ID).Error; err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.staff.SetRoles(ctx, tx, anew.ID, []staff.Role{staff.Support}); err != nil {
			t.Error(err)
		}
	})
}

func (f *fixture) invitedBy(do func(postgres.Tx) (staff.Person, string, error)) (p staff.Person) {
	f.t.Helper()
	f.tx(func(tx postgres.Tx) {
		var err error
		if p, _, err = do(tx); err != nil {
			f.t.Fatal(err)
		}
	})
	return p
}
