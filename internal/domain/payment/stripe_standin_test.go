package payment

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85"

	"partnerd/internal/base/clock"
)

const stripeKey, stripeWebhookKey = "sk_test_51demo", "whsec_demo"

// shape is what Stripe's published API accepts for an operation: each field with the pattern of its value.
type shape struct {
	required, optional map[string]*regexp.Regexp
}

func form(pattern string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + pattern + `)$`) }

var (
	amount   = form(`[1-9][0-9]{0,7}`)
	web      = form(`https?://[^\s]+`)
	metadata = form(`.{1,500}`)
)

// shapes cover POST /v1/checkout/sessions (mode payment), its expire, and POST /v1/refunds, as far as used here. A
// field not listed is rejected, as Stripe rejects unknown parameters.
var shapes = map[string]shape{
	"/v1/checkout/sessions": {
		required: map[string]*regexp.Regexp{
			"mode": form(`payment`), "success_url": web, "expires_at": form(`[0-9]{10}`),
			"line_items[0][price_data][currency]": form(`[a-z]{3}`), "line_items[0][price_data][unit_amount]": amount,
			"line_items[0][price_data][product_data][name]": form(`.{1,250}`), "line_items[0][quantity]": form(`1`),
			"client_reference_id": form(`.{1,200}`), "metadata[topup_id]": metadata,
		},
		optional: map[string]*regexp.Regexp{"cancel_url": web, "locale": form(`en|fr`),
			"payment_intent_data[metadata][topup_id]": metadata},
	},
	"/v1/checkout/sessions/{id}/expire": {},
	"/v1/refunds": {
		required: map[string]*regexp.Regexp{"payment_intent": form(`pi_[A-Za-z0-9_]+`), "amount": amount},
		optional: map[string]*regexp.Regexp{"reason": form(`duplicate|fraudulent|requested_by_customer`),
			"metadata[topup_id]": metadata, "metadata[refund_id]": metadata},
	},
}

// standIn responds as Stripe does and fails the test for a request that Stripe would reject.
type standIn struct {
	t     *testing.T
	clock *clock.Manual
	url   string

	mu       sync.Mutex
	sessions map[string]*stripeSession
	byKey    map[string]answer
	requests []string // path and idempotency key
	refunded map[string]int64
	refunds  []stripeRefund
	fail     []int // statuses of the next responses, before the request is read
	lose     bool  // requests take effect, but their responses are lost
}

type stripeRefund struct {
	ID       string            `json:"id"`
	Object   string            `json:"object"`
	Amount   int64             `json:"amount"`
	Currency string            `json:"currency"`
	Intent   string            `json:"payment_intent"`
	Status   string            `json:"status"`
	Metadata map[string]string `json:"metadata"`
}

type stripeSession struct {
	ID, URL, Status, PaymentStatus, Reference, Intent string
	Locale, Product                                   string
	Amount, Expires                                   int64
}

type answer struct {
	form   string
	status int
	body   string
}

func newStandIn(t *testing.T, clk *clock.Manual) *standIn {
	s := &standIn{t: t, clock: clk, sessions: map[string]*stripeSession{}, byKey: map[string]answer{},
		refunded: map[string]int64{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

var expirePath = regexp.MustCompile(`^/v1/checkout/sessions/(cs_[^/]+)/expire$`)

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	s.requests = append(s.requests, r.URL.Path+" "+key)
	if len(s.fail) > 0 {
		status := s.fail[0]
		s.fail = s.fail[1:]
		write(w, status, `{"error": {"type": "api_error", "message": "Something went wrong."}}`)
		return
	}
	s.checkHeader(r)
	if r.Method == http.MethodGet {
		s.list(w, r)
		return
	}
	path, id := r.URL.Path, ""
	if m := expirePath.FindStringSubmatch(path); m != nil {
		path, id = "/v1/checkout/sessions/{id}/expire", m[1]
	}
	if err := r.ParseForm(); err != nil {
		s.t.Errorf("stand-in: %v", err)
	}
	s.checkShape(path, r.PostForm)
	if stored, ok := s.byKey[key]; ok && key != "" {
		if stored.form != r.PostForm.Encode() {
			write(w, http.StatusBadRequest, `{"error": {"type": "idempotency_error", "message": "Keys for idempotent requests can only be used with the same parameters they were first used with."}}`)
			return
		}
		w.Header().Set("Idempotent-Replayed", "true")
		s.give(w, stored.status, stored.body)
		return
	}
	status, body := s.answer(path, id, r.PostForm)
	if key != "" && status < 300 {
		s.byKey[key] = answer{r.PostForm.Encode(), status, body}
	}
	s.give(w, status, body)
}

func (s *standIn) give(w http.ResponseWriter, status int, body string) {
	if s.lose {
		panic(http.ErrAbortHandler)
	}
	write(w, status, body)
}

// list responds to GET /v1/refunds, newest first and in pages, as far as used here.
func (s *standIn) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if r.URL.Path != "/v1/refunds" || !amount.MatchString(q.Get("limit")) || err != nil || limit > 100 ||
		q.Get("payment_intent") == "" {
		s.t.Errorf("stand-in: GET %s", r.URL)
	}
	page, more, begun := []stripeRefund{}, false, q.Get("starting_after") == ""
	for _, refund := range slices.Backward(s.refunds) {
		switch {
		case refund.Intent != q.Get("payment_intent"):
		case !begun:
			begun = refund.ID == q.Get("starting_after")
		case len(page) == limit:
			more = true
		default:
			page = append(page, refund)
		}
	}
	raw, err := json.Marshal(map[string]any{"object": "list", "url": "/v1/refunds", "has_more": more, "data": page})
	if err != nil {
		s.t.Error(err)
	}
	write(w, http.StatusOK, string(raw))
}

// loses sets whether responses are lost.
func (s *standIn) loses(answers bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = answers
}

// aDayLater drops the idempotency keys, as Stripe may after a day, and adds n manual refunds of one cent.
func (s *standIn) aDayLater(intent string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.byKey)
	for i := range n {
		s.refunds = append(s.refunds, stripeRefund{fmt.Sprintf("re_hand_%d", i), "refund", 1, "eur", intent,
			"succeeded", nil})
	}
}

