package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEverySettingIsDocumented checks that the tables of .deploy/configuration.md list exactly the program's settings.
func TestEverySettingIsDocumented(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../.deploy/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| `PARTNERD_") ||
			strings.HasPrefix(line, "| `OTEL_") {
			for _, name := range regexp.MustCompile("(?:PARTNERD|OTEL)_[A-Z_]+").FindAllString(cells[1], -1) {
				listed[name] = true
			}
		}
	}
	settings := map[string]bool{}
	for _, name := range known(t) {
		settings[strings.TrimSuffix(name, "_FILE")] = true
	}
	for name := range settings {
		if !listed[name] {
			t.Errorf("%s is not in .deploy/configuration.md", name)
		}
	}
	for name := range listed {
		if !settings[name] {
			t.Errorf(".deploy/configuration.md lists %s, which is no setting", name)
		}
	}
}
