package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every write of the contract that is sent twice with one key runs once and returns the same response, secrets
// included. A new operation fails this test until it is listed here.
func TestEveryWriteSentTwiceIsDoneOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plenty)
	receiver := newHook(t, http.StatusNoContent)
	_, me, _ := h.application("")
	h.call(me, "PUT", root+"/endpoint", object{"url": receiver.URL}).want(t, 200, "")
	id := h.call(me, "POST", root+"/endpoint/test", object{"type": "consultation.created"}).
		want(t, 202, "").body["id"].(string)
	settings := func(name string) object {
		return object{"name": name, "redirectUris": []string{"https://crm.example/back"}, "contactEmail": nil}
	}
	from, to := "2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z"
	writes := map[string]struct{ body, other any }{
		"updateApplication": {settings("One"), settings("Two")}, "endPreviousSecret": {}, "rotateSecret": {},
		"enableEndpoint": {}, "redeliver": {}, "examineEndpoint": {},
		"checkSignature": {object{"signature": "t=1,v1=x", "body": "{}"},
			object{"signature": "t=1,v1=x", "body": "[]"}},
		"setEndpoint": {object{"url": receiver.URL}, object{"url": nil}},
		"setEnabledEvents": {object{"enabledEvents": []string{"client.disconnected"}},
			object{"enabledEvents": []string{}}},
		"sendTestEvent": {object{"type": "consultation.created"}, object{"type": "consultation.expired"}},
		"createRedelivery": {object{"from": from, "to": to, "select": "ALL", "asNew": true},
			object{"from": from, "to": to, "select": "ALL"}},
		"rotateClientSecret": {object{"overlapSeconds": 3600}, object{"overlapSeconds": 60}},
	}
	count := func() (rows string) {
		err := h.db.Pool().QueryRow(t.Context(),
			`SELECT concat((SELECT count(*) FROM webhook_deliveries), ' ', (SELECT count(*) FROM audit_entries),
			' ', (SELECT string_agg(encode(secret_hash, 'hex'), '') FROM applications))`).Scan(&rows)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	type write struct{ name, method, path string }
	var operations []write
	for path, item := range h.tree["paths"].(object) {
		for method, op := range item.(object) {
			if method != "get" {
				operations = append(operations, write{op.(object)["operationId"].(string), method, path})
			}
		}
	}
	// The previous secret is ended before the secret of these calls becomes the previous one.
	slices.SortFunc(operations, func(a, b write) int { return strings.Compare(a.name, b.name) })
	for _, o := range operations {
		name, method, path := o.name, o.method, o.path
		w, known := writes[name]
		if !known {
			t.Errorf("%s is a write that no test sends twice", name)
			continue
		}
		target, key := strings.Replace(path, "{id}", id, 1), []string{"Idempotency-Key", "once " + name}
		first := h.call(me, strings.ToUpper(method), target, w.body, key...)
		after := count()
		again := h.call(me, strings.ToUpper(method), target, w.body, key...)
		if first.status/100 != 2 || again.status != first.status || again.raw != first.raw ||
			again.header.Get("Idempotent-Replayed") != "true" || first.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s: %d %s, then %d %s", name, first.status, first.raw, again.status, again.raw)
		}
		if now := count(); now != after {
			t.Errorf("%s did more the second time: %s, then %s", name, after, now)
		}
		if w.other != nil {
			h.call(me, strings.ToUpper(method), target, w.other, key...).want(t, 409, "IDEMPOTENCY_CONFLICT")
		}
	}
	for name := range writes {
		if !strings.Contains(fmt.Sprint(h.seen), name) {
			t.Errorf("%s is not in the contract", name)
		}
	}
}

// A retry at another process, sent while the first request runs, gets the one secret that was created.
func TestParallelRotationsWithOneKeyMakeOneSecret(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plenty)
	other := newHouseOn(t, h.db, h.clock, h.box, plenty)
	_, me, _ := h.application("")
	secrets := make([]string, 8)
	var all sync.WaitGroup
	for i := range secrets {
		all.Go(func() {
			at := []*house{h, other}[i%2]
			a := at.call(me, "POST", root+"/application/rotate-secret", object{"overlapSeconds": 3600},
				"Idempotency-Key", "one")
			secrets[i], _ = a.body["secret"].(string)
		})
	}
	all.Wait()
	for _, s := range secrets {
		if s == "" || s != secrets[0] {
			t.Fatalf("%q", secrets)
		}
	}
	h.call(me, "GET", root+"/application", nil).want(t, 200, "") // with the secret that existed before
}