func write(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", "req_demo")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

func (s *standIn) checkHeader(r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if r.Method != http.MethodPost && r.Method != http.MethodGet ||
		r.Header.Get("Authorization") != "Bearer "+stripeKey || r.Header.Get("Stripe-Version") != stripe.APIVersion ||
		len(key) > 255 || (key == "") != (r.Method == http.MethodGet) ||
		r.Method == http.MethodPost && r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" ||
		!strings.HasPrefix(r.Header.Get("User-Agent"), "Stripe/v1 GoBindings/") {
		s.t.Errorf("stand-in: %s %s with header %v", r.Method, r.URL.Path, r.Header)
	}
}

func (s *standIn) checkShape(path string, f url.Values) {
	sh, ok := shapes[path]
	if !ok {
		s.t.Errorf("stand-in: no such operation %s", path)
	}
	for name := range sh.required {
		if len(f[name]) != 1 {
			s.t.Errorf("stand-in: %s without %s", path, name)
		}
	}
	for name, values := range f {
		want := sh.required[name]
		if want == nil {
			want = sh.optional[name]
		}
		if want == nil || len(values) != 1 || !want.MatchString(values[0]) {
			s.t.Errorf("stand-in: %s with %s = %q", path, name, values)
		}
	}
}

func refusal(code, message string) (int, string) {
	return http.StatusBadRequest, fmt.Sprintf(`{"error": {"type": "invalid_request_error", "code": %q, "message": %q}}`,
		code, message)
}

func (s *standIn) answer(path, id string, f url.Values) (int, string) {
	switch path {
	case "/v1/checkout/sessions":
		expires, _ := strconv.ParseInt(f.Get("expires_at"), 10, 64)
		if in := time.Unix(expires, 0).Sub(s.clock.Now()); in < 30*time.Minute || in > 24*time.Hour {
			return refusal("",
				"The `expires_at` timestamp must be between 30 minutes and 24 hours from Checkout Session creation.")
		}
		n := len(s.sessions) + 1
		c := &stripeSession{ID: fmt.Sprintf("cs_test_%d", n), Status: "open", PaymentStatus: "unpaid",
			Reference: f.Get("metadata[topup_id]"), Intent: fmt.Sprintf("pi_%d", n), Expires: expires,
			Locale: f.Get("locale"), Product: f.Get("line_items[0][price_data][product_data][name]")}
		c.URL = "https://checkout.stripe.com/c/pay/" + c.ID
		c.Amount, _ = strconv.ParseInt(f.Get("line_items[0][price_data][unit_amount]"), 10, 64)
		s.sessions[c.ID] = c
		return http.StatusOK, c.json(false)
	case "/v1/refunds":
		intent := f.Get("payment_intent")
		cents, _ := strconv.ParseInt(f.Get("amount"), 10, 64)
		for _, c := range s.sessions {
			if c.Intent != intent || c.PaymentStatus != "paid" {
				continue
			}
			if s.refunded[intent]+cents > c.Amount {
				return refusal("charge_already_refunded", "Charge has already been refunded.")
			}
			s.refunded[intent] += cents
			refund := stripeRefund{fmt.Sprintf("re_%d", len(s.refunds)+1), "refund", cents, "eur", intent, "succeeded",
				map[string]string{"topup_id": f.Get("metadata[topup_id]"), "refund_id": f.Get("metadata[refund_id]")}}
			s.refunds = append(s.refunds, refund)
			raw, err := json.Marshal(refund)
			if err != nil {
				s.t.Error(err)
			}
			return http.StatusOK, string(raw)
		}
		return refusal("resource_missing", "No such payment_intent: '"+intent+"'")
	}
	c := s.sessions[id]
	switch {
	case c == nil:
		return http.StatusNotFound, `{"error": {"type": "invalid_request_error", "code": "resource_missing", "message": "No such checkout.session"}}`
	case c.Status != "open":
		return refusal("", "Only Checkout Sessions with a status in [\"open\"] can be expired.")
	}
	c.Status = "expired"
	return http.StatusOK, c.json(true)
}

// json returns a Checkout Session as Stripe writes it, with the relevant fields and some others. A session that can no
// longer be paid has no URL.
func (c *stripeSession) json(over bool) string {
	var address any
	if !over {
		address = c.URL
	}
	intent := any(nil)
	if c.PaymentStatus == "paid" || c.Status == "complete" {
		intent = c.Intent
	}
	raw, err := json.Marshal(map[string]any{
		"id": c.ID, "object": "checkout.session", "mode": "payment", "status": c.Status,
		"payment_status": c.PaymentStatus, "url": address, "amount_subtotal": c.Amount, "amount_total": c.Amount,
		"currency": "eur", "client_reference_id": c.Reference, "metadata": map[string]string{"topup_id": c.Reference},
		"payment_intent": intent, "expires_at": c.Expires, "livemode": false,
		"customer_details":     map[string]any{"email": "client@example.com", "address": nil},
		"payment_method_types": []string{"card", "sepa_debit"},
	})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// pay makes the client's payment on Stripe's page and returns the event that Stripe would post.
func (s *standIn) pay(c *stripeSession, id string) []byte {
	c.Status, c.PaymentStatus = "complete", "paid"
	return s.event(id, "checkout.session.completed", c)
}

func (s *standIn) event(id, kind string, c *stripeSession) []byte {
	return fmt.Appendf(nil,
		`{"id": %q, "object": "event", "api_version": %q, "created": %d, "livemode": false, "pending_webhooks": 1,
		"request": {"id": null, "idempotency_key": null}, "type": %q, "data": {"object": %s}}`,
		id, stripe.APIVersion, s.clock.Now().Unix(), kind, c.json(c.Status != "open"))
}

// reversal returns an event about a dispute, a refund or the charge of a session's payment, with the relevant fields.
func (s *standIn) reversal(id, kind string, c *stripeSession, object map[string]any) []byte {
	object["payment_intent"], object["currency"], object["livemode"] = c.Intent, "eur", false
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return fmt.Appendf(nil,
		`{"id": %q, "object": "event", "api_version": %q, "created": %d, "livemode": false, "pending_webhooks": 1,
		"request": {"id": null, "idempotency_key": null}, "type": %q, "data": {"object": %s}}`,
		id, stripe.APIVersion, s.clock.Now().Unix(), kind, raw)
}

func (s *standIn) dispute(id, kind string, c *stripeSession, cents int64, status string) []byte {
	return s.reversal(id, "charge.dispute."+kind, c, map[string]any{"id": "dp_" + c.ID, "object": "dispute",
		"amount": cents, "status": status, "charge": "ch_" + c.ID, "reason": "fraudulent"})
}

func (s *standIn) refundEvent(id, kind, refund string, c *stripeSession, cents int64, status, ours string) []byte {
	metadata := map[string]string{}
	if ours != "" {
		metadata = map[string]string{"refund_id": ours, "topup_id": c.Reference}
	}
	return s.reversal(id, kind, c, map[string]any{"id": refund, "object": "refund", "amount": cents, "status": status,
		"charge": "ch_" + c.ID, "metadata": metadata})
}

func (s *standIn) chargeRefunded(id string, c *stripeSession, cents int64) []byte {
	return s.reversal(id, "charge.refunded", c, map[string]any{"id": "ch_" + c.ID, "object": "charge",
		"amount": c.Amount, "amount_refunded": cents, "refunded": cents == c.Amount,
		"metadata": map[string]string{"topup_id": c.Reference}})
}

// only returns the one existing session.
func (s *standIn) only() *stripeSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions) != 1 {
		s.t.Fatalf("%d sessions at Stripe", len(s.sessions))
	}
	return s.sessions["cs_test_1"]
}
