package openapi_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Decision H23: one pair of credentials for everything, and nothing that belongs to a client.
func TestEveryPlatformOperationDemandsTheCredentialsOfTheApplication(t *testing.T) {
	t.Parallel()
	c := document(t, "platform")
	want := []string{
		"getApplication GET /api/platform/v1/application", "updateApplication PUT /api/platform/v1/application",
		"rotateClientSecret POST /api/platform/v1/application/rotate-secret",
		"endPreviousSecret POST /api/platform/v1/application/end-previous-secret",
		"checkSignature POST /api/platform/v1/endpoint/check-signature",
		"getEndpoint GET /api/platform/v1/endpoint", "setEndpoint PUT /api/platform/v1/endpoint",
		"rotateSecret POST /api/platform/v1/endpoint/rotate-secret",
		"enableEndpoint POST /api/platform/v1/endpoint/enable",
		"setEnabledEvents PUT /api/platform/v1/endpoint/events",
		"sendTestEvent POST /api/platform/v1/endpoint/test", "listEvents GET /api/platform/v1/events",
		"getEvent GET /api/platform/v1/events/{id}", "listDeliveries GET /api/platform/v1/deliveries",
		"getDelivery GET /api/platform/v1/deliveries/{id}",
		"redeliver POST /api/platform/v1/deliveries/{id}/redeliver",
		"createRedelivery POST /api/platform/v1/redeliveries", "listRequests GET /api/platform/v1/requests",
		"getRequest GET /api/platform/v1/requests/{id}",
		"examineEndpoint POST /api/platform/v1/endpoint/examine",
		"getExamination GET /api/platform/v1/endpoint/examination", "getChecklist GET /api/platform/v1/checklist",
	}
	var got []string
	for _, op := range c.operations(t) {
		if op.webhook {
			continue
		}
		got = append(got, op.id+" "+strings.ToUpper(op.method)+" "+op.path)
		security, _ := op.value["security"].([]any)
		if len(security) != 1 {
			t.Errorf("%s: security %v", op.id, security)
			continue
		}
		requirement := security[0].(object)
		if scopes, ok := requirement["basic"].([]any); !ok || len(requirement) != 1 || len(scopes) != 0 {
			t.Errorf("%s: security %v", op.id, security)
		}
	}
	if !sameSet(got, want) {
		t.Errorf("operations\n got %v\nwant %v", sorted(got), sorted(want))
	}
	if scheme := c.at(t, "components", "securitySchemes", "basic").value; scheme["type"] != "http" ||
		scheme["scheme"] != "basic" {
		t.Errorf("the scheme is %v", scheme)
	}
}

// TestEveryWriteTakesAnIdempotencyKey: a retried write must happen once. So every write takes a key, says so in its
// response, and documents the conflict.
func TestEveryWriteTakesAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"platform", "sandbox"} {
		c := document(t, name)
		for _, op := range c.operations(t) {
			if op.webhook || op.method == "get" {
				continue
			}
			asked := fmt.Sprint(op.value["parameters"])
			responses := c.children(t, op.node, "responses")
			if !strings.Contains(asked, "IdempotencyKey") {
				t.Errorf("%s of the %s API takes no Idempotency-Key", op.id, name)
			}
			for status, response := range responses {
				if _, ok := c.children(t, response, "headers")["Idempotent-Replayed"]; strings.HasPrefix(status, "2") &&
					!ok {
					t.Errorf("%s %s does not say that it is replayed", op.id, status)
				}
			}
			if _, ok := responses["409"]; !ok {
				t.Errorf("%s has no conflict", op.id)
			}
		}
	}
}

func TestPlatformRequestBodiesAreClosedAndResponsesOpen(t *testing.T) {
	t.Parallel()
	c := document(t, "platform")
	var closed []string
	for name, schema := range c.children(t, c.at(t, "components"), "schemas") {
		if schema.value["additionalProperties"] == false {
			closed = append(closed, name)
		}
	}
	if want := []string{"SetEndpointRequest", "SendTestEventRequest", "CreateRedeliveryRequest",
		"UpdateApplicationRequest", "RotateClientSecretRequest", "CheckSignatureRequest",
		"SetEnabledEventsRequest"}; !sameSet(closed, want) {
		t.Errorf("closed schemas %v, want %v", closed, want)
	}
}

