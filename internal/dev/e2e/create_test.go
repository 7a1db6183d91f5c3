package e2e

import (
	"net/http"
	"strings"
	"testing"

	"partnerd/gen/partner/models"
)

// R9–R12, R15, R23–R25, R45, R55, R92, R99, H4, H5: a creation reserves exactly 2000 cents and responds with MATCHING.
// The record contains what was sent, and is the same in the response, alone and in the list.
func TestCreateReservesThePriceAndKeepsWhatWasSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 10_000))
	sent := wish("language", "EN", "description", "  Everything\nabout it. ", "recordingConsent", true,
		"externalRef", "CASE-1")
	r := s.tryCreate(t, sent)
	r.is(t, "create", http.StatusCreated, "")
	v := r.value()
	sent["description"] = "Everything\nabout it."
	for name, want := range sent {
		if v[name] != want {
			t.Errorf("%s is %v, want %v", name, v[name], want)
		}
	}
	for name, want := range map[string]any{
		"status": "MATCHING", "priceCents": float64(price), "currency": "EUR", "noteAvailable": false,
	} {
		if v[name] != want {
			t.Errorf("%s is %v, want %v", name, v[name], want)
		}
	}
	for _, absent := range []string{"assignedAt", "callStartedAt", "callEndedAt", "durationSec", "completedAt",
		"cancelledAt", "expiredAt", "callbackDueAt", "refundedCents", "refundedAt", "lawyer", "phone"} {
		if _, there := v[absent]; there {
			t.Errorf("%s is there before it has a value", absent)
		}
	}
	id := v["id"].(string)
	if alone := s.get(t, consultations+"/"+id); !same(alone.Body, string(r.Body)) {
		t.Errorf("alone: %s, created: %s", alone, r)
	}
	if list := s.get(t, consultations); !same(list.Body, `{"items":[`+string(r.Body)+`],"nextCursor":null}`) {
		t.Errorf("list: %s", list)
	}
	s.hasWallet(t, "after one", 10_000, price)
	s.create(t)
	s.create(t)
	s.hasWallet(t, "after three", 10_000, 3*price)
	s.cancel(t, id).is(t, "cancel", http.StatusOK, "")
	s.hasWallet(t, "after a cancellation", 10_000, 2*price)
	if n := w.queryInt(t, "SELECT count(*) FROM sandbox_payment_notices"); n != 0 {
		t.Errorf("%d payments for a call (R12)", n)
	}
}

func same(raw []byte, want string) bool {
	return strings.TrimSpace(string(raw)) == strings.TrimSpace(want)
}

// R36, R38, R39, R43, T1, T12: optional fields may be missing. Those with a default get it; the others are absent from
// the record.
func TestCreateFillsInTheDefaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 10_000))
	v := s.tryCreate(t, wish()).value()
	if v["language"] != "FR" || v["recordingConsent"] != false {
		t.Errorf("defaults: %v", v)
	}
	for _, name := range []string{"description", "externalRef"} {
		if _, there := v[name]; there {
			t.Errorf("%s is there though it was not sent", name)
		}
	}
}

// R14, R42: each consultation has its own evidence of the waiver, and the number to call is the verified one.
func TestCreateKeepsEvidenceOfTheWaiver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 10_000))
	key := newKey()
	r := s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", key, "User-Agent", "CRM/1.0")
	id := r.value()["id"].(string)
	n := w.queryInt(t, `SELECT count(*) FROM consultation_evidence WHERE consultation_id = $1 AND idempotency_key_sha256 = sha256(convert_to($2, 'UTF8')) AND request_id = $3
		AND user_agent = 'CRM/1.0' AND address = '127.0.0.1' AND application_id = $4 AND client_id = $5 AND length(text_sha256) = 32`,
		id, key, r.Header.Get("X-Request-Id"), s.partner.ClientID, s.person.ID)
	if n != 1 {
		t.Errorf("%d records of evidence", n)
	}
	w.assign(t, w.lawyer(t, "l1"), id)
	number, err := w.Consultations.ClientNumber(t.Context(), id)
	if err != nil || number != phone {
		t.Errorf("the number to call is %q (%v), want the verified one", number, err)
	}
}

