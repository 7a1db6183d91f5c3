package e2e

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"go.yaml.in/yaml/v3"
)

// R1, R149, R150, H59: with another base URL, every URL that the service names starts with it. The published contract
// is a valid 3.1 document that names it.
func TestTheBaseAddressIsFollowedEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.BaseURL = "http://" + s.Addr + "/" })
	if !strings.HasPrefix(w.base, "http://127.0.0.1:") {
		t.Fatalf("base address %s", w.base)
	}
	meta := w.send(t, http.MethodGet, "/.well-known/oauth-authorization-server", nil).value()
	for name, want := range map[string]string{
		"issuer": "", "authorization_endpoint": "/api/oauth/authorize", "token_endpoint": "/api/oauth/token",
		"revocation_endpoint": "/api/oauth/revoke",
		"jwks_uri":            "/.well-known/jwks.json",
	} {
		if meta[name] != w.base+want {
			t.Errorf("metadata: %s is %v", name, meta[name])
		}
	}
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 0))
	if claims := claimsOf(t, s.token.AccessToken); claims["iss"] != w.base {
		t.Errorf("iss: %v", claims["iss"])
	}
	if u := s.checkout(t, 2000); !strings.HasPrefix(u.String(), w.base+"/checkout/") {
		t.Errorf("checkoutUrl: %s", u)
	}
	s.topUp(t, 2000)
	checkContract(t, w)
}

// R149: whatever the base URL, no page and no copy of the contracts names another URL of the service.
func TestNoPageAndNoContractNamesAnotherAddress(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"https://api.example", "http://localhost:18449"} {
		w := newWorld(t,
			func(s *setup) { s.BaseURL, s.SecurityContact, s.idle = base, "mailto:security@api.example", true })
		w.base = "http://" + w.Config.Addr
		for _, path := range []string{
			"/", "/?lang=fr", "/docs", "/docs/reference/account", "/docs/reference/wallet", "/docs/platform/endpoint",
			"/docs/wallet.md", "/llms.txt", "/login", "/signup", "/password/forgot", "/accessibility", "/nowhere",
			"/openapi.yaml", "/openapi.json", "/openapi/platform.yaml", "/openapi/platform.json", "/docs/sandbox",
			"/openapi/sandbox.yaml", "/openapi/sandbox.json", "/.well-known/oauth-authorization-server",
			"/.well-known/security.txt", "/status",
		} {
			text := html.UnescapeString(string(w.send(t, http.MethodGet, path, nil).Body))
			if rest := strings.NewReplacer(base, "", url.QueryEscape(base), "").
				Replace(text); strings.Contains(rest, "localhost") {
				t.Errorf("under %s, %s names localhost: …%.120s",
					base, path, rest[max(0, strings.Index(rest, "localhost")-40):])
			}
			for _, named := range map[string][]string{
				"/":                       {base},
				"/docs":                   {base},
				"/docs/reference/account": {"curl '" + base + "/api/v1/me'"},
				"/docs/reference/wallet":  {base + "/checkout/"},
				"/docs/platform/endpoint": {"curl '" + base + "/api/platform/v1/endpoint'"},
				"/docs/wallet.md":         {base + "/legal/waiver/"},
				"/llms.txt":               {base + "/docs/quickstart.md"},
				"/openapi.yaml": {"url: " + base + "\n", base + "/checkout/",
					"&iss=" + url.QueryEscape(base)},
				"/openapi/platform.yaml": {"url: " + base + "\n"},
			}[path] {
				if !strings.Contains(text, named) {
					t.Errorf("under %s, %s lacks %q", base, path, named)
				}
			}
		}
	}
}

