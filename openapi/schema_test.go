package openapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestSchemasKeepToTheSharedSubset: schemas use only forms that our generators and validators handle without loss.
func TestSchemasKeepToTheSharedSubset(t *testing.T) {
	each(t, func(t *testing.T, c *contract) {
		if _, ok := c.doc["jsonSchemaDialect"]; ok {
			t.Error("jsonSchemaDialect makes some validators skip bodies in silence")
		}
		for _, name := range slices.Sorted(maps.Keys(c.children(t, c.at(t, "components"), "schemas"))) {
			checkSubset(t, name, c.at(t, "components", "schemas", name).value)
		}
		for _, holder := range c.schemaHolders(t) {
			checkSubset(t, holder.pointer, holder.value["schema"])
		}
	})
}

func checkSubset(t *testing.T, place string, value any) {
	t.Helper()
	schema, ok := value.(object)
	if !ok {
		t.Errorf("%s: a schema must be an object, not %v", place, value)
		return
	}
	for _, keyword := range []string{"allOf", "anyOf", "nullable", "$defs", "unevaluatedProperties"} {
		if _, used := schema[keyword]; used {
			t.Errorf("%s uses %s", place, keyword)
		}
	}
	if _, ref := schema["$ref"]; ref {
		if len(schema) != 1 {
			t.Errorf("%s: generators drop what stands beside $ref", place)
		}
		return
	}
	if union, ok := schema["oneOf"].([]any); ok {
		mapping, _ := schema["discriminator"].(object)["mapping"].(object)
		if len(mapping) != len(union) {
			t.Errorf("%s is a union of %d, of which the discriminator maps %d", place, len(union), len(mapping))
		}
		return
	}
	if schema["type"] == nil {
		t.Errorf("%s has no type", place)
	}
	if types := texts(schema["type"]); len(types) > 0 && (len(types) != 2 || types[1] != "null") {
		t.Errorf("%s has the types %v, want one, or one and null", place, types)
	}
	// Validators ignore formats that they do not know.
	formats := []any{nil, "date-time", "uri", "uri-reference", "email", "int64"}
	if !slices.Contains(formats, schema["format"]) {
		t.Errorf("%s has the unknown format %v", place, schema["format"])
	}
	if slices.Contains(texts(schema["enum"]), "<nil>") {
		t.Errorf("%s has null in its enum", place)
	}
	properties, _ := schema["properties"].(object)
	for name, property := range properties {
		checkSubset(t, place+"."+name, property)
		if fields := property.(object); fields["description"] == nil && fields["$ref"] == nil {
			t.Errorf("%s.%s has no description", place, name)
		}
	}
	for _, name := range texts(schema["required"]) {
		if properties[name] == nil {
			t.Errorf("%s requires %s, which it does not have", place, name)
		}
	}
	if items, ok := schema["items"]; ok {
		checkSubset(t, place+"[]", items)
	}
}

func TestEverySharedComponentIsUsed(t *testing.T) {
	each(t, func(t *testing.T, c *contract) {
		text, err := json.Marshal(c.doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range []string{"schemas", "responses", "parameters", "headers"} {
			for name := range c.children(t, c.at(t, "components"), section) {
				switch {
				case section == "schemas" && strings.HasSuffix(name, "Event"), name == "EventType":
					continue // names the body of a webhook, for generators that do not name it themselves
				case name == "ApiError", name == "OAuthError":
					continue // for code that handles all errors alike
				}
				if !strings.Contains(string(text), fmt.Sprintf(`"#/components/%s/%s"`, section, name)) {
					t.Errorf("components/%s/%s is used nowhere", section, name)
				}
			}
		}
	})
}

func TestRequestBodiesAreClosedAndResponsesOpen(t *testing.T) {
	t.Parallel()
	c := partner(t)
	closed := []string{}
	for name, schema := range c.children(t, c.at(t, "components"), "schemas") {
		if schema.value["additionalProperties"] == false {
			closed = append(closed, name)
		}
	}
	if want := []string{"CreateConsultationRequest", "CreateTopupSessionRequest"}; !sameSet(closed, want) {
		t.Errorf("closed schemas %v, want %v", closed, want)
	}
}

// Fields of sections 2 and 6 of the specification with decisions H1, H2, H4 and H7; "?" marks one that may be absent.
func TestObjectsHaveTheirFields(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"Profile": "id name email phoneVerified",
		"Wallet":  "balanceCents availableCents heldCents currency",
		"WalletTransaction": "id type amountCents currency balanceAfterCents availableAfterCents consultationId? " +
			"description createdAt",
		"WalletTransactionPage": "items nextCursor",
		"TopupSession":          "checkoutUrl expiresAt",
		"Competence":            "code label",
		"CompetenceList":        "competences",
		"Language":              "code label",
		"LanguageList":          "languages",
		"Coverage":              "available lawyersOnline estimatedWaitSeconds",
		"Consultation": "id status competence language subject description? recordingConsent " +
			"withdrawalWaiverAcknowledged externalRef? priceCents currency createdAt updatedAt assignedAt? " +
			"callStartedAt? callEndedAt? durationSec? completedAt? cancelledAt? expiredAt? endReason? callbackDueAt? " +
			"refundedCents? refundedAt? noteAvailable",
		"ConsultationPage": "items nextCursor",
		"NotePreview":      "consultationId preview submittedAt",
		"ApiError":         "code message actionUrl? issues?",
		"Issue":            "path code message",
		"OAuthError":       "error error_description code message",
		"TokenResponse": "access_token token_type expires_in scope refresh_token? " +
			"refresh_token_expires_in?",
		"TokenRequest": "grant_type code? redirect_uri? code_verifier? refresh_token? " +
			"client_id client_secret",
		"RevokeRequest":             "token client_id client_secret?",
		"CreateTopupSessionRequest": "amountCents returnUrl",
		"CreateConsultationRequest": "competence language? subject description? recordingConsent? " +
			"withdrawalWaiverAcknowledged externalRef? waiverTextVersion? waiverTextLanguage?",
		"ConsultationCreatedEvent":  "id type createdAt data",
		"ConsultationCreatedData":   "id clientId? status competence externalRef? priceCents?",
		"ConsultationCompletedData": "id clientId? status competence externalRef? priceCents? durationSec",
		"ConsultationCallEndedData": "id clientId? status competence externalRef? priceCents? durationSec",
		"ConsultationExpiredData": "id clientId? status competence externalRef? priceCents? durationSec? " +
			"endReason? refundedCents?",
		"ConsultationRefundedData": "id clientId? status competence externalRef? priceCents? durationSec? " +
			"endReason? refundedCents?",
		"ConsultationCompletedEvent": "id type createdAt data",
	}
	c := partner(t)
	for name, fields := range want {
		schema := c.at(t, "components", "schemas", name)
		required := texts(schema.value["required"])
		var got []string
		for property := range c.children(t, schema, "properties") {
			if !slices.Contains(required, property) {
				property += "?"
			}
			got = append(got, property)
		}
		if !sameSet(got, strings.Fields(fields)) {
			t.Errorf("%s has %v, want %v", name, sorted(got), sorted(strings.Fields(fields)))
		}
	}
}