// R22, R54, R93, R94, R143: one condition at a time.
func TestCreateDemandsEveryCondition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.partner(t, "CRM A")
	funded, empty, unverified := w.client(t, "c1", true, 10_000), w.client(t, "c2", true, 0),
		w.client(t, "c3", false, 10_000)
	s, poor, silent := w.link(t, a, funded), w.link(t, a, empty), w.link(t, a, unverified)
	w.link(t, a, funded, "consultations:read").tryCreate(t, wish()).is(t, "scope", http.StatusForbidden,
		"INSUFFICIENT_SCOPE")
	for _, c := range []struct {
		who              *session
		what, code, page string
	}{{silent, "phone", "PHONE_REQUIRED", "/account/phone"}, {poor, "funds", "INSUFFICIENT_FUNDS", "/account/wallet"}} {
		r := c.who.tryCreate(t, wish())
		r.is(t, c.what, http.StatusConflict, c.code)
		if got, want := r.value()["actionUrl"], w.base+c.page+"?application="+a.ClientID; got != want {
			t.Errorf("actionUrl %v, want %s", got, want)
		}
	}
	s.tryCreate(t, wish("withdrawalWaiverAcknowledged", false)).is(t, "waiver", http.StatusUnprocessableEntity,
		"VALIDATION_ERROR")
	s.tryCreate(t, wish("subject", remove)).is(t, "body", http.StatusUnprocessableEntity, "VALIDATION_ERROR")
	s.do(t, http.MethodPost, consultations, wish()).is(t, "key", http.StatusBadRequest, "IDEMPOTENCY_KEY_REQUIRED")
	if n := w.queryInt(t, "SELECT count(*) FROM consultations"); n != 0 {
		t.Errorf("%d consultations after refusals", n)
	}
	w.exec(t, "UPDATE clients SET phone_verified_at = now() WHERE id = $1", unverified.ID)
	silent.create(t)
	for range 5 {
		s.create(t)
	}
	s.tryCreate(t, wish()).is(t, "sixth on 10000 cents", http.StatusConflict, "INSUFFICIENT_FUNDS")
	s.hasWallet(t, "when nothing is left", 10_000, 10_000)
}

// R29, R30, R87, R88, H33, T27: every code of the catalog is accepted. Labels follow Accept-Language; codes do not.
func TestEveryCatalogCodeIsAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 200_000))
	var competences models.CompetenceList
	var languages models.LanguageList
	s.get(t, "/api/v1/catalog/competences").into(t, &competences)
	s.get(t, "/api/v1/catalog/languages").into(t, &languages)
	if len(competences.Competences) != 12 || len(languages.Languages) != 5 {
		t.Errorf("catalog: %+v %+v", competences, languages)
	}
	for _, c := range competences.Competences {
		s.create(t, "competence", c.Code)
	}
	var codes []string
	for _, l := range languages.Languages {
		s.create(t, "language", l.Code)
		codes = append(codes, l.Code)
		r := s.get(t, "/api/v1/coverage?competence=HOUSING&language="+l.Code)
		r.is(t, "coverage in "+l.Code, http.StatusOK, "")
	}
	if !strings.Contains(strings.Join(codes, " "), "FR") {
		t.Errorf("languages: %v", codes)
	}
	french := s.do(t, http.MethodGet, "/api/v1/catalog/languages", nil, "Accept-Language", "fr-CH, fr;q=0.9, en;q=0.8")
	if !strings.Contains(string(french.Body), "Français") || !strings.Contains(string(french.Body), `"FR"`) {
		t.Errorf("in French: %s", french)
	}
	for _, odd := range []string{"", "xx", "*", "fr;q=x", strings.Repeat("fr,", 2000), "\xff"} {
		s.do(t, http.MethodGet, "/api/v1/catalog/languages", nil, "Accept-Language", odd).is(t,
			"Accept-Language "+clip([]byte(odd)), http.StatusOK, "")
	}
}