func checkContract(t *testing.T, w *world) {
	t.Helper()
	asYAML, asJSON := w.send(t, http.MethodGet, "/openapi.yaml", nil), w.send(t, http.MethodGet, "/openapi.json", nil)
	var a, b object
	if err := yaml.Unmarshal(asYAML.Body, &a); err != nil {
		t.Fatal(err)
	}
	asJSON.into(t, &b)
	raw, err := json.Marshal(a)
	w.must(t, err)
	var again object
	w.must(t, json.Unmarshal(raw, &again))
	if len(again) != len(b) || again["openapi"] != b["openapi"] {
		t.Error("the two forms of the contract differ")
	}
	if v, _ := b["openapi"].(string); !strings.HasPrefix(v, "3.1.") {
		t.Errorf("openapi: %v", b["openapi"])
	}
	if servers := b["servers"].([]any); servers[0].(object)["url"] != w.base {
		t.Errorf("servers: %v", servers)
	}
	doc, err := openapi3.NewLoader().LoadFromData(asJSON.Body)
	w.must(t, err)
	if err := doc.Validate(t.Context(), openapi3.AllowExtraSiblingFields("pathItems"),
		openapi3.DisableExamplesValidation()); err != nil {
		t.Error(err)
	}
	for _, op := range spec.operations {
		if paths := b["paths"].(object); paths[op.path] == nil {
			t.Errorf("%s is not published", op.path)
		}
	}
}

// R19, R149, T20, H59: resources outside the API need no token, and no one can register an application themselves.
func TestWhatIsPublic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, media := range map[string]string{
		"/": "text/html", "/docs": "text/html", "/docs/platform": "text/html", "/docs/sandbox": "text/html",
		"/docs/webhooks": "text/html", "/docs/webhooks.md": "text/markdown", "/docs/search": "text/html",
		"/llms.txt": "text/plain", "/openapi/sandbox.yaml": "application/yaml",
		"/openapi/sandbox.json": "application/json", "/login": "text/html", "/healthz": "application/json",
		"/readyz": "application/json", "/status": "application/json", "/status.json": "application/json",
		"/openapi.yaml": "application/yaml", "/openapi.json": "application/json",
		"/openapi/platform.yaml": "application/yaml", "/openapi/platform.json": "application/json",
		"/.well-known/jwks.json":                  "application/json",
		"/.well-known/oauth-authorization-server": "application/json",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			r := w.send(t, method, path, nil)
			if r.Status != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), media) {
				t.Errorf("%s %s: %d %s", method, path, r.Status, r.Header.Get("Content-Type"))
			}
		}
	}
	if r := w.send(t, http.MethodGet, "/account/apps", nil); r.Status != http.StatusFound ||
		!strings.HasPrefix(r.Header.Get("Location"), "/login") {
		t.Errorf("account page: %s %s", r, r.Header.Get("Location"))
	}
	for _, path := range []string{"/api/oauth/register", "/register", "/apps", "/applications", "/api/oauth/introspect",
		"/api/oauth/clients", "/admin", "/debug/pprof/", "/metrics", "/.env", "/.git/config"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if r := w.send(t, method, path, url.Values{}); r.Status != http.StatusNotFound &&
				r.Status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %s", method, path, r)
			}
		}
	}
	for _, path := range []string{"/checkout/x", "/account/apps", "/login", "/docs"} {
		for _, odd := range []string{"?a=%zz", "?lang=%00", "?next=%00", "?next=//evil.example",
			"?next=https://evil.example", "?lang=" + strings.Repeat("x", 5000)} {
			r := w.send(t, http.MethodGet, path+odd, nil)
			if r.Status >= 500 || strings.Contains(r.Header.Get("Location"), "//evil") {
				t.Errorf("%s%s: %s %s", path, odd, r, r.Header.Get("Location"))
			}
		}
	}
}

// TestStatusForPeopleAndForMachines: the service status is a page for people and a document for programs. Unmeasured
// times are not reported.
func TestStatusForPeopleAndForMachines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/status", "/status.json"} {
		v := w.send(t, http.MethodGet, path, nil, "Accept", "application/json").value()
		for _, key := range []string{"status", "environment", "consultations", "topUps", "time", "parts", "days"} {
			if v[key] == nil {
				t.Errorf("%s has no %s: %v", path, key, v)
			}
		}
		days := v["days"].([]any)
		if first := days[0].(object); len(days) != 90 || first["minutesOf"] != nil || first["asked"] != nil ||
			len(v["parts"].(object)) != 5 {
			t.Errorf("%s: %d days from %v, parts %v", path, len(days), first, v["parts"])
		}
	}
	for language, want := range map[string]string{"en": "Service status", "fr": "État du service"} {
		r := w.send(t, http.MethodGet, "/status", nil, "Accept", "text/html,*/*;q=0.8", "Accept-Language", language)
		if r.Status != http.StatusOK || !strings.Contains(string(r.Body), want) ||
			!strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %s", language, r)
		}
	}
}
