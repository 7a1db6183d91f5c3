package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"partnerd/cmd/democrm/crm"
	"partnerd/internal/base/money"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

const (
	price    = 2000 // of a consultation, in cents
	callback = "http://localhost:3000/callback"
	phone    = "+33639980001"
)

// partner is an application with its own webhook receiver.
type partner struct {
	crm.Application
	name     string
	receiver *receiver
}

func (w *world) partner(t testing.TB, name string) *partner {
	t.Helper()
	p := &partner{name: name, receiver: newReceiver(t)}
	c, err := w.CreateApplication(t.Context(), application.NewApplication{
		Name: name, RedirectURIs: []string{callback, callback + "?tenant=1"}, Scopes: application.AllScopes},
		p.receiver.url)
	if err != nil {
		t.Fatalf("create application: %v", err)
	}
	p.Application = crm.Application{ClientID: c.ClientID, ClientSecret: c.ClientSecret, WebhookSecret: c.WebhookSecret,
		RedirectURI: callback}
	p.receiver.trust(c.WebhookSecret)
	w.secret(c.ClientSecret, c.WebhookSecret)
	return p
}

func (p *partner) config(w *world, scopes ...string) *oauth2.Config {
	return p.Config(crm.Metadata{AuthorizationEndpoint: w.base + "/api/oauth/authorize",
		TokenEndpoint: w.base + "/api/oauth/token"}, scopes...)
}

// person is an end client with a browser.
type person struct {
	account.Client
	password string
	browser  *crm.Browser
}

// client registers a person with money and, if verified, a verified phone.
func (w *world) client(t testing.TB, name string, verified bool, balance money.Cents) *person {
	t.Helper()
	p := &person{password: "password of " + name, browser: w.browser()}
	n := account.NewClient{Email: name + "@client.example", Name: "Client " + name, Password: p.password, Phone: phone,
		PhoneVerified: verified}
	var err error
	if p.Client, err = w.CreateClient(t.Context(), n, balance); err != nil {
		t.Fatalf("create client: %v", err)
	}
	w.inTx(t, func(tx postgres.Tx) error { return w.Accounts.SetTimeZone(t.Context(), tx, p.ID, byDay(tx.Now)) })
	w.secret(p.password, phone)
	return p
}

// byDay returns a zone in which it is early afternoon, so a callback may be offered whenever the tests run.
func byDay(now time.Time) string {
	return fmt.Sprintf("Etc/GMT%+d", now.UTC().Hour()-13)
}

func (w *world) browser() *crm.Browser { return crm.NewBrowser(callback).Through(w.http.Transport) }

// session is one client linked with one partner.
type session struct {
	w       *world
	partner *partner
	person  *person
	config  *oauth2.Config
	token   *oauth2.Token
}

// link goes through sign-in, consent and the code exchange; no scopes means all.
func (w *world) link(t testing.TB, p *partner, c *person, scopes ...string) *session {
	t.Helper()
	if len(scopes) == 0 {
		scopes = crm.AllScopes
	}
	s := &session{w: w, partner: p, person: c, config: p.config(w, scopes...)}
	verifier := oauth2.GenerateVerifier()
	back, err := crm.Consent(t.Context(), c.browser,
		s.config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier)), c.Email, c.password, "allow")
	if err != nil {
		t.Fatalf("consent: %v", err)
	}
	if s.token, err = s.config.Exchange(w.ctx(t), back.Query().Get("code"),
		oauth2.VerifierOption(verifier)); err != nil {
		t.Fatalf("exchange: %v", err)
	}
	w.secret(back.Query().Get("code"), s.token.AccessToken, s.token.RefreshToken)
	return s
}

// ctx makes the stock OAuth client use the checked transport.
func (w *world) ctx(t testing.TB) context.Context {
	return context.WithValue(t.Context(), oauth2.HTTPClient, w.http)
}

// reply is a response of the service.
type reply struct {
	Status int
	Header http.Header
	Body   []byte
}

func (r *reply) String() string { return fmt.Sprintf("%d %.300s", r.Status, r.Body) }

func (r *reply) value() object {
	var v object
	_ = json.Unmarshal(r.Body, &v)
	return v
}

func (r *reply) code() string {
	code, _ := r.value()["code"].(string)
	return code
}

// issues returns the issues as "path code", sorted.
func (r *reply) issues() (out []string) {
	list, _ := r.value()["issues"].([]any)
	for _, i := range list {
		issue := i.(object)
		out = append(out, fmt.Sprint(issue["path"], " ", issue["code"]))
	}
	slices.Sort(out)
	return out
}

// into decodes the body.
func (r *reply) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(r.Body, v); err != nil {
		t.Fatalf("%v: %s", err, r)
	}
}

// is asserts status and code; code is empty for a success.
func (r *reply) is(t testing.TB, what string, status int, code string) {
	t.Helper()
	if r.Status != status || r.code() != code {
		t.Errorf("%s: got %s, want %d %s", what, r, status, code)
	}
}

