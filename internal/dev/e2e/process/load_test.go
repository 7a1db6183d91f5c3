package process_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/cmd/democrm/crm"
	"partnerd/gen/partner/models"
	"partnerd/internal/base/poll"
	"partnerd/internal/dev/e2e/faults"
	"partnerd/internal/domain/consultation"
)

const (
	patience    = 10 * time.Second // per request
	persistence = 50 * time.Second // per request with retries; a refresh is remembered for a minute
	opening     = 20_000           // initial cents in a wallet
)

// caller is one application of a partner, with its receiver.
type caller struct {
	app      crm.Application
	received *inbox
	lies     atomic.Int32 // way in which the receiver lies; -1: none
	honest   bool         // it never lies
	deaf     bool         // its certificate is invalid, so nothing ever arrives
}

// The ways in which a receiver lies.
const (
	lieSlow = iota
	lieFails
	lieLate
	lieCloses
	lieCount
)

var lieNames = [lieCount]string{"slow", "answers 500", "answers when nobody listens any more", "closes the connection"}

// ServeHTTP implements [http.Handler].
func (c *caller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch c.lies.Load() {
	case lieSlow:
		poll.Pause(r.Context(), 2*time.Second)
	case lieFails:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case lieLate: // it was received, but the sender is not told
		body, _ := io.ReadAll(r.Body)
		again := r.Clone(context.Background())
		again.Body = io.NopCloser(bytes.NewReader(body))
		c.received.ServeHTTP(httptest.NewRecorder(), again)
		poll.Pause(r.Context(), 20*time.Second)
		return
	case lieCloses:
		panic(http.ErrAbortHandler)
	}
	c.received.ServeHTTP(w, r)
}

// callers are all callers and what they saw.
type callers struct {
	stage     *stage
	history   *faults.History
	answers   *faults.Answers
	price     int64
	apps      []*caller
	customers []*customer

	mu         sync.Mutex
	unexpected []string          // responses that no caller may see
	made       map[string]string // key → consultation, of all acknowledged ones
	refreshes  int
	relinked   int
	topUps     int
}

// customer is a caller's client, and what its CRM knows about them.
type customer struct {
	all    *callers
	of     *caller
	number int
	id     string

	mu      sync.Mutex
	access  string
	refresh string
	used    string // the previous refresh token
	holds   []hold // by number
}

// hold is the state of one reservation.
type hold struct {
	key, id string // id is empty until there is a response
	asked   int64  // moment of the history
	served  bool   // a lawyer takes it
	ended   bool   // its cancellation was requested
}

func (c *callers) register(name string, handler func(*caller) (url string), honest bool) *caller {
	a := &caller{received: &inbox{arrivals: map[string]int{}, bodies: map[string][32]byte{}}, honest: honest}
	a.lies.Store(-1)
	address := handler(a)
	c.stage.ask(c.stage.T, &a.app, "app", "create", "--json", "--name", name, "--redirect-uri", address+"/callback",
		"--webhook-url", address+"/webhooks")
	a.received.Receiver = crm.NewReceiver(a.app.WebhookSecret)
	c.apps = append(c.apps, a)
	return a
}

// gather registers applications and links their clients.
func gather(t *testing.T, s *stage) *callers {
	t.Helper()
	c := &callers{stage: s, history: faults.NewHistory(), answers: faults.NewAnswers(),
		price: int64(consultation.Price), made: map[string]string{}}
	plain := func(a *caller) string {
		server := httptest.NewServer(a)
		t.Cleanup(server.CloseClientConnections)
		return server.URL
	}
	honest := c.register("Honest CRM", plain, true)
	lying := c.register("Lying CRM", plain, false)
	wrong := c.register("CRM with a wrong certificate", func(a *caller) string {
		server := httptest.NewUnstartedServer(a)
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // everyone rejects the certificate
		server.StartTLS()
		t.Cleanup(server.CloseClientConnections)
		return server.URL
	}, false)
	wrong.deaf = true
	for i, of := range []*caller{honest, honest, honest, honest, honest, lying, lying, wrong} {
		u := &customer{all: c, of: of, number: i}
		x := c.platform(of, "/sandbox/clients", map[string]any{"name": fmt.Sprint("Client ", i), "phoneVerified": true,
			"balanceCents": opening})
		var made struct{ ID string }
		if err := json.Unmarshal(x.body, &made); err != nil || x.status != http.StatusCreated {
			t.Fatalf("%d %s", x.status, x.body)
		}
		u.id = made.ID
		if !u.link(t.Context()) {
			t.Fatal("a client cannot be linked")
		}
		c.customers = append(c.customers, u)
	}
	return c
}

