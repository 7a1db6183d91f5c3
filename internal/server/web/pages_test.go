package web

import (
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"partnerd/internal/server/web/shell"
)

// everyPage visits one page of each kind, signed in or not, in both languages.
func everyPage(f *fixture, visit func(name string, p page)) {
	checkout, one := "/checkout/"+f.newCheckout(2000).ID, "/account/consultations/"+f.start().ID
	guest, client := f.browser(), f.browser().signIn("client@example.com")
	for _, lang := range shell.Languages {
		guest.header.Set("Accept-Language", lang)
		client.header.Set("Accept-Language", lang)
		for _, path := range []string{
			"/", "/login", "/signup", "/password/forgot", "/signup/confirm?token=x", "/password/reset?token=x",
			"/accessibility", "/legal/waiver/2026-11", "/legal/waiver/2026-12", "/docs", "/docs/webhooks",
			"/docs/reference/consultations", "/docs/search?q=key", checkout, "/nowhere",
			f.authorizeURL("profile:read", "client_id", "x"),
		} {
			visit(lang+" guest "+path, guest.get(path))
		}
		for _, path := range []string{"/", "/account", "/account/apps", "/account/phone", "/account/security",
			"/account/wallet", "/account/wallet/statement/2026-06", "/account/wallet/refund", "/account/consultations",
			one, one + "/cancel", one + "/withdraw", "/account/privacy", "/account/privacy/erase",
			"/account/wallet/statement/x", f.authorizeURL(allScopes)} {
			visit(lang+" client "+path, client.get(path))
		}
		visit(lang+" failed login", guest.post("/login", guest.get("/login").form("/login")))
		visit(lang+" wrong method", guest.post("/account/apps", url.Values{}))
		visit(lang+" redirect", guest.get("/account/apps"))
	}
}

func TestEveryPageHasTheHeadersThatProtectIt(t *testing.T) {
	t.Parallel()
	everyPage(newFixture(t), func(name string, p page) {
		csp := p.Header.Get("Content-Security-Policy")
		leadsOn := strings.Contains(name, shell.AuthorizePath) // see allowFormsToLeave
		for _, part := range []string{"default-src 'none'", "style-src 'self'", "img-src 'self' data:",
			"form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(csp, part) && !(leadsOn && part == "form-action 'self'") {
				t.Errorf("%s: policy %q lacks %s", name, csp, part)
			}
		}
		if strings.Contains(csp, "unsafe") ||
			strings.Contains(csp, "script-src") != strings.Contains(p.body, "<script ") {
			t.Errorf("%s: policy %q", name, csp)
		}
		if asks := strings.Contains(p.body, `type="password"`); asks != strings.Contains(p.body, " data-reveal=") ||
			asks && !strings.Contains(p.body, `<script src="/assets/reveal.`) {
			t.Errorf("%s asks for a password that nobody can look at", name)
		}
		for header, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
			"Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got := p.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q", name, header, got)
			}
		}
		public := strings.HasSuffix(name, " /") || strings.Contains(name, "/docs") ||
			strings.HasSuffix(name, "/accessibility") || strings.Contains(name, "/legal/")
		if got := p.Header.Get("Cache-Control"); public && got != "no-cache" || !public && got != "no-store" {
			t.Errorf("%s: Cache-Control %q", name, got)
		}
	})
}

func TestEveryPageIsSoundHTML(t *testing.T) {
	t.Parallel()
	tags := regexp.MustCompile(`<(/?)([a-z][a-z0-9]*)[^>]*>`)
	labelled := regexp.MustCompile(`<input id="([^"]+)"`)
	everyPage(newFixture(t), func(name string, p page) {
		if p.StatusCode == http.StatusFound {
			return
		}
		if !strings.HasPrefix(p.Header.Get("Content-Type"), "text/html; charset=") {
			t.Errorf("%s: Content-Type %q", name, p.Header.Get("Content-Type"))
		}
		lang := p.Header.Get("Content-Language")
		for _, part := range []string{"<!doctype html>", `<html lang="` + lang + `">`, "<title>", `<main id="main"`,
			`<a class="skip" href="#main">`, `name="viewport"`} {
			if strings.Count(p.body, part) != 1 {
				t.Errorf("%s: %q occurs %d times", name, part, strings.Count(p.body, part))
			}
		}
		if !strings.HasPrefix(name, lang) {
			t.Errorf("%s: language %q", name, lang)
		}
		var open []string
		for _, m := range tags.FindAllStringSubmatch(p.body, -1) {
			switch {
			case strings.Contains(" meta link input br ", " "+m[2]+" "):
			case m[1] == "":
				open = append(open, m[2])
			case len(open) == 0 || open[len(open)-1] != m[2]:
				t.Fatalf("%s: </%s> closes %v", name, m[2], open)
			default:
				open = open[:len(open)-1]
			}
		}
		if len(open) > 0 {
			t.Errorf("%s: never closed: %v", name, open)
		}
		for _, m := range labelled.FindAllStringSubmatch(p.body, -1) {
			if !strings.Contains(p.body, `<label for="`+m[1]+`">`) {
				t.Errorf("%s: input %s has no label", name, m[1])
			}
		}
		if changes := strings.Count(p.body, "<form") - strings.Count(p.body,
			`<form role="search" method="get"`); changes != strings.Count(p.body, `name="csrf" value="`) {
			t.Errorf("%s: a form without a token", name)
		}
		checkAnchors(t, p.body)
	})
}

