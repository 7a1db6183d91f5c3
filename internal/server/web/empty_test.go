package web

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/server/web/clients"
	"partnerd/internal/server/web/developers"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/operators"
	"partnerd/internal/server/web/shell"
)

// nothingToFill lists forms with at most one required field, with the reason.
var nothingToFill = map[string]string{
	"/logout": "a button", "/staff/logout": "a button", shell.ConsentPath: "boxes that may all be left empty",
	"/checkout/:id": "two buttons", "/account/apps/:id/disconnect": "a box",
	"/account/security/sessions/end": "a button", "/account/security/sessions/:id/end": "a button",
	"/account/security/email/confirm": "a button", "/account/security/passkeys/:id/remove": "a button",
	"/account/phone/zone": "a list with a choice", "/account/wallet/topup": "a list with a choice",
	"/account/wallet/topups/:id/cancel": "a button", "/account/wallet/refund": "a button",
	"/account/consultations/:id/cancel": "a button", "/account/consultations/:id/withdraw": "a button",
	"/account/privacy/return": "a button", shell.StaffSafety + "/language": "a list with a choice",
	shell.StaffSafety + "/sessions/end": "a button", shell.StaffSafety + "/sessions/:id/end": "a button",
	shell.StaffSafety + "/passkeys/:id/remove": "a button",

	"/login/passkey": "the answer of a device", "/staff/login/passkey": "the answer of a device",
	"/account/security/passkeys": "one field", shell.StaffSafety + "/passkeys": "one field",
	"/signup/confirm": "one field",
	"/password/reset": "one field", "/email/undo": "one field", "/account/phone/code": "one field",
	"/staff/login/code": "one field", "/staff/login/factor": "one field", "/staff/invitation": "one field",
	"/staff/password/reset": "one field",
	"/developers/join":      "TestAFormSentEmptyNamesEveryFieldToFillIn",
}

var (
	formShown  = regexp.MustCompile(`(?s)<form [^>]*action="([^"]*)"[^>]*>(.*?)</form>`)
	toFillIn   = regexp.MustCompile(`<(?:input|textarea|select) [^>]*name="([^"]+)"[^>]* required`)
	hiddenSent = regexp.MustCompile(`<input type="hidden" name="([^"]+)"(?: autocomplete="[^"]*")? value="([^"]*)"`)
)

// sendsEmpty sends a form with its hidden fields only, and expects an error at each required field. It returns their
// number.
func (b *browser) sendsEmpty(t *testing.T, path, action string) (required int) {
	t.Helper()
	p := b.get(path)
	for _, m := range formShown.FindAllStringSubmatch(p.body, -1) {
		if m[1] != action {
			continue
		}
		form := url.Values{}
		for _, h := range hiddenSent.FindAllStringSubmatch(m[2], -1) {
			form.Set(h[1], h[2])
		}
		answer := b.post(action, form)
		for _, f := range toFillIn.FindAllStringSubmatch(m[2], -1) {
			required++
			if !strings.Contains(answer.body, `id="`+f[1]+`-fault"`) {
				t.Errorf("%s: %d without an error at %s", action, answer.StatusCode, f[1])
			}
		}
		if required > 0 && answer.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", action, answer.StatusCode)
		}
		return required
	}
	t.Errorf("%s has no form for %s: %d", path, action, p.StatusCode)
	return 0
}

// An empty form names every required field, not only the first one.
func TestAFormSentEmptyNamesEveryFieldToFillIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous).work()
	sent, client := map[string]bool{}, f.browser().signIn(f.client.Email)
	member := f.member(portal.Owner)
	for _, c := range []struct {
		b            *browser
		path, action string
		fields       int
	}{
		{f.browser(), "/login", "/login", 2}, {f.browser(), "/signup", "/signup", 2},
		{f.browser(), "/password/forgot", "/password/forgot", 1},
		{client, "/account/security", "/account/security/password", 2},
		{client, clients.EmailFormAddress, clients.EmailFormAddress, 2},
		{client, clients.PhoneFormAddress, clients.PhoneFormAddress, 1}, {client, "/account/privacy/erase",
			"/account/privacy/erase", 1},
		{f.browser(), shell.StaffLogin, shell.StaffLogin, 2}, {f.browser(), "/staff/password/forgot",
			"/staff/password/forgot", 1},
		{member.browser, shell.StaffSafety, shell.StaffSafety + "/password", 2}, {member.browser, shell.StaffSafety,
			shell.StaffSafety + "/codes", 1},
		{f.browser(), "/developers/signup", "/developers/signup", 1},
	} {
		sent[c.action] = true
		if n := c.b.sendsEmpty(t, c.path, c.action); n != c.fields {
			t.Errorf("%s has %d fields to fill in, want %d", c.action, n, c.fields)
		}
	}
	b := f.browser()
	b.send("/developers/signup", "/developers/signup", "email", "new@crm.example").want(t, http.StatusOK)
	link := f.linkIn(f.letter("new@crm.example", ""))
	if n := b.sendsEmpty(t, link, "/developers/join"); n != 2 {
		t.Errorf("the form to join has %d fields to fill in", n)
	}
	for _, path := range f.posts() {
		act := strings.HasPrefix(path, shell.OperatorDesk+"/") || strings.HasPrefix(path, shell.LawyersDesk+"/") ||
			strings.HasPrefix(path, "/developers/apps/") || path == "/developers/new"
		if !act && sent[path] == (nothingToFill[path] != "") {
			t.Errorf("%s is sent empty: %t, and has a reason not to be: %q", path, sent[path], nothingToFill[path])
		}
	}
}

