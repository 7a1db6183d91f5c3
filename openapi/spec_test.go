package openapi_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"go.yaml.in/yaml/v3"

	"partnerd/openapi"
)

func TestDocumentIsValidOpenAPI31(t *testing.T) {
	each(t, func(t *testing.T, c *contract) {
		doc, err := openapi3.NewLoader().LoadFromData(c.source)
		if err != nil {
			t.Fatal(err)
		}
		// Examples are checked below with the validator that is also used at run time.
		err = doc.Validate(context.Background(), openapi3.AllowExtraSiblingFields("pathItems"),
			openapi3.DisableExamplesValidation())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
			t.Errorf("openapi is %q, want 3.1.x", doc.OpenAPI)
		}
	})
}

func TestEverySchemaCompiles(t *testing.T) {
	each(t, func(t *testing.T, c *contract) {
		names := c.children(t, c.at(t, "components"), "schemas")
		for name := range names {
			c.schema(t, name)
		}
		for _, holder := range c.schemaHolders(t) {
			c.compile(t, holder.pointer+"/schema")
		}
		if len(names) == 0 {
			t.Fatal("the document has no schemas")
		}
	})
}

func TestEveryExampleMatchesItsSchema(t *testing.T) {
	each(t, func(t *testing.T, c *contract) {
		checked := 0
		for _, holder := range c.schemaHolders(t) {
			examples := c.examplesOf(t, holder)
			if len(examples) == 0 {
				t.Errorf("%s has no example", holder.pointer)
			}
			schema := c.compile(t, holder.pointer+"/schema")
			for name, value := range examples {
				checked++
				if err := schema.Validate(value); err != nil {
					t.Errorf("example %q of %s: %v", name, holder.pointer, err)
				}
			}
		}
		for name, definition := range c.children(t, c.at(t, "components"), "schemas") {
			for _, value := range exampleList(definition) {
				checked++
				if err := c.schema(t, name).Validate(value); err != nil {
					t.Errorf("example of %s: %v", name, err)
				}
			}
			for property, n := range c.children(t, definition, "properties") {
				for _, value := range exampleList(n) {
					checked++
					if err := c.compile(t, n.pointer).Validate(value); err != nil {
						t.Errorf("example of %s.%s: %v", name, property, err)
					}
				}
			}
		}
		if checked < 2*len(c.operations(t)) {
			t.Errorf("only %d examples were found: the walk misses a part of the document", checked)
		}
	})
}

// Sections 4 and 5 of the specification: the operations and the scope that each requires. Tools that compare contracts
// do not notice a lost scope; this table does.
func TestEveryOperationDemandsItsScope(t *testing.T) {
	t.Parallel()
	const none, anyToken = "no bearer token", "any token"
	want := map[string]string{
		"authorize GET /api/oauth/authorize":                        none,
		"issueToken POST /api/oauth/token":                          none,
		"revokeToken POST /api/oauth/revoke":                        none,
		"getProfile GET /api/v1/me":                                 "profile:read",
		"getWallet GET /api/v1/wallet":                              "wallet:read",
		"listWalletTransactions GET /api/v1/wallet/transactions":    "wallet:read",
		"createTopupSession POST /api/v1/wallet/topup-session":      "wallet:topup",
		"listCompetences GET /api/v1/catalog/competences":           anyToken,
		"listLanguages GET /api/v1/catalog/languages":               anyToken,
		"getCoverage GET /api/v1/coverage":                          "consultations:read",
		"createConsultation POST /api/v1/consultations":             "consultations:write",
		"listConsultations GET /api/v1/consultations":               "consultations:read",
		"getConsultation GET /api/v1/consultations/{id}":            "consultations:read",
		"cancelConsultation POST /api/v1/consultations/{id}/cancel": "consultations:write",
		"getConsultationNote GET /api/v1/consultations/{id}/note":   "notes:read",
	}
	c := partner(t)
	got := map[string]string{}
	for _, op := range c.operations(t) {
		security, explicit := op.value["security"].([]any)
		if !explicit {
			t.Errorf("%s has no security of its own", op.id)
			continue
		}
		demand := none
		if len(security) > 1 {
			t.Errorf("%s accepts alternatives: %v", op.id, security)
		}
		for _, requirement := range security {
			scopes, ok := requirement.(object)["oauth2"]
			if !ok || len(requirement.(object)) != 1 {
				t.Errorf("%s uses another scheme than oauth2: %v", op.id, requirement)
			}
			demand = strings.Join(texts(scopes), " ")
			if demand == "" {
				demand = anyToken
			}
		}
		if op.webhook {
			if demand != none {
				t.Errorf("webhook %s demands %s, want a signature only", op.path, demand)
			}
			continue
		}
		got[op.id+" "+strings.ToUpper(op.method)+" "+op.path] = demand
	}
	if !maps.Equal(got, want) {
		t.Errorf("operations and scopes\n got %v\nwant %v", got, want)
	}
}