// While the previous secret works, a rotation is refused, and the current secret keeps working.
func TestARotationDuringTheOverlapIsRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plenty)
	_, me, _ := h.application("")
	for path, body := range map[string]object{
		"/application/rotate-secret": {"overlapSeconds": 3600}, "/endpoint/rotate-secret": nil,
	} {
		send := func(path string, body object) answer {
			if body == nil {
				return h.call(me, "POST", root+path, nil)
			}
			return h.call(me, "POST", root+path, body)
		}
		send(path, body).want(t, 200, "")
		refused := send(path, body).want(t, 409, "PREVIOUS_SECRET_ACTIVE")
		if !strings.Contains(refused.raw, "2026-06-0") {
			t.Errorf("%s does not say until when: %s", path, refused.raw)
		}
	}
	h.call(me, "GET", root+"/application", nil).want(t, 200, "")
	h.call(me, "POST", root+"/endpoint/rotate-secret?endPrevious=true", nil).want(t, 200, "")
	h.call(me, "POST", root+"/application/rotate-secret", object{"overlapSeconds": 3600, "endPrevious": true}).
		want(t, 200, "")
	h.call(me, "GET", root+"/application", nil).want(t, 401, "UNAUTHORIZED")
}

// A leaked current secret can be replaced immediately, and the previous secret stays valid until its end. Without a
// previous secret, this is refused.
func TestTheCurrentSecretIsReplacedWhileThePreviousOneStays(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plenty)
	app, me, _ := h.application("")
	rotate, keep := root+"/application/rotate-secret", object{"overlapSeconds": 0, "keepPrevious": true}
	sign := root + "/endpoint/rotate-secret"
	h.call(me, "POST", rotate, keep).want(t, 409, "NO_PREVIOUS_SECRET")
	h.call(me, "POST", sign+"?keepPrevious=true", nil).want(t, 409, "NO_PREVIOUS_SECRET")
	first := h.call(me, "POST", rotate, object{"overlapSeconds": 3600}).want(t, 200, "")
	signed := h.call(me, "POST", sign, nil).want(t, 200, "")
	refused := h.call(me, "POST", rotate, object{"overlapSeconds": 3600, "keepPrevious": true}).
		want(t, 422, "VALIDATION_ERROR")
	if !strings.Contains(refused.raw, `"path":"keepPrevious"`) {
		t.Error(refused.raw)
	}
	h.call(me, "POST", sign+"?keepPrevious=true&endPrevious=true", nil).want(t, 400, "INVALID_REQUEST")
	h.clock.Advance(time.Minute)
	for path, before := range map[string]answer{rotate: first, sign + "?keepPrevious=true": signed} {
		var body any
		if path == rotate {
			body = keep
		}
		kept := h.call(me, "POST", path, body).want(t, 200, "")
		if kept.body["secret"] == before.body["secret"] ||
			kept.body["previousSecretUntil"] != before.body["previousSecretUntil"] {
			t.Errorf("%s: %s after %s", path, kept.raw, before.raw)
		}
		entry := h.entries(app)[0]
		if details, err := json.Marshal(entry.Details); err != nil ||
			!strings.Contains(string(details), `"keptPrevious":true`) {
			t.Errorf("%s: the audit has %+v: %v", path, entry, err)
		}
	}
	h.call(me, "GET", root+"/application", nil).want(t, 200, "") // deployed already
	h.call(app+":"+first.body["secret"].(string), "GET", root+"/application", nil).want(t, 401, "UNAUTHORIZED")
}

// The response to a rejected enum value lists the accepted values, separated by commas.
func TestARefusedChoiceListsTheChoices(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plenty)
	_, me, _ := h.application("")
	body := object{"from": "2026-06-01T00:00:00Z", "to": "2026-06-02T00:00:00Z", "select": "SOME"}
	refused := h.call(me, "POST", root+"/redeliveries", body).want(t, 422, "VALIDATION_ERROR")
	if !strings.Contains(refused.raw, "Must be one of: FAILED, ALL.") {
		t.Error(refused.raw)
	}
}

// The twelve types that are always delivered are listed beside the enabled ones.
func TestTheEndpointListsWhatIsDelivered(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plenty)
	_, me, _ := h.application("")
	if a := h.call(me, "GET", root+"/endpoint", nil).want(t, 200, ""); len(a.body["deliveredEvents"].([]any)) != 12 ||
		len(a.body["enabledEvents"].([]any)) != 0 {
		t.Errorf("nothing turned on: %s", a.raw)
	}
	a := h.call(me, "PUT", root+"/endpoint/events", object{"enabledEvents": []string{"wallet.topped_up"}}).
		want(t, 200, "")
	if list := fmt.Sprint(a.body["deliveredEvents"]); len(a.body["deliveredEvents"].([]any)) != 13 ||
		!strings.Contains(list, "wallet.topped_up") {
		t.Errorf("one turned on: %s", list)
	}
}
