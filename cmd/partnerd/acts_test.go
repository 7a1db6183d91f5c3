package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestEveryCommandThatChangesSomethingSaysWhoAndWhy checks that such a command takes the actor and the reason, and goes
// through package operator, which records both.
func TestEveryCommandThatChangesSomethingSaysWhoAndWhy(t *testing.T) {
	t.Parallel()
	others := []string{ // these read, print, or run the program
		"serve", "work", "migrate", "migrations status", "migrations up", "doctor", "healthcheck", "app list",
		"app show", "app history", "client show", "operator list", "lawyer duty show", "consultation show",
		"consultation proof", "webhook events", "webhook deliveries", "wallet statement", "ledger verify",
		"report calibration", "report coverage", "report fairness", "key generate", "key list", "key extend-master",
		"key promote-master", "key uses", "key trim-master", "deployment show", "conform",
	}
	parser, err := kong.New(new(cli))
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for _, leaf := range parser.Model.Leaves(false) {
		name := strings.TrimPrefix(leaf.FullPath(), parser.Model.Name+" ")
		if slices.Contains(others, name) {
			known++
			continue
		}
		for _, flag := range []string{"reason", "by"} {
			if !slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == flag }) {
				t.Errorf("%s has no --%s", name, flag)
			}
		}
	}
	if known != len(others) {
		t.Errorf("%d of %d commands that change nothing are there", known, len(others))
	}
	files, _ := filepath.Glob("*.go")
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && strings.Contains(string(source), ".InTx(") {
			t.Errorf("%s changes the database past package operator", file)
		}
	}
}