func TestSecuritySchemeDeclaresTheSevenScopes(t *testing.T) {
	t.Parallel()
	c := partner(t)
	flow := c.at(t, "components", "securitySchemes", "oauth2", "flows", "authorizationCode")
	got := slices.Collect(maps.Keys(c.child(t, flow, "scopes").value))
	want := []string{"profile:read", "wallet:read", "wallet:topup", "consultations:read", "consultations:write",
		"notes:read", "offline_access"}
	if !sameSet(got, want) {
		t.Errorf("scopes %v, want %v", sorted(got), sorted(want))
	}
}

func TestOperationsAreDescribedWithTaggedSharedErrorsAndExamples(t *testing.T) {
	each(t, func(t *testing.T, c *contract) {
		var tags []string
		for _, tag := range c.doc["tags"].([]any) {
			tags = append(tags, tag.(object)["name"].(string))
		}
		seen := map[string]bool{}
		for _, op := range c.operations(t) {
			if op.id == "" || seen[op.id] {
				t.Errorf("%s %s: operationId %q is empty or used twice", op.method, op.path, op.id)
			}
			seen[op.id] = true
			for _, field := range []string{"summary", "description"} {
				if text, _ := op.value[field].(string); text == "" {
					t.Errorf("%s has no %s", op.id, field)
				}
			}
			if used := texts(op.value["tags"]); len(used) != 1 || !slices.Contains(tags, used[0]) {
				t.Errorf("%s has tags %v, want one of %v", op.id, used, tags)
			}
			succeeded := false
			for status, response := range c.children(t, op.node, "responses") {
				if isError := status >= "4"; isError && !response.isRef {
					t.Errorf("%s %s is not a $ref to components/responses", op.id, status)
				}
				succeeded = succeeded || strings.HasPrefix(status, "2")
			}
			if !succeeded {
				t.Errorf("%s has no success response", op.id)
			}
		}
	})
}

// TestEveryRequestExampleHasItsResponseExample: a mock server responds to a request example with the response example
// of the same name.
func TestEveryRequestExampleHasItsResponseExample(t *testing.T) {
	each(t, func(t *testing.T, c *contract) {
		for _, op := range c.operations(t) {
			if op.webhook || op.id == "revokeToken" { // their success has no body
				continue
			}
			answers := map[string]any{}
			for status, response := range c.children(t, op.node, "responses") {
				if strings.HasPrefix(status, "2") {
					for _, media := range c.children(t, response, "content") {
						maps.Copy(answers, c.examplesOf(t, media))
					}
				}
			}
			if len(answers) == 0 {
				t.Errorf("%s has no example of its success", op.id)
			}
			asked := c.parameters(t, op)
			if _, ok := op.value["requestBody"]; ok {
				for _, media := range c.children(t, c.child(t, op.node, "requestBody"), "content") {
					asked = append(asked, media)
				}
			}
			for _, n := range asked {
				for name := range c.examplesOf(t, n) {
					if _, ok := answers[name]; name != "" && !ok {
						t.Errorf("%s: example %q of %s has no response of that name", op.id, name, n.pointer)
					}
				}
			}
		}
	})
}

