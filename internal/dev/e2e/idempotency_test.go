package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// R101, R103–R105, R142, H50: every operation that takes a key responds to a retry with the stored bytes and does
// nothing. Another body is a conflict.
func TestReplays(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	for _, op := range spec.api() {
		if op.parameter("header", "Idempotency-Key") == nil {
			continue
		}
		c := k.valid(op)
		first := c.as(t, k.s)
		if !ok(op, first) || first.Header.Get("Idempotent-Replayed") != "" {
			t.Fatalf("%s: %s", op.id, first)
		}
		k.unchanged(t, func() {
			for range 3 {
				again := c.as(t, k.s)
				if again.Status != first.Status || string(again.Body) != string(first.Body) ||
					again.Header.Get("Idempotent-Replayed") != "true" {
					t.Errorf("%s again: %s %q, first %s", op.id, again, again.Header.Get("Idempotent-Replayed"), first)
				}
			}
			for _, f := range append(faultsOf(op.body), fault{what: "another body",
				body: withChange(op.body.example)}) {
				c.body = f.body
				c.as(t, k.s).is(t, op.id+" under the same key with "+f.what, http.StatusConflict,
					"IDEMPOTENCY_CONFLICT")
			}
		})
	}
}

// withChange changes one value so that the body stays valid.
func withChange(example object) object {
	o := wish()
	for name, v := range example {
		o[name] = v
	}
	if _, topUp := example["amountCents"]; topUp {
		return object{"amountCents": 2001, "returnUrl": example["returnUrl"]}
	}
	o["subject"] = "Another subject"
	return o
}

// R107: a stored response never changes, whatever happens to the consultation.
func TestAReplayedCreationStays201(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 10_000))
	key := newKey()
	first := s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", key)
	s.cancel(t, first.value()["id"].(string)).is(t, "cancel", http.StatusOK, "")
	again := s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", key)
	if again.Status != http.StatusCreated || string(again.Body) != string(first.Body) {
		t.Errorf("after the cancellation: %s, first %s", again, first)
	}
	s.hasWallet(t, "after the replay", 10_000, 0)
}

// H52: bodies are compared by value. Order of keys, whitespace and escapes do not count; numbers and texts do.
func TestBodiesAreComparedByValue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 10_000))
	key := newKey()
	post := func(body string) *reply {
		return s.do(t, http.MethodPost, consultations, body, "Idempotency-Key", key, "Content-Type", "application/json")
	}
	first := post(`{"competence":"HOUSING","subject":"Deposit","withdrawalWaiverAcknowledged":true}`)
	first.is(t, "create", http.StatusCreated, "")
	for _, same := range []string{
		`{"withdrawalWaiverAcknowledged":true,"subject":"Deposit","competence":"HOUSING"}`,
		" {\n\t\"competence\" : \"HOUSING\", \"subject\":\"Depo\\u0073it\",\r\n\"withdrawalWaiverAcknowledged\":true } ",
	} {
		if r := post(same); string(r.Body) != string(first.Body) {
			t.Errorf("%s: %s", same, r)
		}
	}
	for _, other := range []string{
		`{"competence":"HOUSING","subject":"Deposit ","withdrawalWaiverAcknowledged":true}`,
		`{"competence":"HOUSING","subject":"Deposit","withdrawalWaiverAcknowledged":true,"language":"FR"}`,
		`{"competence":"HOUSING","subject":"Deposit","withdrawalWaiverAcknowledged":"true"}`,
		`{"competence":"HOUSING","subject":"Deposit","withdrawalWaiverAcknowledged":true,"subject":"Deposit."}`,
	} {
		post(other).is(t, other, http.StatusConflict, "IDEMPOTENCY_CONFLICT")
	}
}

