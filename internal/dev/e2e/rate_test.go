package e2e

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"partnerd/cmd/democrm/crm"
)

// limited asserts a correct 429 and returns its Retry-After.
func limited(t testing.TB, what string, r *reply) time.Duration {
	t.Helper()
	if r.Status != http.StatusTooManyRequests {
		t.Errorf("%s: %s", what, r)
	}
	seconds, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		t.Errorf("%s: Retry-After %q", what, r.Header.Get("Retry-After"))
	}
	return time.Duration(seconds) * time.Second
}

// R140, R142, R146, R147, H27, H28, T36, T37: a client's rate limit blocks only that client's calls with that
// application. It applies to every operation, before scope and body are checked, and stores nothing.
func TestEveryOperationIsLimitedPerClient(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	k.exec(t, "UPDATE applications SET client_rate_per_minute = 3 WHERE id = $1", k.a.ClientID)
	s, other, elsewhere := k.link(t, k.a, k.client(t, "c3", true, 10_000)), k.link(t, k.a, k.c2), k.link(t, k.b, k.c1)
	for n := 2; n >= 0; n-- {
		r := s.get(t, "/api/v1/me")
		r.is(t, "within the quota", http.StatusOK, "")
		if r.Header.Get("X-RateLimit-Limit") != "3" || r.Header.Get("X-RateLimit-Remaining") != strconv.Itoa(n) {
			t.Errorf("call %d: limit %s, remaining %s", 3-n, r.Header.Get("X-RateLimit-Limit"),
				r.Header.Get("X-RateLimit-Remaining"))
		}
		reset, err := strconv.ParseInt(r.Header.Get("X-RateLimit-Reset"), 10, 64)
		if now := k.DB.Clock().Now().Unix(); err != nil || reset < now || reset > now+61 {
			t.Errorf("reset: %s", r.Header.Get("X-RateLimit-Reset"))
		}
	}
	k.unchanged(t, func() {
		for _, op := range spec.api() {
			r := k.valid(op).as(t, s)
			r.is(t, op.id+" above the quota", http.StatusTooManyRequests, "RATE_LIMITED")
			if wait := limited(t, op.id, r); wait > 20*time.Second || r.Header.Get("X-RateLimit-Remaining") != "0" {
				t.Errorf("%s: wait %s, remaining %s", op.id, wait, r.Header.Get("X-RateLimit-Remaining"))
			}
		}
		s.do(t, http.MethodPost, consultations, "{").is(t, "429 before 400", http.StatusTooManyRequests, "RATE_LIMITED")
		s.get(t, "/api/v1/nope").is(t, "429 before 404", http.StatusTooManyRequests, "RATE_LIMITED")
	})
	if n := k.queryInt(t, "SELECT count(*) FROM idempotency_keys WHERE client_id = $1", s.person.ID); n != 0 {
		t.Errorf("%d keys were bound by refused requests", n)
	}
	other.get(t, "/api/v1/me").is(t, "another client", http.StatusOK, "")
	elsewhere.get(t, "/api/v1/me").is(t, "another application", http.StatusOK, "")
	second := k.link(t, k.a, s.person)
	second.get(t, "/api/v1/me").is(t, "another session of the same client", http.StatusTooManyRequests, "RATE_LIMITED")
}

// R146, H27: all clients of an application share its rate limit.
func TestTheApplicationsQuotaIsShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.RateApplication, s.RateClient = 6, 4 })
	a, b := w.partner(t, "CRM A"), w.partner(t, "CRM B")
	c1, c2 := w.client(t, "c1", true, 0), w.client(t, "c2", true, 0)
	s1, s2, other := w.link(t, a, c1), w.link(t, a, c2), w.link(t, b, c1)
	for range 4 {
		s1.get(t, "/api/v1/me").is(t, "first client", http.StatusOK, "")
	}
	limited(t, "first client above its quota", s1.get(t, "/api/v1/me"))
	s2.get(t, "/api/v1/me").is(t, "second client", http.StatusOK, "")
	last := s2.get(t, "/api/v1/me")
	last.is(t, "second client, the application's last", http.StatusOK, "")
	if last.Header.Get("X-RateLimit-Limit") != "6" || last.Header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("the tighter bucket: %v", last.Header)
	}
	limited(t, "second client above the application's quota", s2.get(t, "/api/v1/me"))
	other.get(t, "/api/v1/me").is(t, "another application", http.StatusOK, "")
}