// Decisions H28 and H49.
func TestResponsesPromiseTheirHeaders(t *testing.T) {
	each(t, func(t *testing.T, c *contract) {
		for _, op := range c.operations(t) {
			if op.webhook {
				continue
			}
			for status, response := range c.children(t, op.node, "responses") {
				want := []string{"X-Request-Id"}
				if op.isAPI() {
					want = append(want, "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
					if status == "401" || status == "403" && !strings.HasPrefix(op.path, "/api/platform/") {
						want = append(want, "WWW-Authenticate")
					}
				} else if op.id != "authorize" {
					want = append(want, "Cache-Control", "Pragma")
				}
				if status == "429" {
					want = append(want, "Retry-After")
				}
				if status == "302" {
					want = append(want, "Location")
				}
				headers := c.children(t, response, "headers")
				for _, name := range want {
					if headers[name].value["required"] != true {
						t.Errorf("%s %s does not promise %s", op.id, status, name)
					}
				}
				for name, header := range headers {
					if header.value["required"] != true &&
						!slices.Contains([]string{"Retry-After", "Idempotent-Replayed"}, name) &&
						!(name == "WWW-Authenticate" && !op.isAPI()) { // sent only if the request used a header
						t.Errorf("%s %s declares %s without promising it", op.id, status, name)
					}
				}
			}
		}
	})
}

func TestCreationPostsTakeAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	c := partner(t)
	got := map[string]bool{}
	for _, op := range c.operations(t) {
		for _, parameter := range c.parameters(t, op) {
			if parameter.value["name"] != "Idempotency-Key" {
				continue
			}
			got[op.id] = parameter.value["required"] == true
			schema := c.compile(t, parameter.pointer+"/schema")
			for key, valid := range map[string]bool{
				"": false, "k": true, strings.Repeat("k", 255): true, strings.Repeat("k", 256): false, "clé": false,
				"a\tb": false,
			} {
				if (schema.Validate(key) == nil) != valid {
					t.Errorf("%s: key %q valid = %v, want %v", op.id, key, !valid, valid)
				}
			}
			success := c.child(t, op.node, "responses")
			for status := range success.value {
				_, replay := c.children(t, c.child(t, success, status), "headers")["Idempotent-Replayed"]
				if replay != strings.HasPrefix(status, "2") {
					t.Errorf("%s %s: Idempotent-Replayed declared = %v", op.id, status, replay)
				}
			}
		}
	}
	if want := map[string]bool{"createConsultation": true, "createTopupSession": false,
		"issueToken": false}; !maps.Equal(got, want) {
		t.Errorf("operations with a key (required or not) %v, want %v", got, want)
	}
}