func TestTheStylesheetMayBeKeptForEver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser()
	path := regexp.MustCompile(`<link rel="stylesheet" href="([^"]+)"`).FindStringSubmatch(b.get("/").body)[1]
	p := b.get(path)
	p.want(t, 200, "prefers-color-scheme: dark")
	if p.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" ||
		p.Header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("%v", p.Header)
	}
	b.get("/assets/style.000000000000.css").want(t, 404)
}

func TestHomeLinksWhatAVisitorNeeds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.browser().get("/").want(t, 200, `href="/docs"`, `href="/account"`, `href="/status"`, "€20.00",
		`href="/openapi.yaml"`, f.base, "sandbox")
}

func TestWrongMethodsAndHugeForms(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser()
	p := b.post("/account/apps", url.Values{})
	p.want(t, http.StatusMethodNotAllowed)
	if p.Header.Get("Allow") == "" {
		t.Error("no Allow header")
	}
	b.do(http.MethodHead, "/", nil).want(t, 200)
	form := b.get("/login").form("/login")
	form.Set("email", strings.Repeat("a", shell.MaxForm))
	b.post("/login", form).want(t, http.StatusBadRequest)
	for _, bad := range []string{"a\x00b@example.com", "\xff@example.com"} {
		form.Set("email", bad)
		form.Set("password", "x")
		b.post("/login", form).want(t, http.StatusUnprocessableEntity)
	}
	b.do(http.MethodPost, "/login", strings.NewReader("email=%zz")).want(t, http.StatusBadRequest)
}

func TestCookiesOverHTTPSBelongToThisHostAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(d *services) { d.BaseURL = "https://partner.example" })
	p := f.browser().get("/login?lang=fr")
	names := map[string]bool{}
	for _, k := range p.Cookies() {
		names[k.Name] = true
		if !k.Secure || !k.HttpOnly || k.SameSite != http.SameSiteLaxMode || k.Path != "/" || k.Domain != "" {
			t.Errorf("cookie %s", k)
		}
	}
	if !names["__Host-partnerd-browser"] || !names["lang"] {
		t.Errorf("cookies %v", names)
	}
	if got := (&shell.Shell{Secure: true}).CookieName(shell.SessionCookie); got != "__Host-partnerd" {
		t.Errorf("session cookie %q", got)
	}
}

func checkAnchors(t *testing.T, body string) {
	t.Helper()
	ids := map[string]int{}
	for _, m := range regexp.MustCompile(`\sid="([^"]+)"`).FindAllStringSubmatch(body, -1) {
		ids[m[1]]++
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("id %q occurs %d times", id, n)
		}
	}
	for _, m := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(body, -1) {
		if ids[m[1]] == 0 {
			t.Errorf("link to #%s leads nowhere", m[1])
		}
	}
	if n := strings.Count(body, "<h1"); n != 1 {
		t.Errorf("%d h1 headings among %v", n, slices.Sorted(maps.Keys(ids)))
	}
}

// TestEveryTemplateIsParsed parses every template in every language, so that a broken one is found before anyone opens
// its page.
func TestEveryTemplateIsParsed(t *testing.T) {
	t.Parallel()
	v, err := shell.NewViews("/style.css", shell.Site{})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := shell.Files.ReadDir("templates")
	if err != nil || len(pages) < 2 {
		t.Fatalf("%d templates: %v", len(pages), err)
	}
	for _, lang := range shell.Languages {
		for _, f := range pages {
			name, _ := strings.CutSuffix(f.Name(), ".html")
			if name == "layout" {
				continue
			}
			if _, err := v.Page(lang, name); err != nil {
				t.Errorf("%s in %s: %v", name, lang, err)
			}
		}
	}
	if _, err := v.Page(shell.Languages[0], "nowhere"); err == nil {
		t.Error("a page without a template is there")
	}
}

// TestAPageIsParsedOnce holds whoever opens the page first.
func TestAPageIsParsedOnce(t *testing.T) {
	t.Parallel()
	v, err := shell.NewViews("/style.css", shell.Site{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	got := make([]*template.Template, 8)
	for i := range got {
		wg.Go(func() { got[i], _ = v.Page(shell.Languages[i%2], "login") })
	}
	wg.Wait()
	for i := range got {
		if got[i] == nil || got[i] != got[i%2] {
			t.Errorf("caller %d has a template of its own", i)
		}
	}
	if got[0] == got[1] {
		t.Error("both languages share a template")
	}
}