// R100, R102: a key is 1 to 255 printable ASCII characters.
func TestWhatAKeyMayBe(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	for _, op := range spec.api() {
		p := op.parameter("header", "Idempotency-Key")
		if p == nil {
			continue
		}
		with := func(header ...string) *reply {
			c := k.valid(op)
			c.header = header
			return c.as(t, k.s)
		}
		for _, good := range []string{"0b7f9f0e-5b0a-4a53-9d0c-6a3f2f1f7c11", "x", strings.Repeat("k", 255), "a b",
			`~!@#$%^&*()_+{}|:"<>?`, "'; DROP TABLE holds; --"} {
			if r := with("Idempotency-Key", good); !ok(op, r) {
				t.Errorf("%s with key %q: %s", op.id, good, r)
			}
		}
		k.unchanged(t, func() {
			for _, bad := range []string{strings.Repeat("k", 256), "clé", "😀", "\xff", "a\tb"} {
				r := with("Idempotency-Key", bad)
				r.is(t, fmt.Sprintf("%s with key %.20q", op.id, bad), http.StatusBadRequest, "INVALID_REQUEST")
				if len(r.issues()) == 0 || !strings.HasPrefix(r.issues()[0], "Idempotency-Key ") {
					t.Errorf("%s with key %.20q: issues %v", op.id, bad, r.issues())
				}
			}
			with("Idempotency-Key", "one", "Idempotency-Key", "two").is(t, op.id+" with two keys",
				http.StatusBadRequest, "INVALID_REQUEST")
			code := "INVALID_REQUEST"
			if p.required {
				code = "IDEMPOTENCY_KEY_REQUIRED"
				with().is(t, op.id+" without a key", http.StatusBadRequest, code)
			}
			with("Idempotency-Key", "").is(t, op.id+" with an empty key", http.StatusBadRequest, code)
		})
		if !p.required {
			if r := with(); !ok(op, r) {
				t.Errorf("%s without a key: %s", op.id, r)
			}
		}
	}
}

// R108: a key belongs to one application, one client and one operation.
func TestKeysDoNotLeak(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.partner(t, "CRM A"), w.partner(t, "CRM B")
	c1, c2 := w.client(t, "c1", true, 10_000), w.client(t, "c2", true, 10_000)
	key, seenIDs := newKey(), map[string]bool{}
	for i, s := range []*session{w.link(t, a, c1), w.link(t, a, c2), w.link(t, b, c1)} {
		r := s.do(t, http.MethodPost, consultations, wish("subject", fmt.Sprint("Subject ", i)), "Idempotency-Key", key)
		r.is(t, "create", http.StatusCreated, "")
		seenIDs[r.value()["id"].(string)] = true
		top := s.do(t, http.MethodPost, "/api/v1/wallet/topup-session", object{"amountCents": 2000,
			"returnUrl": "https://crm.example/"}, "Idempotency-Key", key)
		top.is(t, "the same key at another operation", http.StatusOK, "")
	}
	if len(seenIDs) != 3 {
		t.Errorf("consultations: %v", seenIDs)
	}
	again := w.link(t, a, c1) // another session of the same pair shares the key
	r := again.do(t, http.MethodPost, consultations, wish("subject", "Subject 0"), "Idempotency-Key", key)
	if r.Header.Get("Idempotent-Replayed") != "true" || !seenIDs[r.value()["id"].(string)] {
		t.Errorf("from a new session: %s", r)
	}
}