// Section 6 of the specification, decision H18 and trap T11. The ping is not an event and has no consultation.
func TestTheTwelveWebhooksAndThePing(t *testing.T) {
	t.Parallel()
	statuses := map[string][]string{
		"consultation.created": {"DRAFT"}, "consultation.payment_authorized": {"MATCHING"},
		"consultation.matching": {"MATCHING"}, "consultation.assigned": {"ASSIGNED"},
		"consultation.call_started": {"IN_CALL"}, "consultation.call_ended": {"CALL_ENDED"},
		"consultation.completed": {"COMPLETED"}, "consultation.note_available": {"COMPLETED"},
		"consultation.pending_callback": {"PENDING_CALLBACK"}, "consultation.cancelled": {"CANCELLED"},
		"consultation.refunded": {"CANCELLED", "EXPIRED", "COMPLETED"}, "consultation.expired": {"EXPIRED"},
	}
	headers := map[string]bool{
		"X-Service-Event": true, "X-Service-Delivery": true, "X-Service-Signature": true,
		"X-Service-Signature-Previous": false, "X-Service-Attempt": true, "X-Service-Sequence": true,
		"X-Service-Test": false,
	}
	c := partner(t)
	types := texts(c.at(t, "components", "schemas", "EventType").value["enum"])
	if !sameSet(types, slices.Collect(maps.Keys(statuses))) {
		t.Errorf("EventType is %v", types)
	}
	found := 0
	for _, op := range c.operations(t) {
		if !op.webhook {
			continue
		}
		found++
		got := map[string]bool{}
		for _, parameter := range c.parameters(t, op) {
			got[parameter.value["name"].(string)] = parameter.value["required"] == true
		}
		if !maps.Equal(got, headers) || op.method != "post" {
			t.Errorf("%s is %s with headers %v, want post with %v", op.path, op.method, got, headers)
		}
		media := c.child(t, c.child(t, c.child(t, op.node, "requestBody"), "content"), "application/json")
		event := c.child(t, media, "schema")
		properties := c.children(t, event, "properties")
		if properties["type"].value["const"] != op.path {
			t.Errorf("%s has the payload type %v", op.path, properties["type"].value["const"])
		}
		if op.path == "webhook.ping" {
			continue
		}
		status := c.children(t, properties["data"], "properties")["status"].value
		allowed := texts(status["enum"])
		if constant, ok := status["const"].(string); ok {
			allowed = []string{constant}
		}
		if !sameSet(allowed, statuses[op.path]) {
			t.Errorf("%s: data.status is one of %v, want %v", op.path, allowed, statuses[op.path])
		}
	}
	if found != len(statuses)+1 {
		t.Errorf("%d webhooks, want %d and the ping", found, len(statuses))
	}
}

// TestSignatureExampleCanBeRecomputed: the worked example in the introduction to the webhooks is correct.
func TestSignatureExampleCanBeRecomputed(t *testing.T) {
	t.Parallel()
	text := ""
	for _, tag := range partner(t).doc["tags"].([]any) {
		if tag.(object)["name"] == "Webhooks" {
			text = tag.(object)["description"].(string)
		}
	}
	example := regexp.MustCompile(
		"the secret `([^`]+)`, `t` = `([^`]+)` and the body\\s+`([^`]+)` give\\s+`v1=([^`]+)`",
	).FindStringSubmatch(text)
	if example == nil {
		t.Fatal("the introduction has no worked example")
	}
	mac := hmac.New(sha256.New, []byte(example[1]))
	mac.Write([]byte(example[2] + "." + example[3]))
	if got := hex.EncodeToString(mac.Sum(nil)); got != example[4] {
		t.Errorf("v1 is %s, the document says %s", got, example[4])
	}
}

// errorStatuses is section 7 of the specification with decisions H8 and H25: every code with its possible statuses.
func errorStatuses() map[string][]string {
	return map[string][]string{
		"INVALID_REQUEST": {"400"}, "IDEMPOTENCY_KEY_REQUIRED": {"400"}, "UNAUTHORIZED": {"401"},
		"INSUFFICIENT_SCOPE": {"403"}, "NOT_FOUND": {"404"}, "NOTE_NOT_AVAILABLE": {"404"},
		"METHOD_NOT_ALLOWED": {"405"}, "INSUFFICIENT_FUNDS": {"409"}, "PHONE_REQUIRED": {"409"},
		"IDEMPOTENCY_CONFLICT": {"409"}, "IDEMPOTENCY_IN_PROGRESS": {"409"}, "NOT_CANCELLABLE": {"409"},
		"WALLET_LIMIT_EXCEEDED": {"409"}, "VALIDATION_ERROR": {"422"}, "RATE_LIMITED": {"429"},
		"INTERNAL_ERROR":  {"500"},
		"UNAVAILABLE":     {"503"},
		"invalid_request": {"400"}, "invalid_grant": {"400"}, "invalid_client": {"401"}, "server_error": {"500"},
		"temporarily_unavailable": {"429", "503"},
	}
}

