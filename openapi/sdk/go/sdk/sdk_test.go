package sdk

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

type asked struct{ path, key, token, refresh string }

// fake is a service that rotates refresh tokens and stores its responses by key. each may respond itself, with true.
type fake struct {
	mu     sync.Mutex
	asked  []asked
	stored map[string]string
	valid  string // refresh token
	each   func(n int, a asked, w http.ResponseWriter) bool
	after  func(n int, a asked) // once the request was processed
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	a := asked{r.URL.Path, r.Header.Get("Idempotency-Key"), r.Header.Get("Authorization"), r.PostForm.Get("refresh_token")}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, a)
	n := f.count(a.path)
	w.Header().Set("Content-Type", "application/json")
	if f.each != nil && f.each(n, a, w) {
		return
	}
	if a.path != "/api/oauth/token" {
		fmt.Fprint(w, `{"availableCents": 1}`)
		return
	}
	if f.stored[a.key] == "" {
		if a.refresh != f.valid {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error": "invalid_grant", "error_description": "reused"}`)
			return
		}
		f.valid = fmt.Sprint("rt_", len(f.asked))
		f.stored[a.key] = fmt.Sprintf(`{"access_token": "at_%d", "refresh_token": %q, "expires_in": 900, "scope": "x"}`,
			len(f.asked), f.valid)
	}
	if f.after != nil {
		f.after(n, a)
	}
	fmt.Fprint(w, f.stored[a.key])
}

func (f *fake) count(path string) (n int) {
	for _, a := range f.asked {
		if a.path == path {
			n++
		}
	}
	return n
}

