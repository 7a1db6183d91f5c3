package edge

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A page may act only if its whole origin is ours: scheme, host and port.
func TestOnlyPagesOfOurOriginAct(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		base, host, site, origin string
		want                     bool
	}{
		{base: "https://partners.example", want: true},
		{base: "https://partners.example", origin: "https://partners.example", want: true},
		// a proxy replaced the Host header
		{base: "https://partners.example", host: "10.0.0.7:8080", origin: "https://partners.example", want: true},
		{base: "https://partners.example", site: "same-origin", origin: "null", want: true},
		{base: "https://partners.example", origin: "null"},
		{base: "https://partners.example", origin: "http://partners.example"},
		{base: "https://partners.example", site: "same-origin", origin: "http://partners.example"},
		{base: "https://partners.example", origin: "https://partners.example:8443"},
		{base: "https://partners.example", origin: "https://evil.example"},
		{base: "https://partners.example", site: "cross-site", origin: "https://evil.example"},
		{base: "https://partners.example", site: "same-site"},
		{base: "http://localhost:8080", host: "127.0.0.1:8080", origin: "http://127.0.0.1:8080", want: true},
		{base: "http://localhost:8080", host: "localhost:8080", origin: "https://localhost:8080"},
	} {
		o, err := NewOrigins(c.base)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/login", nil)
		if r.Host = c.host; c.host == "" {
			r.Host = "partners.example"
		}
		for name, value := range map[string]string{"Sec-Fetch-Site": c.site, "Origin": c.origin} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if o.Ours(r) != c.want {
			t.Errorf("%+v", c)
		}
	}
}