func TestErrorCodesAreExactlyTheCatalogue(t *testing.T) {
	t.Parallel()
	c := partner(t)
	declared := append(texts(c.at(t, "components", "schemas", "ErrorCode").value["enum"]),
		texts(c.at(t, "components", "schemas", "OAuthErrorCode").value["enum"])...)
	if want := slices.Collect(maps.Keys(errorStatuses())); !sameSet(declared, want) {
		t.Errorf("ErrorCode and OAuthErrorCode list %v, want %v", sorted(declared), sorted(want))
	}
	// No operation can document a method that its path lacks.
	byOperation := errorStatuses()
	delete(byOperation, "METHOD_NOT_ALLOWED")
	got := map[string][]string{}
	for _, op := range c.operations(t) {
		for status, response := range c.children(t, op.node, "responses") {
			for _, code := range c.codes(t, response) {
				if !slices.Contains(got[code], status) {
					got[code] = append(got[code], status)
				}
			}
		}
	}
	if !maps.EqualFunc(got, byOperation, sameSet) {
		t.Errorf("codes by status\n got %v\nwant %v", got, byOperation)
	}
}

func TestErrorResponsesShowEveryCodeTheyList(t *testing.T) {
	each(t, func(t *testing.T, c *contract) {
		for name, response := range c.children(t, c.at(t, "components"), "responses") {
			shown := map[string]bool{}
			for contentType, media := range c.children(t, response, "content") {
				if contentType != "application/json" {
					continue
				}
				for example, value := range c.examplesOf(t, media) {
					body := value.(object)
					shown[body["code"].(string)] = true
					if body["code"] == "VALIDATION_ERROR" && body["issues"] == nil {
						t.Errorf("example %s of %s has no issues", example, name)
					}
					if oauth, ok := body["error"]; ok && (oauth != body["code"] ||
						body["error_description"] != body["message"]) {
						t.Errorf("example %s of %s: the two pairs of the OAuth error differ", example, name)
					}
				}
			}
			if want := c.codes(t, response); !sameSet(want, slices.Collect(maps.Keys(shown))) {
				t.Errorf("%s lists %v and shows %v", name, want, shown)
			}
		}
	})
}

// TestOperationsListTheirOwnConflicts: the codes of each operation beyond the general ones.
func TestOperationsListTheirOwnConflicts(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"createConsultation 400": {"IDEMPOTENCY_KEY_REQUIRED", "INVALID_REQUEST"},
		"createConsultation 409": {"INSUFFICIENT_FUNDS", "PHONE_REQUIRED", "IDEMPOTENCY_CONFLICT",
			"IDEMPOTENCY_IN_PROGRESS"},
		"createConsultation 422":  {"VALIDATION_ERROR"},
		"createTopupSession 409":  {"WALLET_LIMIT_EXCEEDED", "IDEMPOTENCY_CONFLICT", "IDEMPOTENCY_IN_PROGRESS"},
		"createTopupSession 422":  {"VALIDATION_ERROR"},
		"getConsultation 404":     {"NOT_FOUND"},
		"cancelConsultation 404":  {"NOT_FOUND"},
		"cancelConsultation 409":  {"NOT_CANCELLABLE"},
		"getConsultationNote 404": {"NOT_FOUND", "NOTE_NOT_AVAILABLE"},
	}
	general := map[string]bool{"400": true, "401": true, "403": true, "429": true, "500": true, "503": true}
	c := partner(t)
	got := map[string][]string{}
	for _, op := range c.operations(t) {
		if !op.isAPI() {
			continue
		}
		statuses := c.children(t, op.node, "responses")
		for status, response := range statuses {
			codes := c.codes(t, response)
			if status >= "4" && (!general[status] || op.id == "createConsultation" && status == "400") {
				got[op.id+" "+status] = codes
			}
		}
		catalog := strings.HasPrefix(op.path, "/api/v1/catalog/")
		for status := range general {
			if _, ok := statuses[status]; ok == (catalog && status == "403") {
				t.Errorf("%s: %s declared = %v", op.id, status, ok)
			}
		}
	}
	if !maps.EqualFunc(got, want, sameSet) {
		text, _ := json.MarshalIndent(got, "", " ")
		t.Errorf("codes by operation and status: %s", text)
	}
}