func app(t *testing.T, f *fake, tokens *Tokens) *App {
	t.Helper()
	f.stored = map[string]string{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	a := &App{BaseURL: server.URL, ClientID: "app", ClientSecret: "sk", RedirectURI: "https://crm.example/back",
		Store: &MemoryStore{}, Retries: Retries{Pause: time.Millisecond}}
	if tokens != nil {
		f.valid = tokens.RefreshToken
		_, _ = a.Store.Update(t.Context(), "c", func(*Tokens) (*Tokens, error) { return tokens, nil })
	}
	return a
}

func expired() *Tokens { return &Tokens{AccessToken: "old", RefreshToken: "rt", ExpiresAt: time.Now()} }

func wallet(t *testing.T, a *App) error {
	t.Helper()
	client, err := a.Client("c")
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.GetWalletWithResponse(t.Context())
	if err == nil && (got.JSON200 == nil || got.JSON200.AvailableCents != 1) {
		return fmt.Errorf("status %d", got.StatusCode())
	}
	return err
}

func TestOneRefreshForManyCallers(t *testing.T) {
	f := &fake{}
	a := app(t, f, expired())
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			if err := wallet(t, a); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := f.count("/api/oauth/token"); n != 1 {
		t.Errorf("%d refreshes", n)
	}
}

func TestALostResponseLosesNoClient(t *testing.T) {
	f := &fake{after: func(n int, _ asked) {
		if n == 1 {
			panic(http.ErrAbortHandler)
		}
	}}
	a := app(t, f, expired())
	if err := wallet(t, a); err != nil {
		t.Fatal(err)
	}
	if f.count("/api/oauth/token") != 2 || f.asked[0].key != f.asked[1].key || f.asked[0].key == "" {
		t.Errorf("%+v", f.asked)
	}
}

func TestARejectedTokenIsRefreshedOnce(t *testing.T) {
	f := &fake{each: func(_ int, a asked, w http.ResponseWriter) bool {
		if a.token == "Bearer revoked" {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		return false
	}}
	a := app(t, f, &Tokens{AccessToken: "revoked", RefreshToken: "rt", ExpiresAt: time.Now().Add(time.Hour)})
	if err := wallet(t, a); err != nil || f.count("/api/oauth/token") != 1 {
		t.Errorf("%v %+v", err, f.asked)
	}
}

func TestARejectedRefreshForgetsTheLink(t *testing.T) {
	f := &fake{}
	a := app(t, f, expired())
	f.valid = "another"
	var again *LinkAgainError
	for range 2 {
		if err := wallet(t, a); !errors.As(err, &again) {
			t.Errorf("%v", err)
		}
	}
	if f.count("/api/oauth/token") != 1 {
		t.Errorf("%+v", f.asked)
	}

	f = &fake{each: func(_ int, _ asked, w http.ResponseWriter) bool {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error": "invalid_client"}`)
		return true
	}}
	a = app(t, f, expired())
	var refused *TokenEndpointError
	if err := wallet(t, a); !errors.As(err, &refused) || refused.Code != "invalid_client" {
		t.Errorf("%v", err)
	}
	if kept, _ := a.Store.Read(t.Context(), "c"); kept == nil {
		t.Error("wrong credentials of the application forgot the link")
	}
}

func TestRetries(t *testing.T) {
	f := &fake{each: func(n int, a asked, w http.ResponseWriter) bool {
		if n < 3 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return n < 3
	}}
	a := app(t, f, &Tokens{AccessToken: "at", RefreshToken: "rt", ExpiresAt: time.Now().Add(time.Hour)})
	resp, err := a.HTTPClient("c").Post(a.BaseURL+"/api/v1/consultations", "application/json", strings.NewReader("{}"))
	if err != nil || resp.StatusCode != 200 || len(f.asked) != 3 || f.asked[0].key == "" || f.asked[2].key != f.asked[0].key {
		t.Errorf("%v %+v", err, f.asked)
	}
	resp, err = a.HTTPClient("c").Post(a.BaseURL+"/api/v1/other", "application/json", strings.NewReader("{}"))
	if err != nil || resp.StatusCode != 503 || f.count("/api/v1/other") != 1 {
		t.Errorf("what is not safe to repeat was repeated: %v %+v", err, f.asked)
	}
	f.each = func(_ int, _ asked, w http.ResponseWriter) bool {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	resp, err = a.HTTPClient("c").Get(a.BaseURL + "/api/v1/wallet")
	if err != nil || resp.StatusCode != 429 || f.count("/api/v1/wallet") != 1 {
		t.Errorf("a long Retry-After is returned: %v %+v", err, f.asked)
	}
}

func TestLinking(t *testing.T) {
	f := &fake{}
	a := app(t, f, nil)
	address, pending := a.BeginLink("profile:read offline_access")
	u, _ := url.Parse(address)
	if u.Query().Get("state") != pending.State || u.Query().Get("code_challenge_method") != "S256" {
		t.Error(address)
	}
	back := func(values ...string) string {
		q := url.Values{"state": {pending.State}, "iss": {a.BaseURL}}
		for i := 0; i < len(values); i += 2 {
			q.Set(values[i], values[i+1])
		}
		return "https://crm.example/back?" + q.Encode()
	}
	for code, callback := range map[string]string{
		"invalid_state": back("code", "x", "state", "other"), "invalid_issuer": back("code", "x", "iss", "https://evil.example"),
		"access_denied": back("error", "access_denied"), "invalid_request": back(),
	} {
		var refused *LinkRefusedError
		if _, err := a.FinishLink(t.Context(), "c", callback, pending); !errors.As(err, &refused) || refused.Code != code {
			t.Errorf("%s: %v", code, err)
		}
	}
	tokens, err := a.FinishLink(t.Context(), "c", back("code", "x"), pending)
	if err != nil || tokens.Scope != "x" || wallet(t, a) != nil {
		t.Fatal(tokens, err)
	}
	if err := a.Unlink(t.Context(), "c"); err != nil || f.count("/api/oauth/revoke") != 1 {
		t.Errorf("%v", err)
	}
	var again *LinkAgainError
	if err := wallet(t, a); !errors.As(err, &again) {
		t.Errorf("%v", err)
	}
}

func TestEachReadsToTheEnd(t *testing.T) {
	next := "2"
	var got []int
	for item, err := range Each(func(cursor *string) ([]int, *string, error) {
		if cursor == nil {
			return []int{3, 2}, &next, nil
		}
		return []int{1}, nil, nil
	}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, item)
	}
	if fmt.Sprint(got) != "[3 2 1]" {
		t.Error(got)
	}
	broken := errors.New("no")
	for _, err := range Each(func(*string) ([]int, *string, error) { return nil, nil, broken }) {
		if err != broken {
			t.Error(err)
		}
	}
}

func sign(secret string, at time.Time, body string) string {
	sum := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(sum, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(sum.Sum(nil)))
}

func TestWebhooks(t *testing.T) {
	const body = `{"id":"evt_1","type":"webhook.ping","createdAt":"2026-06-01T08:00:00.000000Z","data":{}}`
	now := time.Unix(1_780_000_000, 0)
	for _, c := range []struct {
		header, signature, body string
		want                    error
	}{
		{"X-Service-Signature", sign("new", now, body), body, nil},
		{"X-Service-Signature", sign("old", now, body), body, nil},
		{"X-Service-Signature-Previous", sign("old", now, body), body, nil},
		{"X-Service-Signature", sign("other", now, body), body, Mismatch},
		{"X-Service-Signature", sign("new", now, body), body + " ", Mismatch},
		{"X-Service-Signature", sign("new", now.Add(-300*time.Second), body), body, Expired},
		{"X-Service-Signature", sign("new", now.Add(300*time.Second), body), body, Expired},
		{"X-Service-Signature", sign("new", now.Add(-299*time.Second), body), body, nil},
		{"X-Service-Signature", sign("new", now, body) + "\n", body, Malformed},
		{"X-Service-Signature", "", body, Malformed},
		{"X-Service-Signature", sign("new", now, "{"), "{", Malformed},
	} {
		got, err := ReadWebhook([]string{"new", "old"}, http.Header{c.header: {c.signature}, "X-Service-Sequence": {"7"},
			"X-Service-Test": {"true"}}, []byte(c.body), now)
		if err != c.want || err == nil && (got.ID != "evt_1" || got.Event == nil || got.Sequence != 7 || !got.Test) {
			t.Errorf("%s %q: %+v, %v", c.header, c.signature, got, err)
		}
	}
	const newer = `{"id":"evt_2","type":"consultation.invented","data":{}}`
	got, err := ReadWebhook([]string{"s"}, http.Header{"X-Service-Signature": {sign("s", now, newer)}}, []byte(newer), now)
	if err != nil || got.Event != nil || got.Type != "consultation.invented" {
		t.Errorf("%+v, %v", got, err)
	}
}
