package process_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"partnerd/cmd/democrm/crm"
	"partnerd/gen/partner/models"
)

const password = "a password for tests only"

// partner is an application with its webhook receiver, and one client who can be linked.
type partner struct {
	app      crm.Application
	email    string
	issuer   string
	received *inbox
}

// onboard registers an application and a client with money. The receiver outlives every process of the program.
func onboard(t *testing.T, in *installation, issuer string, balanceCents int) *partner {
	t.Helper()
	p := &partner{email: strings.ToLower(rand.Text()[:10]) + "@client.example", issuer: issuer,
		received: &inbox{arrivals: map[string]int{}, bodies: map[string][32]byte{}}}
	server := httptest.NewServer(p.received)
	t.Cleanup(server.Close)
	callback := server.URL + "/callback"
	in.ask(t, &p.app, "app", "create", "--json", "--name", "Process CRM", "--redirect-uri", callback,
		"--webhook-url", server.URL+"/webhooks")
	p.app.RedirectURI = callback
	p.received.Receiver = crm.NewReceiver(p.app.WebhookSecret)
	p.register(t, in, balanceCents)
	return p
}

// register registers the client.
func (p *partner) register(t *testing.T, in *installation, balanceCents int) {
	t.Helper()
	var client struct{ ID string }
	in.ask(t, &client, "client", "create", "--json", "--email", p.email, "--password", password, "--name",
		"Demo Client", "--phone", "+33639980002", "--phone-verified", "--balance-cents", fmt.Sprint(balanceCents))
}

// another returns the partner with another client. Each client has one phone, and is called only after their previous
// call.
func (p *partner) another(t *testing.T, in *installation, balanceCents int) *partner {
	t.Helper()
	other := *p
	other.email = strings.ToLower(rand.Text()[:10]) + "@client.example"
	other.register(t, in, balanceCents)
	return &other
}

// config is the stock OAuth client against the process at base.
func (p *partner) config(base string) *oauth2.Config {
	return p.app.Config(crm.Metadata{AuthorizationEndpoint: base + "/api/oauth/authorize",
		TokenEndpoint: base + "/api/oauth/token"}, crm.AllScopes...)
}

// link takes the client through the pages at base.
func (p *partner) link(t *testing.T, base string) *oauth2.Token {
	t.Helper()
	token, err := crm.Link(t.Context(), p.config(base), p.issuer, p.email, password)
	if err != nil {
		t.Fatalf("link: %v", err)
	}
	return token
}

// request is a creation with everything needed to retry it.
type request struct {
	key, competence, language string
}

// answer is a response; status 0 means that there was none.
type answer struct {
	status int
	body   []byte
	header http.Header
}

var client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}

// create sends a creation. A response that was cut off counts as none.
func create(ctx context.Context, base, accessToken string, q request) answer {
	body := fmt.Sprintf(`{"competence":%q,"language":%q,"subject":"Deposit not returned","withdrawalWaiverAcknowledged":true,"externalRef":%q}`, q.competence, q.language, q.key)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/api/v1/consultations", strings.NewReader(body))
	if err != nil {
		return answer{}
	}
	r.Header.Set("Authorization", "Bearer "+accessToken)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", q.key)
	return send(r)
}

func send(r *http.Request) answer { return sendBy(client, r) }

func sendBy(c *http.Client, r *http.Request) answer {
	resp, err := c.Do(r)
	if err != nil {
		return answer{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}
	}
	return answer{resp.StatusCode, body, resp.Header}
}

func get(t *testing.T, address, accessToken string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+accessToken)
	return send(r)
}

func post(ctx context.Context, address string, form url.Values) answer {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return answer{}
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return send(r)
}

func (a answer) consultation(t *testing.T) models.Consultation {
	t.Helper()
	var c models.Consultation
	if err := json.Unmarshal(a.body, &c); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return c
}

// inbox is a partner's receiver that also counts redeliveries and compares their bytes.
type inbox struct {
	*crm.Receiver
	mu       sync.Mutex
	arrivals map[string]int // delivery id -> number of arrivals
	bodies   map[string][32]byte
	changed  []string // deliveries that arrived again with other bytes
}

func (b *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	delivery, sum := r.Header.Get("X-Service-Delivery"), sha256.Sum256(body)
	b.mu.Lock()
	if b.arrivals[delivery]++; b.arrivals[delivery] > 1 && b.bodies[delivery] != sum {
		b.changed = append(b.changed, delivery)
	}
	b.bodies[delivery] = sum
	b.mu.Unlock()
	b.Receiver.ServeHTTP(w, r)
}

// faults returns what no partner may ever see. Redeliveries are allowed only after a kill.
func (b *inbox) faults(repeatsAllowed bool) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, err := range b.Refused() {
		out = append(out, "refused: "+err.Error())
	}
	for _, d := range b.changed {
		out = append(out, "delivery "+d+" came again with other bytes")
	}
	for d, n := range b.arrivals {
		if n > 1 && !repeatsAllowed {
			out = append(out, fmt.Sprintf("delivery %s came %d times", d, n))
		}
	}
	return out
}