func TestEnumsAreTheDecidedOnes(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"ConsultationStatus": "DRAFT MATCHING PENDING_CALLBACK ASSIGNED IN_CALL CALL_ENDED COMPLETED " +
			"CANCELLED EXPIRED",
		"ConsultationStatusFilter": "MATCHING ASSIGNED COMPLETED CANCELLED PENDING_CALLBACK IN_CALL CALL_ENDED EXPIRED",
		"TransactionType":          "TOPUP HOLD RELEASE CAPTURE REFUND ADJUSTMENT",
		"IssueCode": "required invalid_type too_short too_long too_small not_in_catalog invalid_url " +
			"invalid_value unknown_field" +
			" waiver_required",
	}
	c := partner(t)
	for name, values := range want {
		if got := texts(c.at(t, "components", "schemas", name).value["enum"]); !sameSet(got, strings.Fields(values)) {
			t.Errorf("%s is %v, want %v", name, got, values)
		}
	}
}

// TestDefaultsAreTheSpecifiedOnes: TypeScript generators treat a property with a default as required, so bodies state
// defaults in words.
func TestDefaultsAreTheSpecifiedOnes(t *testing.T) {
	t.Parallel()
	c := partner(t)
	if got := c.at(t, "components", "parameters", "Limit", "schema").value["default"]; got != json.Number("20") {
		t.Errorf("default of limit is %v, want 20", got)
	}
	for name, want := range map[string]string{"language": "`FR`", "recordingConsent": "`false`"} {
		property := c.at(t, "components", "schemas", "CreateConsultationRequest", "properties", name).value
		if text, _ := property["description"].(string); !strings.Contains(text, "Defaults to "+want) {
			t.Errorf("%s says %q, want its default %s", name, text, want)
		}
		if property["default"] != nil {
			t.Errorf("%s has a default, which generators take for required", name)
		}
	}
}

