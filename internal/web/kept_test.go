package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"partnerd/internal/portal"
	"partnerd/internal/staff"
)

// A form that is sent after the session has ended, or when it is too old, is shown again, filled in, to the person who sent it once they have
// signed in; nothing is done meanwhile, and nobody else sees it.
func TestAFormOutlivesItsSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.member(portal.Owner)
	const address = "/developers/new"
	form := w.get(address).form(address)
	form.Set("name", "Kept CRM")
	form.Set("redirects", "https://crm.example/kept")
	sessions := func(b *browser) {
		b.client.Jar.SetCookies(must(url.Parse(b.base)), []*http.Cookie{{Name: staff.CookieName(false), Value: "", Path: "/", MaxAge: -1}})
	}
	sessions(w.browser)
	p := w.post(address, form)
	p.wantRedirect(t, http.StatusSeeOther, "/staff/login?next=%2Fdevelopers%2Fnew")
	for _, k := range p.Cookies() {
		if strings.Contains(k.Value, "Kept") || len(k.Value) > maxKept {
			t.Errorf("the cookie is %q", k.Value)
		}
	}
	w.get(p.Header.Get("Location")).want(t, 200, "Sign in to the developer portal")
	kept := w.cookie(keptCookie)
	w.password(w.browser, staffPassword)
	f.clock.Advance(time.Minute)
	w.enter(w.browser, w.code())
	w.get(address).want(t, 200, "Kept CRM", "https://crm.example/kept", "nothing was done")
	if again := w.get(address); strings.Contains(again.body, "Kept CRM") {
		t.Error("the form is shown for ever")
	}
	if list := must(f.pages.deps.Portal.Applications(t.Context(), f.db.Read(), form.Get("who"))); len(list) != 1 {
		t.Errorf("%d applications", len(list))
	}
	other := f.member(portal.Owner)
	other.client.Jar.SetCookies(must(url.Parse(other.base)), []*http.Cookie{{Name: keptCookie, Value: kept, Path: "/"}})
	if p := other.get(address); strings.Contains(p.body, "Kept CRM") {
		t.Error("another person sees the form")
	}
	f.clock.Advance(keptLifetime + time.Second)
	w.client.Jar.SetCookies(must(url.Parse(w.base)), []*http.Cookie{{Name: keptCookie, Value: kept, Path: "/"}})
	if p := w.get(address); strings.Contains(p.body, "Kept CRM") {
		t.Error("an old form is shown")
	}
}
