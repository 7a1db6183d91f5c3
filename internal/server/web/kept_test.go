package web

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"partnerd/internal/domain/account"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/server/web/clients"
	"partnerd/internal/server/web/lawyers"
	"partnerd/internal/server/web/shell"
)

// A form can arrive after its session has ended, or when the sign-in is too old. It is shown again, filled in, only to
// its sender after they signed in. Until then nothing is done.
func TestAFormOutlivesItsSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.member(portal.Owner)
	const address = "/developers/new"
	form := w.get(address).form(address)
	form.Set("name", "Kept CRM")
	form.Set("redirects", "https://crm.example/kept")
	sessions := func(b *browser) {
		b.client.Jar.SetCookies(must(url.Parse(b.base)), []*http.Cookie{{Name: staff.CookieName(false), Value: "",
			Path: "/", MaxAge: -1}})
	}
	sessions(w.browser)
	p := w.post(address, form)
	p.wantRedirect(t, http.StatusSeeOther, "/staff/login?next=%2Fdevelopers%2Fnew")
	for _, k := range p.Cookies() {
		if strings.Contains(k.Value, "Kept") || len(k.Value) > shell.MaxKept {
			t.Errorf("the cookie is %q", k.Value)
		}
	}
	w.get(p.Header.Get("Location")).want(t, 200, "Sign in to the developer portal")
	kept := w.cookie(shell.KeptCookie)
	w.password(w.browser, staffPassword)
	f.clock.Advance(time.Minute)
	w.enter(w.browser, w.code())
	w.get(address).want(t, 200, "Kept CRM", "https://crm.example/kept", "nothing was done")
	if again := w.get(address); strings.Contains(again.body, "Kept CRM") {
		t.Error("the form is shown for ever")
	}
	if list := must(f.deps.Portal.Applications(t.Context(), f.db.Read(), form.Get("who"))); len(list) != 1 {
		t.Errorf("%d applications", len(list))
	}
	other := f.member(portal.Owner)
	other.client.Jar.SetCookies(must(url.Parse(other.base)), []*http.Cookie{{Name: shell.KeptCookie, Value: kept,
		Path: "/"}})
	if p := other.get(address); strings.Contains(p.body, "Kept CRM") {
		t.Error("another person sees the form")
	}
	f.clock.Advance(shell.KeptLifetime + time.Second)
	w.client.Jar.SetCookies(must(url.Parse(w.base)), []*http.Cookie{{Name: shell.KeptCookie, Value: kept, Path: "/"}})
	if p := w.get(address); strings.Contains(p.body, "Kept CRM") {
		t.Error("an old form is shown")
	}
}

// What a client or a lawyer typed is shown again after they signed in. Passwords, codes, phone numbers and private keys
// are never kept.
func TestFormsOfClientsAndLawyersOutliveTheSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous)
	id, _ := f.newLawyer()
	key := newKey(t)
	forgets := func(b *browser, name string) {
		b.client.Jar.SetCookies(must(url.Parse(b.base)), []*http.Cookie{{Name: name, Value: "", Path: "/", MaxAge: -1}})
	}
	for _, c := range []struct {
		page, action, field, value, shown string
		staff                             bool
	}{
		{"/account/wallet", "/account/wallet/topup", "amount", "4000", `<option value="4000" selected>`, false},
		{"/account/phone", "/account/phone/zone", "zone", "Asia/Tokyo", `<option selected>Asia/Tokyo`, false},
		{clients.EmailFormAddress, clients.EmailFormAddress, "email", "newer@example.com", `value="newer@example.com"`,
			false},
		{lawyers.KeyChangePage, lawyers.KeyChangePage, "recipient", key.Recipient().String(), key.Recipient().String(),
			true},
	} {
		name, signIn := shell.SessionCookie, func(b *browser) { b.signIn(f.client.Email) }
		if c.staff {
			name, signIn = staff.CookieName(false), func(b *browser) {
				b.client.Jar.SetCookies(must(url.Parse(b.base)),
					f.lawyerBrowser(id).client.Jar.Cookies(must(url.Parse(b.base))))
			}
		}
		b := f.browser()
		signIn(b)
		form := b.get(c.page).form(c.action)
		form.Set(c.field, c.value)
		for _, secret := range []string{"present", "code", "phone", "note", "preview", "new_password"} {
			form.Set(secret, "hidden value")
		}
		form.Set("typed", key.String()) // the private key, by mistake
		before := f.state()
		forgets(b, name)
		sent := b.post(c.action, form)
		sent.want(t, sent.StatusCode)
		if to := sent.Header.Get("Location"); !strings.HasSuffix(to, "next="+url.QueryEscape(c.page)) {
			t.Errorf("%s leads to %q", c.action, to)
		}
		f.unchanged(before, c.action+", without a session,")
		kept := must(base64.RawURLEncoding.DecodeString(b.cookie(shell.KeptCookie)))
		clear := string(
			must(io.ReadAll(flate.NewReader(bytes.NewReader(must(f.deps.Box.Open(shell.KeptCookie, kept)))))),
		)
		if strings.Contains(clear, "hidden value") || strings.Contains(clear, key.String()) ||
			!strings.Contains(clear, c.value) {
			t.Errorf("%s keeps %s", c.action, clear)
		}
		signIn(b)
		b.get(c.page).want(t, http.StatusOK, c.shown, "nothing was done")
		if again := b.get(c.page); strings.Contains(again.body, "nothing was done") {
			t.Errorf("%s is filled in for ever", c.page)
		}
	}
}

// A form that needs a recent sign-in is also shown again after it.
func TestAFormOutlivesAFreshSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous)
	b := f.browser().signIn(f.client.Email)
	form := filled(b.get("/account/phone").form("/account/phone/zone"), "zone", "Asia/Tokyo")
	f.clock.Advance(account.FreshSignIn + time.Second)
	b.post("/account/phone/zone", form).wantRedirect(t, http.StatusSeeOther, "/login?again=1&next=%2Faccount%2Fphone")
	b.signInAt("/login?again=1", f.client.Email)
	b.get("/account/phone").want(t, http.StatusOK, "<option selected>Asia/Tokyo", "nothing was done")
}

// A note sent without a session leads back to its draft, not to the page that corrects a note.
func TestANoteWithoutASessionLeadsToItsDraft(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lawyerID, b := f.newLawyer()
	b.press("/desk/duty", "do", "on")
	id := f.inCall(b)
	path := "/desk/consultations/" + id
	form := filled(b.get("/desk").form(path+"/note"), "note", "What was said.", "preview", "What may leave.")
	b.post(path+"/draft", form).wantRedirect(t, http.StatusSeeOther, "/desk?done=draft")
	f.clock.Advance(90 * time.Second)
	b.press(path+"/end", "", "")
	sent := f.browser().post(path+"/note", form)
	sent.wantRedirect(t, http.StatusSeeOther, "/staff/login?next="+url.QueryEscape(path+"/note"))
	if len(sent.Cookies()) > 0 {
		t.Errorf("something of the note is kept: %v", sent.Cookies())
	}
	again := f.lawyerBrowser(lawyerID)
	again.get(path+"/note").wantRedirect(t, http.StatusSeeOther, "/desk#note-"+id)
	again.press("/desk/duty", "do", "on").want(t, http.StatusOK, `id="note-`+id, "What was said.")
}
