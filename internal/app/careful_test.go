package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"partnerd/internal/app/config"
	"partnerd/internal/dev/dbtest"
)

// TestEverythingIsStrictTransport checks that every response of an https deployment sets HSTS for a year: pages, both
// APIs, assets and errors.
func TestEverythingIsStrictTransport(t *testing.T) {
	t.Parallel()
	b := openBank(t,
		func(c *config.Config) {
			c.BaseURL, c.SecurityContact = "https://api.example", "mailto:security@api.example"
		})
	for _, path := range []string{"/", "/login", "/docs", "/openapi.yaml", "/api/v1/me", "/api/platform/v1/endpoint",
		"/api/nothing", "/nothing", "/healthz", "/assets/x", "/.well-known/jwks.json", "/.well-known/security.txt"} {
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if got := w.Header().Get("Strict-Transport-Security"); got != "max-age=31536000" {
			t.Errorf("%s: %d, HSTS %q", path, w.Code, got)
		}
		if path == "/.well-known/security.txt" && !strings.HasPrefix(w.Body.String(),
			"Contact: mailto:security@api.example\nExpires: 20") {
			t.Errorf("security.txt: %d %s", w.Code, w.Body)
		}
	}
	plain := httptest.NewRecorder()
	openBank(t).handler.ServeHTTP(plain, httptest.NewRequest("GET", "/.well-known/security.txt", nil))
	if plain.Code != 404 || plain.Header().Get("Strict-Transport-Security") != "" {
		t.Errorf("over http, without a contact: %d %v", plain.Code, plain.Header())
	}
}

// TestMetricsAreForTheirReaders exists because wallet totals must not be visible to everyone who can connect.
func TestMetricsAreForTheirReaders(t *testing.T) {
	t.Parallel()
	for addr, ok := range map[string]bool{"127.0.0.1:9": true, "[::1]:9": true, "localhost:9": true, ":9": false,
		"0.0.0.0:9": false, "10.0.0.1:9": false} {
		cfg := good()
		cfg.MetricsAddr = addr
		if err := cfg.Check(); (err == nil) != ok {
			t.Errorf("%s without a token: %v", addr, err)
		}
		cfg.MetricsToken = "token"
		if err := cfg.Check(); err != nil {
			t.Errorf("%s with a token: %v", addr, err)
		}
	}
	pass := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		token, shown string
		status       int
	}{{"", "", 200}, {"t", "", 401}, {"t", "Bearer x", 401}, {"t", "t", 401}, {"t", "Bearer t", 200}} {
		r, w := httptest.NewRequest("GET", "/metrics", nil), httptest.NewRecorder()
		r.Header.Set("Authorization", c.shown)
		bearer(c.token, pass).ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%+v: %d", c, w.Code)
		}
	}
}

// TestMetricsAreServedWithoutTheDatabase checks that the metrics report an outage of the database. A scrape without any
// metrics would look like a dead process.
func TestMetricsAreServedWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	a, err := Open(t.Context(), ofEnvironment(t, "sandbox", dbtest.URL(t)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	scrape := func() (int, string) {
		w := httptest.NewRecorder()
		a.metricsHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Code, w.Body.String()
	}
	const own, read = "\npartnerd_webhook_in_flight 0\n", "\npartnerd_notes_missing "
	if status, text := scrape(); status != 200 || !strings.Contains(text, own) || !strings.Contains(text, read) {
		t.Errorf("with the database: %d %s", status, text)
	}
	a.DB.Close()
	if status, text := scrape(); status != 200 || !strings.Contains(text, own) || strings.Contains(text, read) {
		t.Errorf("without the database: %d %s", status, text)
	}
}
