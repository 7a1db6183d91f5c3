package httpapi

import (
	"slices"
	"testing"

	"partnerd/openapi"
)

// Clients see how each application used their account, so every operation declares what it uses.
func TestEveryOperationSaysWhatItUses(t *testing.T) {
	t.Parallel()
	doc, err := readDocument(openapi.Partner, schemePartner)
	if err != nil {
		t.Fatal(err)
	}
	nothing := []string{"listCompetences", "listLanguages", "getCoverage"} // they reveal nothing about a client
	for name, op := range doc.operations {
		if uses[name] == "" && !op.public && !slices.Contains(nothing, name) {
			t.Errorf("%s does not say what it uses of a client's account", name)
		}
	}
	for name := range uses {
		if doc.operations[name] == nil {
			t.Errorf("there is no operation %s", name)
		}
	}
}