// do sends one request to any of the serving processes. Status 0 means that no complete response came back.
func (c *callers) do(ctx context.Context, method, path, authorization string, header map[string]string,
	body []byte,
) answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+c.stage.served[mathrand.IntN(len(c.stage.served))]+path,
		bytes.NewReader(body))
	if err != nil {
		return answer{}
	}
	r.Header.Set("Authorization", authorization)
	r.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		r.Header.Set(k, v)
	}
	sent := time.Now()
	x := send(r)
	c.answers.Add(sent, x.status)
	if x.status >= 500 && x.status != http.StatusServiceUnavailable {
		c.tell("%s %s: %d, of which the log says: %s", method, path, x.status,
			c.stage.logged(x.header.Get("X-Request-Id")))
	}
	return x
}

// tell records a response that no caller may see.
func (c *callers) tell(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unexpected = append(c.unexpected, fmt.Sprintf(format, args...))
}

func (c *callers) platform(of *caller, path string, body any) answer {
	raw, _ := json.Marshal(body)
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(of.app.ClientID)+
		":"+url.QueryEscape(of.app.ClientSecret)))
	return c.do(context.Background(), http.MethodPost, "/api/platform/v1"+path, basic, nil, raw)
}

// again retries a request until it gets a final response; unavailability is not final. Status 0 means that the time ran
// out.
func again(ctx context.Context, ask func() answer) answer {
	for end := time.Now().Add(persistence); time.Now().Before(end) &&
		ctx.Err() == nil; poll.Pause(ctx, 300*time.Millisecond) {
		x := ask()
		if x.status != 0 && x.status != http.StatusServiceUnavailable && x.code() != "IDEMPOTENCY_IN_PROGRESS" {
			return x
		}
	}
	return answer{}
}

// code returns the code of a problem.
func (a answer) code() string {
	var p struct{ Code string }
	_ = json.Unmarshal(a.body, &p)
	return p.Code
}

// link links the client again.
func (u *customer) link(ctx context.Context) bool {
	x := again(ctx, func() answer {
		return u.all.platform(u.of, "/sandbox/clients/"+u.id+"/link", map[string]any{"scopes": crm.AllScopes})
	})
	return u.take(x, "")
}

// take stores the tokens of a response.
func (u *customer) take(x answer, before string) bool {
	var tokens struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	if x.status != http.StatusOK || json.Unmarshal(x.body, &tokens) != nil {
		return false
	}
	u.access, u.refresh, u.used = tokens.AccessToken, tokens.RefreshToken, before
	return true
}

// renew exchanges the refresh token, under one key until there is a response. If there is never one, the client is
// linked again.
func (u *customer) renew(ctx context.Context) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key, before := rand.Text(), u.refresh
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {before}, "client_id": {u.of.app.ClientID},
		"client_secret": {u.of.app.ClientSecret}}.Encode()
	x := again(ctx, func() answer {
		return u.all.do(ctx, http.MethodPost, "/api/oauth/token", "",
			map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Idempotency-Key": key},
			[]byte(form))
	})
	ok := u.take(x, before)
	u.all.mu.Lock()
	if ok {
		u.all.refreshes++
	} else {
		u.all.relinked++
	}
	u.all.mu.Unlock()
	if !ok && ctx.Err() == nil {
		if x.status != 0 && x.status < 500 {
			u.all.tell("a refresh that was repeated with its key was refused: %d %s", x.status, x.body)
		}
		u.link(ctx)
	}
}

func (u *customer) bearer() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return "Bearer " + u.access
}