// send sends a request. body may be nil, text, bytes or anything that becomes JSON. header is pairs of name and value:
// a name given twice is sent twice, and the value "-" removes a default header.
func (w *world) send(t testing.TB, method, path string, body any, header ...string) *reply {
	t.Helper()
	h := http.Header{}
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	case []byte:
		reader = bytes.NewReader(b)
	case url.Values:
		reader = strings.NewReader(b.Encode())
		h.Set("Content-Type", "application/x-www-form-urlencoded")
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		reader = bytes.NewReader(raw)
		h.Set("Content-Type", "application/json")
	}
	given := map[string]bool{}
	for i := 0; i < len(header); i += 2 {
		name := http.CanonicalHeaderKey(header[i])
		if !given[name] {
			h.Del(name)
		}
		given[name] = true
		if header[i+1] != "-" {
			h.Add(name, header[i+1])
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), method, w.base+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = h
	resp, err := w.http.Do(r)
	if err != nil { // not fatal: many requests run outside the test's own goroutine
		t.Errorf("%s %s: %v", method, path, err)
		return &reply{Header: http.Header{}}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s %s: %v", method, path, err)
	}
	return &reply{resp.StatusCode, resp.Header, raw}
}

// do sends a request with the session's access token.
func (s *session) do(t testing.TB, method, path string, body any, header ...string) *reply {
	t.Helper()
	return s.w.send(t, method, path, body,
		append([]string{"Authorization", "Bearer " + s.token.AccessToken}, header...)...)
}

func (s *session) get(t testing.TB, path string) *reply {
	t.Helper()
	return s.do(t, http.MethodGet, path, nil)
}

func newKey() string { return rand.Text() }

// receiver is a partner's webhook receiver. It checks every delivery against the contract.
type receiver struct {
	*crm.Receiver
	url, path string // no other program on this machine knows the path

	mu       sync.Mutex
	onEvent  func(crm.Event)
	answer   func(w http.ResponseWriter, eventType string) bool
	attempts []attempt
	examined bool // deliveries need not comply with the contract
}

// attempt is one request as it arrived.
type attempt struct {
	Type, Delivery, Number, Signature string
	Body                              []byte
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.take(t, w, req) }))
	t.Cleanup(server.Close)
	r.path = "/webhooks/" + strings.ToLower(rand.Text())
	r.url = server.URL + r.path
	return r
}

// before registers f, which is called with each event before the response.
func (r *receiver) before(f func(crm.Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onEvent = f
}

// beExamined runs f while deliveries may be hostile.
func (r *receiver) beExamined(f func()) {
	set := func(on bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.examined = on
	}
	set(true)
	defer set(false)
	f()
}

// answering lets f respond first; f returns false to leave the request to the receiver.
func (r *receiver) answering(f func(w http.ResponseWriter, eventType string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// attemptsOf returns the requests of a type as they arrived.
func (r *receiver) attemptsOf(eventType string) (out []attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.attempts {
		if x.Type == eventType {
			out = append(out, x)
		}
	}
	return out
}

func (r *receiver) trust(secret string) { r.Receiver = crm.NewReceiver(secret) }

func (r *receiver) take(t testing.TB, w http.ResponseWriter, req *http.Request) {
	if req.URL.Path != r.path {
		http.NotFound(w, req) // the caller expects another program at this port
		return
	}
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		t.Errorf("read webhook: %v", err)
	}
	h := req.Header
	r.mu.Lock()
	examined := r.examined
	r.mu.Unlock()
	if examined {
		req.Body = io.NopCloser(bytes.NewReader(raw))
		r.ServeHTTP(w, req)
		return
	}
	for _, fault := range spec.judgeWebhook(req, raw, r.Now().Unix()) {
		t.Errorf("webhook %s: %s: %s", h.Get("X-Service-Event"), fault, clip(raw))
	}
	r.mu.Lock()
	r.attempts = append(r.attempts, attempt{h.Get("X-Service-Event"), h.Get("X-Service-Delivery"),
		h.Get("X-Service-Attempt"), h.Get("X-Service-Signature"), raw})
	onEvent, answer := r.onEvent, r.answer
	r.mu.Unlock()
	if answer != nil && answer(w, h.Get("X-Service-Event")) {
		return
	}
	if onEvent != nil {
		var e crm.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Errorf("webhook: %v", err)
		}
		onEvent(e)
	}
	req.Body = io.NopCloser(bytes.NewReader(raw))
	refused := len(r.Refused())
	r.ServeHTTP(w, req)
	for _, err := range r.Refused()[refused:] {
		t.Errorf("webhook refused: %v", err)
	}
}

// types returns the types that arrived for a consultation in order of sequence, without their common prefix.
func (r *receiver) types(consultationID string) string {
	var out []string
	for _, e := range r.Events(consultationID) {
		out = append(out, strings.TrimPrefix(e.Type, "consultation."))
	}
	return strings.Join(out, " ")
}

// await waits until a type and all before it have arrived.
func (r *receiver) await(t testing.TB, consultationID, eventType string) crm.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e, err := r.Wait(ctx, consultationID, "consultation."+eventType)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// awaitAll waits until exactly these types have arrived.
func (r *receiver) awaitAll(t testing.TB, consultationID, types string) {
	t.Helper()
	want := strings.Fields(types)
	if !holdsWithin(patience, func() bool { return len(r.Events(consultationID)) >= len(want) }) {
		t.Fatalf("not within %s: events %s, only %s of %s", patience, types, r.types(consultationID), consultationID)
	}
	if got := r.types(consultationID); got != types {
		t.Errorf("events %s, want %s", got, types)
	}
}
