package web

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/server/web/developers"
)

// The button of an error page leads to the start page of its reader.
func TestErrorsLeadToTheReadersOwnStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	operator, lawyer, partner := f.operator(staff.Support), f.lawyer(), f.member(portal.Viewer)
	client, guest := f.browser().signIn(f.client.Email), f.browser()
	for _, c := range []struct {
		name string
		p    page
		to   string
	}{
		{"a lawyer among operators", lawyer.get("/ops"), "/desk"},
		{"an operator at a lawyer's desk", operator.get("/desk"), "/ops"},
		{"a viewer who would act", partner.get(developers.Path(f.app.ID, "secret")), "/developers"},
		{"a partner's stale form", partner.post(developers.Path(f.app.ID, "edit"), nil), "/developers"},
		{"an operator's stale form", operator.post("/staff/security/language", nil), "/ops"},
		{"a lawyer's unknown page", lawyer.get("/nowhere"), "/desk"},
		{"a client's stale form", client.post("/account/security/password", nil), "/account"},
		{"a client's unknown page", client.get("/nowhere"), "/account"},
		{"a visitor", guest.get("/nowhere"), "/"},
	} {
		text := "Go to your home page"
		if c.to == "/" {
			text = "Go to the home page"
		}
		if c.p.StatusCode < 400 || !strings.Contains(c.p.body, `href="`+c.to+`">`+text+`<`) {
			t.Errorf("%s: %d\n%s", c.name, c.p.StatusCode, c.p.body)
		}
	}
}

// A secret that is shown once has a copy button, which only the script makes visible.
func TestSecretsShownOnceCanBeCopied(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.member(portal.Owner)
	path := developers.Path(f.app.ID, "secret")
	p := w.get(w.do(path, "hours", "24").Header.Get("Location"))
	p.want(t, http.StatusOK, `<span id="secret0"><code>sk_`,
		`data-copy="secret0" aria-label="Copy: Client secret" hidden>Copy</button>`, `data-copied="Copied"`)
	script := regexp.MustCompile(`<script src="(/assets/copy\.[^"]+)" defer>`).FindStringSubmatch(p.body)
	if script == nil || !strings.HasSuffix(p.Header.Get("Content-Security-Policy"), "; script-src 'self'") {
		t.Fatalf("%s\n%s", p.Header.Get("Content-Security-Policy"), p.body)
	}
	w.get(script[1]).want(t, http.StatusOK, "navigator.clipboard.writeText")
}

// The reader's next page is kept on the way between signing up and signing in.
func TestSignUpKeepsWhereTheReaderWasGoing(t *testing.T) {
	t.Parallel()
	b := newFixture(t).browser()
	const login = "/login?next=%2Faccount%2Fwallet"
	p := b.get("/signup?next=/account/wallet")
	if !strings.Contains(html.UnescapeString(p.body), `href="`+login+`"`) {
		t.Error(p.body)
	}
	b.get(login).want(t, http.StatusOK, `name="next" value="/account/wallet"`)
}

// A fact without a value has no row.
func TestThePortalShowsNoEmptyRows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.portalOf()
	w := f.member(portal.Owner)
	for _, part := range []string{"", "webhooks", "live", "people", "requests", "events", "deliveries"} {
		p := w.get(strings.TrimSuffix(developers.Path(f.app.ID, part), "/"))
		p.want(t, http.StatusOK)
		if strings.Contains(p.body, "<dd></dd>") {
			t.Errorf("%s\n%s", part, p.body)
		}
	}
}
