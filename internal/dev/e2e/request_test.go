package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"partnerd/internal/dev/dbtest"
)

// R142, H48, T20: a method that a path does not have is 405 with Allow, but only after the token was checked.
func TestWrongMethodsAreNamed(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodTrace, "PROPFIND", "FOO"}
	k.unchanged(t, func() {
		for _, op := range spec.operations {
			allowed := spec.allowed(op.path)
			for _, method := range methods {
				if slices.Contains(allowed, method) || op.public && method == http.MethodOptions {
					continue
				}
				c := k.valid(op)
				c.method = method
				r := c.as(t, k.s)
				if r.Status != http.StatusMethodNotAllowed {
					t.Errorf("%s %s: %s", method, op.path, r)
				}
				for _, m := range allowed {
					if !strings.Contains(r.Header.Get("Allow"), m) {
						t.Errorf("%s %s: Allow is %q, want %v", method, op.path, r.Header.Get("Allow"), allowed)
					}
				}
				if op.public {
					continue
				}
				if got := r.Header.Get("Allow"); got != strings.Join(allowed, ", ") {
					t.Errorf("%s %s: Allow is %q, want %v", method, op.path, got, allowed)
				}
				if method != http.MethodHead {
					r.is(t, method+" "+op.path, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
				}
				if r := c.raw(t, k.world); r.Status != http.StatusUnauthorized {
					t.Errorf("%s %s without a token: %s", method, op.path, r)
				}
			}
		}
	})
}

// R109, R149, T20: below /api/v1 an unknown path is 401 without a token and 404 with one.
func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	for _, path := range []string{
		"/api/v1", "/api/v1/", "/api/v1/nope", "/api/v1/me/", "/api/v1/ME", "/api/v1/me/x", "/api/v1//me",
		"/api/v1/consultations/", "/api/v1/consultations//note", "/api/v1/consultations/x/y", "/api/v1/consultations/" +
			k.done + "/note/", "/api/v1/clients/" + k.c1.ID + "/wallet", "/api/v1/wallet/topup",
		"/api/v1/oauth/token", "/api/v1/oauth/authorize", "/api/v1/oauth/revoke", "/api/v1/sandbox",
		"/api/v1/openapi.yaml", "/api/v1/%00", "/api/v1/😀",
		"/api/v1/" + strings.Repeat("x", 4000),
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			k.send(t, method, path, nil).is(t, method+" "+path+" without a token", http.StatusUnauthorized,
				"UNAUTHORIZED")
			k.s.do(t, method, path, nil).is(t, method+" "+path, http.StatusNotFound, "NOT_FOUND")
		}
	}
	for _, path := range []string{
		"/api/", "/api/v2/me", "/api/v10/me", "/api/oauth", "/api/oauth/nope", "/api/oauth/v1/token",
	} {
		if r := k.s.get(t, path); r.Status != http.StatusNotFound || r.code() == "" {
			t.Errorf("%s: %s", path, r)
		}
	}
}

// R141, R156: more than 32 KB of header fields are 400 everywhere, below /api/v1 only after the token was checked.
func TestHugeHeadersAreRefused(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	huge := strings.Repeat("x", 64<<10)
	k.unchanged(t, func() {
		for _, op := range spec.operations {
			r := k.valid(op).as(t, k.s, "X-Padding", huge)
			if r.Status != http.StatusBadRequest {
				t.Errorf("%s with 64 KB of header: %s", op.id, r)
			}
			c := k.valid(op)
			c.query.Set("padding", huge)
			if r := c.as(t, k.s); r.Status != http.StatusBadRequest {
				t.Errorf("%s with 64 KB of query: %s", op.id, r)
			}
			if !op.public {
				k.valid(op).raw(t, k.world, "X-Padding", huge).is(t, op.id+" with 64 KB of header and no token",
					http.StatusUnauthorized, "UNAUTHORIZED")
			}
		}
		for _, path := range []string{
			"/", "/docs", "/login", "/healthz", "/openapi.json", "/.well-known/jwks.json", "/nope",
		} {
			if r := k.send(t, http.MethodGet, path, nil, "X-Padding", huge); r.Status != http.StatusBadRequest {
				t.Errorf("%s with 64 KB of header: %s", path, r)
			}
		}
	})
}