// TestWebhooksNeedNoComponents: generators drop components that no path names before they process webhooks, so a
// webhook contains everything itself. Its body is equal to the schema of that name.
func TestWebhooksNeedNoComponents(t *testing.T) {
	t.Parallel()
	c := partner(t)
	var events []string
	for event, item := range c.doc["webhooks"].(object) {
		events = append(events, event)
		post := item.(object)["post"].(object)
		for i, p := range post["parameters"].([]any) {
			if p.(object)["$ref"] != nil || p.(object)["schema"].(object)["$ref"] != nil {
				t.Errorf("parameter %d of %s is a reference", i, event)
			}
		}
		inline := post["requestBody"].(object)["content"].(object)["application/json"].(object)["schema"].(object)
		var name strings.Builder
		for word := range strings.FieldsFuncSeq(event, func(r rune) bool { return r == '.' || r == '_' }) {
			name.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
		if want := expanded(c,
			c.doc["components"].(object)["schemas"].(object)[name.String()+"Event"]); !reflect.DeepEqual(inline, want) {
			t.Errorf("the body of %s is not what schema %sEvent says:\n%v\n%v", event, name.String(), inline, want)
		}
	}
	if len(events) != 13 {
		t.Errorf("webhooks: %v", events)
	}
}

// TestTheUnionOfWebhooksMapsEachType: handlers branch on type, so the union of all bodies maps each type to its schema.
func TestTheUnionOfWebhooksMapsEachType(t *testing.T) {
	t.Parallel()
	c := partner(t)
	union := c.at(t, "components", "schemas", "WebhookEvent").value
	mapping := union["discriminator"].(object)["mapping"].(object)
	for event := range c.doc["webhooks"].(object) {
		ref, _ := mapping[event].(string)
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		if !slices.ContainsFunc(union["oneOf"].([]any), func(one any) bool { return one.(object)["$ref"] == ref }) ||
			c.at(t, "components", "schemas", name, "properties", "type").value["const"] != event {
			t.Errorf("%s is mapped to %q", event, ref)
		}
	}
	if len(mapping) != len(c.doc["webhooks"].(object)) {
		t.Errorf("mapped: %v", slices.Sorted(maps.Keys(mapping)))
	}
}

// expanded returns v with references replaced by the schemas.
func expanded(c *contract, v any) any {
	switch v := v.(type) {
	case object:
		if ref, ok := v["$ref"].(string); ok {
			return expanded(c, c.doc["components"].(object)["schemas"].(object)[strings.TrimPrefix(ref,
				"#/components/schemas/")])
		}
		out := object{}
		for key, value := range v {
			out[key] = expanded(c, value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = expanded(c, v[i])
		}
		return out
	}
	return v
}

// TestPublishedCopiesAreTheSameInJSON: the copies served as YAML and as JSON are created separately and have the same
// content.
func TestPublishedCopiesAreTheSameInJSON(t *testing.T) {
	t.Parallel()
	for _, contract := range [][]byte{openapi.Partner, openapi.Platform, openapi.Desk, openapi.Sandbox} {
		for _, contact := range []string{"", "mailto:help@service.example", "https://service.example/help?a=1&b=2"} {
			written, err := openapi.JSON(contract)
			if err != nil {
				t.Fatal(err)
			}
			var fromYAML, fromJSON any
			copied := func(source []byte) []byte {
				return openapi.WithContact(openapi.Published(source, "https://service.example:8443"), contact)
			}
			if err := yaml.Unmarshal(copied(contract), &fromYAML); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(copied(written), &fromJSON); err != nil {
				t.Fatal(err)
			}
			want, err := json.Marshal(fromYAML)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := json.Marshal(fromJSON); err != nil || !bytes.Equal(got, want) {
				t.Errorf("with contact %q they differ: %v", contact, err)
			}
		}
	}
}