// ofThePlatform are the codes that only concern applications, with their status.
var ofThePlatform = map[string]string{"PREVIOUS_SECRET_ACTIVE": "409", "NO_PREVIOUS_SECRET": "409",
	"PORTAL_REQUIRED": "403"}

// TestThePlatformSpeaksTheWordsOfThePartnerAPI: a client library for errors and events of one API works for the other.
func TestThePlatformSpeaksTheWordsOfThePartnerAPI(t *testing.T) {
	t.Parallel()
	p, c := document(t, "platform"), partner(t)
	enum := func(c *contract, name string) []string {
		return texts(c.at(t, "components", "schemas", name).value["enum"])
	}
	if want := slices.Concat(enum(c, "EventType"), enum(p, "ClientEventType")); !sameSet(enum(p, "EventType"), want) {
		t.Errorf("event types are %v, want %v", enum(p, "EventType"), want)
	}
	if posted := slices.Collect(maps.Keys(p.doc["webhooks"].(object))); !sameSet(posted, enum(p, "ClientEventType")) {
		t.Errorf("webhooks are %v, want %v", posted, enum(p, "ClientEventType"))
	}
	for _, name := range []string{"ErrorCode", "IssueCode"} {
		for _, value := range enum(p, name) {
			if !slices.Contains(enum(c, name), value) && ofThePlatform[value] == "" {
				t.Errorf("%s %s is unknown to the Partner API", name, value)
			}
		}
	}
	for _, name := range []string{"ApiError", "Issue"} {
		ours, theirs := p.at(t, "components", "schemas", name), c.at(t, "components", "schemas", name)
		fields := c.children(t, theirs, "properties")
		delete(fields, "actionUrl") // only clients can fix something there
		if !sameSet(slices.Collect(maps.Keys(p.children(t, ours, "properties"))), slices.Collect(maps.Keys(fields))) ||
			!sameSet(texts(ours.value["required"]), texts(theirs.value["required"])) {
			t.Errorf("%s has another shape", name)
		}
	}
	// A payload has exactly the fields that any webhook event has.
	fields := func(names func(string) bool) (all []string) {
		for name, schema := range c.children(t, c.at(t, "components"), "schemas") {
			if strings.HasPrefix(name, "Consultation") && names(name) {
				for field := range c.children(t, schema, "properties") {
					if !slices.Contains(all, field) {
						all = append(all, field)
					}
				}
			}
		}
		return all
	}
	for name, suffix := range map[string]string{"EventPayload": "Event", "EventData": "Data"} {
		got := slices.Collect(maps.Keys(p.children(t, p.at(t, "components", "schemas", name), "properties")))
		if want := fields(func(name string) bool { return strings.HasSuffix(name, suffix) }); !sameSet(got, want) {
			t.Errorf("%s has %v, posted are %v", name, got, want)
		}
	}
	got := map[string]string{}
	for _, op := range p.operations(t) {
		for status, response := range p.children(t, op.node, "responses") {
			for _, code := range p.codes(t, response) {
				got[code] = status
			}
		}
	}
	for code, status := range got {
		if want := errorStatuses()[code]; !slices.Equal(want, []string{status}) && ofThePlatform[code] != status {
			t.Errorf("%s comes with %s, in the Partner API with %v", code, status, want)
		}
	}
	if declared := slices.DeleteFunc(enum(p, "ErrorCode"),
		func(code string) bool { return code == "METHOD_NOT_ALLOWED" }); !sameSet(declared,
		slices.Collect(maps.Keys(got))) {
		t.Errorf("ErrorCode lists %v, operations respond with %v", declared, got)
	}
}