// H28, H49: every response below /api/v1 carries its own request id and the state of the rate limit. Only catalog
// lists, which reveal nothing about a client, may be cached.
func TestEveryAnswerHasItsHeaders(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	ids := map[string]bool{}
	for _, op := range spec.api() {
		for _, r := range []*reply{k.valid(op).as(t, k.s), k.valid(op).raw(t, k.world),
			k.s.do(t, http.MethodDelete, op.path, nil), k.s.get(t, op.path+"/nope")} {
			id := r.Header.Get("X-Request-Id")
			if ids[id] || !strings.HasPrefix(id, "req_test_") {
				t.Errorf("%s: X-Request-Id %q is not its own", op.id, id)
			}
			ids[id] = true
			cached := "no-store"
			if strings.Contains(op.path, "/catalog/") && r.Status == http.StatusOK {
				cached = "private, no-cache"
			}
			for name, want := range map[string]string{
				"Cache-Control": cached, "X-Content-Type-Options": "nosniff", "Content-Type": "application/json",
			} {
				if got := r.Header.Get(name); got != want {
					t.Errorf("%s: %s is %q, want %q", op.id, name, got, want)
				}
			}
			if !k.logs.contains(id) {
				t.Errorf("%s: request id %s is not in the log", op.id, id)
			}
		}
	}
	if r := k.s.do(t, http.MethodGet, "/api/v1/me", nil,
		"X-Request-Id", "mine"); r.Header.Get("X-Request-Id") == "mine" {
		t.Error("the caller chose the request id")
	}
}

// H33: a cached catalog list is revalidated. It is sent again in another language or after a change.
func TestCatalogsAreAskedForAgain(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	tags := map[string]bool{}
	for _, path := range []string{"/api/v1/catalog/competences", "/api/v1/catalog/languages"} {
		for _, lang := range []string{"en", "fr"} {
			whole := k.s.do(t, http.MethodGet, path, nil, "Accept-Language", lang)
			tag := whole.Header.Get("ETag")
			if whole.Status != http.StatusOK || len(tag) < 10 || tags[tag] ||
				whole.Header.Get("Vary") != "Accept-Language" {
				t.Errorf("%s in %s: %s with ETag %s, Vary %s", path, lang, whole, tag, whole.Header.Get("Vary"))
			}
			tags[tag] = true
			for _, known := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
				for _, method := range []string{http.MethodGet, http.MethodHead} {
					r := k.s.do(t, method, path, nil, "Accept-Language", lang, "If-None-Match", known)
					if r.Status != http.StatusNotModified || len(r.Body) > 0 || r.Header.Get("ETag") != tag ||
						r.Header.Get("Vary") != "Accept-Language" ||
						r.Header.Get("Cache-Control") != "private, no-cache" || r.Header.Get("X-Request-Id") == "" ||
						r.Header.Get("X-RateLimit-Limit") == "" {
						t.Errorf("%s %s with If-None-Match %s: %s %v", method, path, known, r, r.Header)
					}
				}
			}
			other := map[string]string{"en": "fr", "fr": "en"}[lang]
			for _, header := range [][]string{
				{"Accept-Language", other, "If-None-Match", tag}, {"If-None-Match", `"other"`},
				{"If-None-Match", strings.Trim(tag, `"`)}, {"If-None-Match", ""},
			} {
				if r := k.s.do(t, http.MethodGet, path, nil, header...); r.Status != http.StatusOK || len(r.Body) == 0 {
					t.Errorf("%s with %s: %s", path, header, r)
				}
			}
			if r := k.send(t, http.MethodGet, path, nil, "If-None-Match", tag); r.Status != http.StatusUnauthorized ||
				r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s without a token: %s", path, r)
			}
		}
	}
	before := k.s.get(t, "/api/v1/catalog/competences").Header.Get("ETag")
	if _, err := dbtest.Owner(t, k.DB).Pool().Exec(t.Context(),
		"UPDATE competences SET retired_at = now() WHERE code = 'TAX'"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a list without what is retired", func() bool {
		r := k.s.do(t, http.MethodGet, "/api/v1/catalog/competences", nil, "If-None-Match", before)
		return r.Status == http.StatusOK && r.Header.Get("ETag") != before
	})
}
