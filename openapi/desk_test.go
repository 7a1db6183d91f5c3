package openapi_test

import (
	"slices"
	"strings"
	"testing"
)

// TestEveryDeskOperationDemandsTheSession: every operation requires a lawyer's session, and every change the token of a
// page.
func TestEveryDeskOperationDemandsTheSession(t *testing.T) {
	t.Parallel()
	c := document(t, "desk")
	for _, op := range c.operations(t) {
		security, _ := op.value["security"].([]any)
		if len(security) != 1 || len(security[0].(object)) != 1 || security[0].(object)["session"] == nil {
			t.Errorf("%s: security %v", op.id, security)
		}
		var names []string
		for _, p := range c.parameters(t, op) {
			names = append(names, p.value["name"].(string))
		}
		if changes := op.method != "get"; slices.Contains(names, "X-CSRF-Token") != changes {
			t.Errorf("%s: parameters %v", op.id, names)
		}
	}
	if scheme := c.at(t, "components", "securitySchemes", "session").value; scheme["type"] != "apiKey" ||
		scheme["in"] != "cookie" {
		t.Errorf("the scheme is %v", scheme)
	}
}

// TestDeskRequestBodiesAreClosed: each operation documents the errors of its action, and its body permits no further
// properties.
func TestDeskRequestBodiesAreClosed(t *testing.T) {
	t.Parallel()
	c := document(t, "desk")
	for name, schema := range c.children(t, c.at(t, "components"), "schemas") {
		if closed := schema.value["additionalProperties"] == false; closed != strings.HasSuffix(name, "Request") {
			t.Errorf("%s: closed %t", name, closed)
		}
	}
}

// TestTheDeskMarksWhatIsSecret: no schema contains a number to call, and text written by a client or a lawyer is
// marked.
func TestTheDeskMarksWhatIsSecret(t *testing.T) {
	t.Parallel()
	c := document(t, "desk")
	for name, schema := range c.children(t, c.at(t, "components"), "schemas") {
		for property, n := range c.children(t, schema, "properties") {
			secret := slices.Contains([]string{"subject", "description", "clientName", "note", "preview"}, property)
			if strings.Contains(strings.ToLower(property), "phone") || secret != (n.value["x-sensitive"] == true) {
				t.Errorf("%s.%s: sensitive %v", name, property, n.value["x-sensitive"])
			}
		}
	}
}