// The limits of section 8, each on both sides of its boundary.
func TestRequestBoundaries(t *testing.T) {
	t.Parallel()
	c := partner(t)
	create := func(field string, value any) object {
		body := object{"competence": "HOUSING", "subject": "Deposit", "withdrawalWaiverAcknowledged": true}
		body[field] = value
		return body
	}
	without := func(body object, field string) object { delete(body, field); return body }
	topup := func(amount any) object { return object{"amountCents": amount, "returnUrl": "https://crm.example/back"} }
	consultation, session := c.schema(t, "CreateConsultationRequest"), c.schema(t, "CreateTopupSessionRequest")
	limit := c.compile(t, "/components/parameters/Limit/schema")
	nota := strings.Repeat("é", 200) // lengths count code points, not bytes
	for name, check := range map[string]struct {
		schema *jsonschema.Schema
		value  any
		valid  bool
	}{
		"subject 2":               {consultation, create("subject", "ab"), false},
		"subject 3":               {consultation, create("subject", "abc"), true},
		"subject 200 code points": {consultation, create("subject", nota), true},
		"subject 201":             {consultation, create("subject", nota+"é"), false},
		"subject missing":         {consultation, without(create("subject", ""), "subject"), false},
		"description empty":       {consultation, create("description", ""), true},
		"description 2000":        {consultation, create("description", strings.Repeat("x", 2000)), true},
		"description 2001":        {consultation, create("description", strings.Repeat("x", 2001)), false},
		"description null":        {consultation, create("description", nil), false},
		"externalRef 100":         {consultation, create("externalRef", strings.Repeat("x", 100)), true},
		"externalRef 101":         {consultation, create("externalRef", strings.Repeat("x", 101)), false},
		"language missing":        {consultation, without(create("language", "FR"), "language"), true},
		"language null":           {consultation, create("language", nil), false},
		"competence missing":      {consultation, without(create("competence", ""), "competence"), false},
		"competence number":       {consultation, create("competence", 1), false},
		"waiver false":            {consultation, create("withdrawalWaiverAcknowledged", false), false},
		"waiver text":             {consultation, create("withdrawalWaiverAcknowledged", "true"), false},
		"waiver missing": {consultation,
			without(create("withdrawalWaiverAcknowledged", true), "withdrawalWaiverAcknowledged"), false},
		"recordingConsent text": {consultation, create("recordingConsent", "yes"), false},
		"unknown field":         {consultation, create("externalref", "CASE-1"), false},
		"amount 1999":           {session, topup(1999), false},
		"amount 2000":           {session, topup(2000), true},
		"amount 2000.0":         {session, topup(json.Number("2000.0")), true},
		"amount 2000.5":         {session, topup(2000.5), false},
		"amount text":           {session, topup("2000"), false},
		"amount 100000":         {session, topup(100000), true},
		"amount 100001":         {session, topup(100001), false},
		"returnUrl missing":     {session, without(topup(2000), "returnUrl"), false},
		"returnUrl not a URL":   {session, object{"amountCents": 2000, "returnUrl": "not a url"}, false},
		"limit 0":               {limit, 0, false},
		"limit 1":               {limit, 1, true},
		"limit 50":              {limit, 50, true},
		"limit 51":              {limit, 51, false},
	} {
		if err := check.schema.Validate(check.value); (err == nil) != check.valid {
			t.Errorf("%s: valid = %v, want %v (%v)", name, err == nil, check.valid, err)
		}
	}
}

// TestNullIsAllowedOnlyWhereItIsSpecified: the specification says "or null" exactly where null can occur. Elsewhere an
// unknown value is left out.
func TestNullIsAllowedOnlyWhereItIsSpecified(t *testing.T) {
	t.Parallel()
	c := partner(t)
	var got []string
	for name, schema := range c.children(t, c.at(t, "components"), "schemas") {
		for property, n := range c.children(t, schema, "properties") {
			if slices.Contains(texts(n.value["type"]), "null") {
				got = append(got, name+"."+property)
				if !slices.Contains(texts(schema.value["required"]), property) {
					t.Errorf("%s.%s can be null and absent", name, property)
				}
			}
		}
	}
	want := []string{"ConsultationPage.nextCursor", "Coverage.estimatedWaitSeconds", "WalletTransactionPage.nextCursor"}
	if !sameSet(got, want) {
		t.Errorf("null is allowed in %v, want %v", sorted(got), want)
	}
}

// TestTimestampsAreUTCAndOfOneWidth: generated clients match a pattern against the parsed time object. So the schemas
// do not state the promised width. The examples keep to it, and internal/dev/e2e checks what is sent.
func TestTimestampsAreUTCAndOfOneWidth(t *testing.T) {
	t.Parallel()
	c := partner(t)
	for name, schema := range c.children(t, c.at(t, "components"), "schemas") {
		for property, n := range c.children(t, schema, "properties") {
			if n.value["format"] == "date-time" && n.value["pattern"] != nil {
				t.Errorf("%s.%s has a pattern", name, property)
			}
		}
	}
	found := 0
	for _, example := range regexp.MustCompile(`(?m)At: '([^']*)'$`).FindAllSubmatch(c.source, -1) {
		found++
		if !regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$`).Match(example[1]) {
			t.Errorf("an example has the time %s", example[1])
		}
	}
	if found == 0 {
		t.Error("no timestamps found")
	}
}

// TestSchemasLeaveExamplesAndDefaultsToTheirUse: examples in a schema take precedence over those of responses, so mocks
// would return one error for all. A default in a body makes generators require an optional property.
func TestSchemasLeaveExamplesAndDefaultsToTheirUse(t *testing.T) {
	each(t, func(t *testing.T, c *contract) {
		for name, schema := range c.children(t, c.at(t, "components"), "schemas") {
			if schema.value["example"] != nil || schema.value["examples"] != nil {
				t.Errorf("schema %s has an example of its own", name)
			}
			if schema.value["properties"] == nil {
				continue
			}
			for property, p := range c.children(t, schema, "properties") {
				if p.value["default"] != nil {
					t.Errorf("%s of %s has a default", property, name)
				}
			}
		}
	})
}