// T5, T36: of several errors, the response reports the first in this order: 401, 403, 400 for the key, 400 for the
// JSON, 409 for the key's conflict, 422, 409 for the phone, 409 for the funds.
func TestFaultsAreAnsweredInTheirOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.partner(t, "CRM A")
	c3 := w.client(t, "c3", false, 0) // neither phone nor funds
	s, reader := w.link(t, a, c3), w.link(t, a, c3, "consultations:read")
	used := newKey()
	good := s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", used)
	good.is(t, "phone before funds", http.StatusConflict, "PHONE_REQUIRED")
	broken, json := "{", []string{"Content-Type", "application/json"}
	for _, step := range []struct {
		what   string
		r      *reply
		status int
		code   string
	}{
		{"everything wrong", w.send(t, http.MethodPost, consultations, broken), 401, "UNAUTHORIZED"},
		{"no scope, no key, no JSON", reader.do(t, http.MethodPost, consultations, broken), 403, "INSUFFICIENT_SCOPE"},
		{"no key, no JSON", s.do(t, http.MethodPost, consultations, broken, json...), 400, "IDEMPOTENCY_KEY_REQUIRED"},
		{"no key, bad body", s.do(t, http.MethodPost, consultations, object{}, json...), 400,
			"IDEMPOTENCY_KEY_REQUIRED"},
		{"no JSON under a used key", s.do(t, http.MethodPost, consultations, broken,
			append(json, "Idempotency-Key", used)...), 400, "INVALID_REQUEST"},
		{"bad body under a used key", s.do(t, http.MethodPost, consultations, object{}, "Idempotency-Key", used), 409,
			"IDEMPOTENCY_CONFLICT"},
		{"bad body, no phone, no funds", s.tryCreate(t, wish("withdrawalWaiverAcknowledged", false)), 422,
			"VALIDATION_ERROR"},
	} {
		step.r.is(t, step.what, step.status, step.code)
	}
	w.exec(t, "UPDATE clients SET phone_verified_at = now() WHERE id = $1", c3.ID)
	s.tryCreate(t, wish()).is(t, "no funds alone", http.StatusConflict, "INSUFFICIENT_FUNDS")
	r := reader.do(t, http.MethodPost, consultations+"/nope/cancel", nil)
	r.is(t, "scope before the id (T7)", http.StatusForbidden, "INSUFFICIENT_SCOPE")
}

// R56, T21: cancelling again returns 200 with the same body, without a second release or event. A key is ignored.
func TestCancelIsRepeatable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.partner(t, "CRM A")
	s := w.link(t, a, w.client(t, "c1", true, 10_000))
	c := s.create(t)
	first := s.cancel(t, c.ID)
	first.is(t, "cancel", http.StatusOK, "")
	if v := first.value(); v["status"] != "CANCELLED" || v["refundedCents"] != float64(price) ||
		v["cancelledAt"] == nil || v["refundedAt"] == nil {
		t.Errorf("cancelled: %s", first)
	}
	for _, header := range [][]string{
		nil, {"Idempotency-Key", "k"}, {"Idempotency-Key", "k"}, {"Idempotency-Key", ""},
	} {
		again := s.do(t, http.MethodPost, consultations+"/"+c.ID+"/cancel", nil, header...)
		if again.Status != http.StatusOK || !same(again.Body, string(first.Body)) {
			t.Errorf("again: %s, first %s", again, first)
		}
	}
	s.hasWallet(t, "after cancelling", 10_000, 0)
	other := s.create(t)
	s.cancel(t, other.ID)
	a.receiver.await(t, other.ID, "refunded")
	a.receiver.awaitAll(t, c.ID, "created payment_authorized matching cancelled refunded")
}