// actsEmpty sends the form of an action empty.
func (w *worker) actsEmpty(t *testing.T, what, path string, fields []forms.Field) {
	t.Helper()
	form := url.Values{"csrf": {staff.FormToken(w.cookie(staff.CookieName(false)))},
		"entry": {w.f.db.Read().NewID("aud")}, "once": {rand.Text()}}
	p, required := w.post(path, form), 0
	for _, field := range fields {
		if field.Name == "" || field.Refuses(url.Values{}) == nil {
			continue
		}
		required++
		if !strings.Contains(p.body, `id="`+field.Name+`-fault"`) {
			t.Errorf("%s: %d without an error at %s", what, p.StatusCode, field.Name)
		}
	}
	if required > 0 && p.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("%s, sent empty: %d", what, p.StatusCode)
	}
}

// The same holds for the forms of the operators' desk.
func TestAnActOfOperatorsSentEmptyNamesEveryFieldToFillIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	subjects, _ := f.opsDesk()
	w := f.operator(staff.Admin)
	for _, a := range f.pages.operators.Acts() {
		fields := []forms.Field{{Name: "reason"}}
		if a.Fields != nil {
			call := operators.Call{Subject: subjects[strings.Split(a.Path, "/")[2]], Lang: "en"}
			fields = append(fields, must(a.Fields(t.Context(), f.db.Read(), call))...)
		}
		w.actsEmpty(t, a.Name, addressOf(a.Path, subjects, f.app.ID), fields)
	}
}

// The same holds for the forms of the portal.
func TestAnActOfPartnersSentEmptyNamesEveryFieldToFillIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	address := f.portalOf()
	w := f.member(portal.Owner)
	me := must(f.staff.ByEmail(t.Context(), f.db.Read(), w.email)).ID
	for _, a := range f.pages.developers.Acts() {
		if a.Fields == nil {
			continue
		}
		path := address(a.Path, me)
		call := developers.Call{Of: f.app, Lang: "en", Subject: strings.Split(path+"/////", "/")[5]}
		w.actsEmpty(t, a.Name, path, must(a.Fields(t.Context(), f.db.Read(), call)))
	}
}

// If several values are invalid, each gets its own message with the rule and the value, in the reader's language.
func TestSeveralBadValuesAreAllNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := f.member(portal.Owner)
	path := developers.Path(f.app.ID, "clients", "new")
	form := url.Values{"csrf": {staff.FormToken(m.cookie(staff.CookieName(false)))}, "once": {rand.Text()},
		"name": {"Ann"}, "euros": {"lots"}, "zone": {"Mars/Olympus"}}
	m.get("/developers?lang=fr")
	m.post(path, form).want(t, http.StatusUnprocessableEntity, "lots\u00a0» n’est pas un montant en euros",
		"Mars/Olympus\u00a0» n’est pas un fuseau horaire")
	f.opsDesk()
	w := f.operator(staff.Admin)
	act := url.Values{"csrf": {staff.FormToken(w.cookie(staff.CookieName(false)))}, "entry": {f.db.Read().NewID("aud")},
		"reason": {"A test"}}
	act.Set("name", "see evil.example")
	act.Set("email", "nobody")
	act.Set("phone", "12")
	p := w.post(operators.Path("lawyers", "invite"), act)
	p.want(t, http.StatusUnprocessableEntity, "A name must not contain a web address",
		"“nobody” is not an email address.",
		"This number cannot be called.", `id="competences-fault"`, `id="languages-fault"`)
	other := f.completed()
	act.Set("amount", "30")
	w.post(operators.Path("consultations", other.ID, "refund"), act).want(t, http.StatusUnprocessableEntity,
		`id="amount-fault"`, "€30.00 is more than €20.00, the maximum here.")
	w.get("/ops?lang=fr")
	w.post(operators.Path("consultations", other.ID, "refund"), act).want(t, http.StatusUnprocessableEntity,
		"30,00\u00a0€ dépasse 20,00\u00a0€")
}

// While a previous secret works, the form to replace the secret asks which of the two ends. The current secret can be
// replaced immediately.
func TestTheNewestSecretIsReplacedOnThePage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.portalOf()
	w := f.member(portal.Owner)
	for _, path := range []string{developers.Path(f.app.ID, "secret"),
		developers.Path(f.app.ID, "webhooks", "secret")} {
		send := func(end string) page {
			form := w.get(path).form(path)
			form.Set("hours", "1")
			form.Set("end", end)
			p := w.post(path, form)
			if again := w.post(path, form); p.StatusCode == http.StatusSeeOther &&
				again.Header.Get("Location") != p.Header.Get("Location") {
				t.Errorf("%s sent twice leads to %s and %s", path, p.Header.Get("Location"),
					again.Header.Get("Location"))
			}
			return p
		}
		if p := send(""); p.StatusCode != http.StatusSeeOther {
			t.Fatalf("%s: %d\n%s", path, p.StatusCode, p.body)
		}
		w.get(path).want(t, http.StatusOK, "Secret to end now", "The current secret, for example after a leak")
		send("").want(t, http.StatusUnprocessableEntity, `id="end-fault"`, "choose which of the two to end now")
		before := must(f.deps.Applications.Get(t.Context(), f.db.Read(), f.app.ID)).PreviousSecretUntil
		if p := send("newest"); p.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: %d\n%s", path, p.StatusCode, p.body)
		}
		if after := must(f.deps.Applications.Get(t.Context(),
			f.db.Read(), f.app.ID)).PreviousSecretUntil; !after.Equal(*before) {
			t.Errorf("%s: the previous secret works until %s, and before until %s", path, after, before)
		}
	}
}
