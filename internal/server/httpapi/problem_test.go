package httpapi_test

import (
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"partnerd/internal/base/problem"
	"partnerd/openapi"
)

// The codes that rules can raise are exactly those in the contracts of the Partner API and the Desk API. The Platform
// API has no other codes.
func TestTheContractNamesEveryCodeThatIsDeclared(t *testing.T) {
	t.Parallel()
	named := func(source []byte) []string {
		var document struct {
			Components struct {
				Schemas struct {
					ErrorCode struct{ Enum []string } `yaml:"ErrorCode"`
				}
			}
		}
		if err := yaml.Unmarshal(source, &document); err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(slices.Values(document.Components.Schemas.ErrorCode.Enum))
	}
	var declared []string
	for _, e := range problem.Catalogue() {
		declared = append(declared, e.Code)
	}
	slices.Sort(declared)
	want := slices.Concat(named(openapi.Partner), named(openapi.Desk), named(openapi.Sandbox), named(openapi.Platform))
	slices.Sort(want)
	if want = slices.Compact(want); !slices.Equal(declared, want) {
		t.Errorf("declared\n%v, the contracts name\n%v", declared, want)
	}
	platform := named(openapi.Platform)
	if len(platform) == 0 {
		t.Error("the Platform API names no code")
	}
	for _, code := range platform {
		if !slices.Contains(declared, code) {
			t.Errorf("the Platform API names %s, which nothing raises", code)
		}
	}
}