// R148: after Retry-After seconds the next call is allowed, and no sooner than needed.
func TestRetryAfterIsInSeconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.RateClient = 30 })
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 0))
	var wait time.Duration
	for range 200 {
		if r := s.get(t, "/api/v1/me"); r.Status == http.StatusTooManyRequests {
			wait = limited(t, "above the quota", r)
			break
		}
	}
	if wait < time.Second || wait > 2*time.Second {
		t.Fatalf("Retry-After %s with 30 calls a minute", wait)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
	s.get(t, "/api/v1/me").is(t, "after Retry-After", http.StatusOK, "")
}

// H27, T36: callers without a valid token are counted by address. A valid token is not affected.
func TestRefusedCallersAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	k := newCast(t, func(s *setup) { s.RateUnauthorized, s.RateTokenFailures = 6, 3 })
	form := k.a.refreshForm("x", "client_secret", "wrong")
	for _, path := range []string{"/api/oauth/token", "/api/oauth/revoke"} {
		form.Set("token", "x")
		eventually(t, "429 at "+path, func() bool {
			r := k.send(t, http.MethodPost, path, form)
			if r.Status == http.StatusUnauthorized {
				return false
			}
			r.is(t, path+" above the quota", http.StatusTooManyRequests, "temporarily_unavailable")
			limited(t, path, r)
			return true
		})
	}
	k.link(t, k.a, k.c1) // valid credentials pass
	eventually(t, "429 without a token", func() bool {
		r := k.send(t, http.MethodGet, "/api/v1/me", nil)
		return r.Status == http.StatusTooManyRequests && limited(t, "without a token", r) > 0
	})
	for _, op := range spec.api() {
		k.valid(op).raw(t, k.world).is(t, op.id+" without a token", http.StatusTooManyRequests, "RATE_LIMITED")
	}
	k.s.get(t, "/api/v1/me").is(t, "with a good token", http.StatusOK, "")
	address := "/api/oauth/authorize?" + k.a.authorizeQuery().Encode()
	eventually(t, "429 at the authorize page", func() bool {
		r := k.send(t, http.MethodGet, address, nil)
		return r.Status == http.StatusTooManyRequests && limited(t, "authorize", r) > 0 &&
			strings.HasPrefix(r.Header.Get("Content-Type"), "text/html")
	})
}

// R5, R72, R73, R113: the stock client of Go links, refreshes and calls, and stops at a spent token.
func TestTheStockGoClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, c1 := w.partner(t, "CRM A"), w.client(t, "c1", true, 10_000)
	meta, err := crm.Discover(t.Context(), w.base)
	w.must(t, err)
	config := a.Config(meta, crm.AllScopes...)
	linked, err := crm.Link(w.ctx(t), config, meta.Issuer, c1.Email, c1.password)
	w.must(t, err)
	expired := *linked
	expired.Expiry = w.DB.Clock().Now().Add(-time.Minute)
	fresh, err := config.TokenSource(w.ctx(t), &expired).Token()
	w.must(t, err)
	api, err := crm.API(w.base, fresh.AccessToken, w.http)
	w.must(t, err)
	me, err := api.GetProfileWithResponse(t.Context())
	if err != nil || me.JSON200 == nil || me.JSON200.ID != c1.ID {
		t.Fatalf("profile: %v %+v", err, me)
	}
	var refused *oauth2.RetrieveError
	if _, err := config.TokenSource(w.ctx(t), &expired).Token(); !errors.As(err, &refused) ||
		refused.ErrorCode != "invalid_grant" {
		t.Errorf("spent token: %v", err)
	}
}