// T6, H53: rejections are not stored, but the key stays bound to its body. After INSUFFICIENT_FUNDS, PHONE_REQUIRED and
// 422 the same key and body are tried again, and another body is a conflict. A body that could not be read binds
// nothing.
func TestRefusalsBindTheKeyAndAreNotStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.partner(t, "CRM A")
	poor := w.link(t, a, w.client(t, "c2", true, 0))
	key := newKey()
	try := func(s *session, key string, body any) *reply {
		return s.do(t, http.MethodPost, consultations, body, "Idempotency-Key", key, "Content-Type", "application/json")
	}
	for range 2 {
		try(poor, key, wish()).is(t, "without money", http.StatusConflict, "INSUFFICIENT_FUNDS")
	}
	try(poor, key, wish("subject", "Another")).is(t, "another body", http.StatusConflict, "IDEMPOTENCY_CONFLICT")
	poor.topUp(t, 2000)
	r := try(poor, key, wish())
	r.is(t, "after the top-up", http.StatusCreated, "")
	if r.Header.Get("Idempotent-Replayed") != "" {
		t.Error("the first success is marked as a replay")
	}
	try(poor, key, wish()).is(t, "once more", http.StatusCreated, "")
	poor.hasWallet(t, "after all", 2000, 2000)

	silent := w.link(t, a, w.client(t, "c3", false, 10_000))
	key = newKey()
	try(silent, key, wish()).is(t, "without a phone", http.StatusConflict, "PHONE_REQUIRED")
	w.exec(t, "UPDATE clients SET phone_verified_at = now() WHERE id = $1", silent.person.ID)
	try(silent, key, wish()).is(t, "with a phone", http.StatusCreated, "")

	key = newKey()
	for range 2 {
		try(silent, key, wish("subject", "x")).is(t, "bad body", http.StatusUnprocessableEntity, "VALIDATION_ERROR")
	}
	try(silent, key, wish()).is(t, "corrected under the same key", http.StatusConflict, "IDEMPOTENCY_CONFLICT")
	key = newKey()
	try(silent, key, "{").is(t, "no JSON", http.StatusBadRequest, "INVALID_REQUEST")
	try(silent, key, wish()).is(t, "corrected", http.StatusCreated, "")
}

// R106: a key is forgotten 24 hours after its success. This test backdates its row.
func TestKeysAreForgottenAfterADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 10_000))
	key := newKey()
	post := func() string {
		return s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", key).value()["id"].(string)
	}
	first := post()
	w.exec(t, "UPDATE idempotency_keys SET expires_at = expires_at - interval '23 hours 59 minutes'")
	if post() != first {
		t.Error("forgotten after 23:59")
	}
	w.exec(t, "UPDATE idempotency_keys SET expires_at = expires_at - interval '1 minute'")
	if post() == first {
		t.Error("remembered after 24:00")
	}
}

// H51: a concurrent duplicate of a request that does not end waits, then gets IDEMPOTENCY_IN_PROGRESS with Retry-After.
// Here the test itself holds the key's row.
func TestATwinOfARunningRequestIsTurnedAway(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	tx, err := k.DB.Pool().Begin(t.Context())
	k.must(t, err)
	defer tx.Rollback(t.Context())
	key := newKey()
	answers := make(chan *reply)
	n := 0
	for _, op := range spec.api() {
		if op.parameter("header", "Idempotency-Key") == nil {
			continue
		}
		_, err := tx.Exec(t.Context(), `INSERT INTO idempotency_keys (application_id, client_id, endpoint, key, fingerprint, created_at, expires_at)
			VALUES ($1, $2, $3, $4, 'x', now(), now() + interval '1 day')`, k.a.ClientID, k.c1.ID, op.id, key)
		k.must(t, err)
		c := k.valid(op)
		c.header = []string{"Idempotency-Key", key}
		n++
		go func() { answers <- c.as(t, k.s) }()
	}
	for range n {
		r := <-answers
		r.is(t, "twin", http.StatusConflict, "IDEMPOTENCY_IN_PROGRESS")
		if r.Header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After is %q", r.Header.Get("Retry-After"))
		}
	}
}

// topUp pays a top-up on the checkout page and waits for the credit.
func (s *session) topUp(t testing.TB, cents int64) {
	t.Helper()
	before := s.wallet(t).BalanceCents
	s.decide(t, s.checkout(t, cents), "pay")
	eventually(t, "the credit", func() bool { return s.wallet(t).BalanceCents == before+cents })
}

// checkout creates a payment session and returns its URL.
func (s *session) checkout(t testing.TB, cents int64) *url.URL {
	t.Helper()
	r := s.do(t, http.MethodPost, "/api/v1/wallet/topup-session", object{"amountCents": cents,
		"returnUrl": "https://crm.example/wallet?client=1"})
	r.is(t, "top-up session", http.StatusOK, "")
	u, err := url.Parse(r.value()["checkoutUrl"].(string))
	s.w.must(t, err)
	return u
}