// ask retries a client's request until it gets a final response.
func (u *customer) ask(ctx context.Context, method, path, key string, body any) answer {
	raw := []byte(nil)
	if body != nil {
		raw, _ = json.Marshal(body)
	}
	header := map[string]string{}
	if key != "" {
		header["Idempotency-Key"] = key
	}
	return again(ctx, func() answer {
		x := u.all.do(ctx, method, path, u.bearer(), header, raw)
		if x.status == http.StatusUnauthorized {
			u.renew(ctx)
			return answer{}
		}
		return x
	})
}

// read reads the wallet once.
func (u *customer) read(ctx context.Context, who int) {
	asked := u.all.history.Now()
	x := u.all.do(ctx, http.MethodGet, "/api/v1/wallet", u.bearer(), nil, nil)
	if x.status == http.StatusUnauthorized {
		u.renew(ctx)
	}
	var w models.Wallet
	if x.status != http.StatusOK || json.Unmarshal(x.body, &w) != nil {
		return
	}
	u.all.history.Add(who, faults.Asked{Wallet: u.id, Action: faults.Read}, asked,
		faults.Answered{Outcome: faults.Done, Available: w.AvailableCents, Held: w.HeldCents})
	if w.BalanceCents != w.AvailableCents+w.HeldCents {
		u.all.tell("a wallet of %d and %d has %d", w.AvailableCents, w.HeldCents, w.BalanceCents)
	}
}

// reserve creates a consultation. Some callers give up after the first attempt and never learn the result.
func (u *customer) reserve(ctx context.Context, who int, served, giveUp bool) {
	u.mu.Lock()
	n, h := len(u.holds), hold{key: rand.Text(), asked: u.all.history.Now(), served: served}
	u.holds = append(u.holds, h)
	u.mu.Unlock()
	body := map[string]any{"competence": "IP", "language": "PT", "subject": "Deposit not returned",
		"withdrawalWaiverAcknowledged": true, "externalRef": h.key}
	if served {
		body["competence"], body["language"] = "HOUSING", "FR"
	}
	var x answer
	if giveUp {
		raw, _ := json.Marshal(body)
		x = u.all.do(ctx, http.MethodPost, "/api/v1/consultations", u.bearer(),
			map[string]string{"Idempotency-Key": h.key}, raw)
	} else {
		x = u.ask(ctx, http.MethodPost, "/api/v1/consultations", h.key, body)
	}
	outcome := faults.Unknown
	switch {
	case x.status == http.StatusCreated:
		outcome = faults.Done
		var made models.Consultation
		if err := json.Unmarshal(x.body, &made); err != nil {
			u.all.tell("created: %s", x.body)
			return
		}
		u.mu.Lock()
		u.holds[n].id = made.ID
		u.mu.Unlock()
		u.all.mu.Lock()
		u.all.made[h.key] = made.ID
		u.all.mu.Unlock()
	case x.code() == "INSUFFICIENT_FUNDS":
		outcome = faults.Refused
	case x.status == http.StatusUnauthorized: // it did not happen, and reveals nothing about the wallet
		return
	case x.status != 0 && x.status < 500 && x.code() != "IDEMPOTENCY_IN_PROGRESS":
		u.all.tell("create: %d %s", x.status, x.body)
	}
	u.all.history.Add(who, faults.Asked{Wallet: u.id, Action: faults.Reserve, Hold: n}, h.asked,
		faults.Answered{Outcome: outcome})
}

// release cancels one of the consultations that no lawyer takes.
func (u *customer) release(ctx context.Context, who int) (found bool) {
	u.mu.Lock()
	n := slices.IndexFunc(u.holds, func(h hold) bool { return h.id != "" && !h.served && !h.ended })
	if n < 0 {
		u.mu.Unlock()
		return false
	}
	u.holds[n].ended = true
	id := u.holds[n].id
	u.mu.Unlock()
	asked, outcome := u.all.history.Now(), faults.Unknown
	switch x := u.ask(ctx, http.MethodPost, "/api/v1/consultations/"+id+"/cancel", "", nil); {
	case x.status == http.StatusOK:
		outcome = faults.Done
	case x.status != 0 && x.status < 500:
		u.all.tell("cancel of %s: %d %s", id, x.status, x.body)
	default:
		u.mu.Lock()
		u.holds[n].ended = false // retried once everything is healed
		u.mu.Unlock()
	}
	u.all.history.Add(who, faults.Asked{Wallet: u.id, Action: faults.Release, Hold: n}, asked,
		faults.Answered{Outcome: outcome})
	return true
}

// topUp pays on the checkout page and waits until the page shows that the money has arrived.
func (u *customer) topUp(ctx context.Context, who int, cents int64) {
	x := u.ask(ctx, http.MethodPost, "/api/v1/wallet/topup-session", rand.Text(),
		map[string]any{"amountCents": cents, "returnUrl": "https://crm.example/wallet"})
	var session models.TopupSession
	if x.status != http.StatusOK || json.Unmarshal(x.body, &session) != nil {
		return // the wallet may be too full
	}
	asked, paid := u.all.history.Now(), false
	for end := time.Now().Add(persistence); time.Now().Before(end) &&
		ctx.Err() == nil; poll.Pause(ctx, 300*time.Millisecond) {
		b := crm.NewBrowser("https://crm.example/")
		page, err := b.Open(ctx, session.CheckoutURL)
		if err != nil || page.Status != http.StatusOK {
			continue
		}
		if slices.ContainsFunc(page.Links, func(l string) bool { return strings.Contains(l, "topup=success") }) {
			u.all.mu.Lock()
			u.all.topUps++
			u.all.mu.Unlock()
			u.all.history.Add(who, faults.Asked{Wallet: u.id, Action: faults.TopUp, Cents: cents}, asked,
				faults.Answered{Outcome: faults.Done})
			return
		}
		if form, err := page.Form("action"); err == nil && !paid {
			page, err = b.Send(ctx, page, form, nil, "pay")
			paid = err == nil && page.Status < 400
		}
	}
	u.all.history.Add(who, faults.Asked{Wallet: u.id, Action: faults.TopUp, Cents: cents}, asked,
		faults.Answered{Outcome: faults.Unknown})
}

// live acts as partners do until ctx ends.
func (u *customer) live(ctx context.Context, who int, random *mathrand.Rand) {
	for poll.Pause(ctx, time.Duration(60+random.IntN(240))*time.Millisecond) {
		done := context.WithoutCancel(ctx) // what is begun is completed
		switch n := random.IntN(100); {
		case n < 50:
			u.read(done, who)
		case n < 68:
			u.reserve(done, who, false, n < 53)
		case n < 69:
			u.reserve(done, who, true, false)
		case n < 86:
			u.release(done, who)
		case n < 88:
			u.topUp(done, who, int64(1+random.IntN(3))*u.all.price)
		case n < 91:
			u.renew(done)
		default:
			u.all.do(done, http.MethodGet, []string{"/api/v1/consultations", "/api/v1/me",
				"/api/v1/wallet/transactions"}[n%3], u.bearer(), nil, nil)
		}
	}
}

// settle finds out the result of requests without a response, and cancels what no lawyer takes.
func (u *customer) settle(ctx context.Context, there map[string]string) {
	u.mu.Lock()
	for i, h := range u.holds {
		if h.id == "" {
			u.holds[i].id = there[h.key]
		}
	}
	u.mu.Unlock()
	for u.release(ctx, 2*u.number) {
	}
	u.read(ctx, 2*u.number)
}

// ends adds to the history what the service did with the consultations that lawyers took.
func (u *customer) ends(status map[string]string) {
	for n, h := range u.holds {
		if !h.served || h.id == "" {
			continue
		}
		action := faults.Release
		if status[h.id] == string(consultation.Completed) {
			action = faults.Capture
		}
		learned := u.all.history.Now()
		for _, e := range u.of.received.Events(h.id) {
			if e.Type == "consultation.completed" || e.Type == "consultation.refunded" {
				learned = u.all.history.At(e.Arrived)
			}
		}
		u.all.history.AddUntil(2*len(u.all.customers)+u.number, faults.Asked{Wallet: u.id, Action: action, Hold: n},
			h.asked, learned, faults.Answered{Outcome: faults.Done})
	}
}

// wallets returns the initial balances.
func (c *callers) wallets() map[string]int64 {
	begun := map[string]int64{}
	for _, u := range c.customers {
		begun[u.id] = opening
	}
	return begun
}

// acknowledged returns the acknowledged consultations by key.
func (c *callers) acknowledged() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.made)
}
