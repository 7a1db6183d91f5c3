package e2e

import (
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// stray captures what the program logs outside its own logger.
var stray = &logBook{}

// TestMain runs the tests and then checks that they met everything that the contract documents.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(stray))
	flag.Parse()
	status := m.Run()
	if whole() && testing.Verbose() {
		fmt.Print(observed())
	}
	if whole() && status == 0 {
		if missing := unseen(); len(missing) > 0 {
			fmt.Printf("FAIL: documented and never seen:\n  %s\n", strings.Join(missing, "\n  "))
			status = 1
		}
	}
	if stray.contains(canary) {
		fmt.Println("FAIL: the privileged note was logged")
		status = 1
	}
	os.Exit(status)
}

// whole reports whether all tests ran. A subset cannot meet everything.
func whole() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return true
}

// observed returns a table of how often every documented status of every operation, and each of its codes, was met. It
// is printed by `make observed`.
func observed() string {
	var table strings.Builder
	table.WriteString("| operation | status | met | codes |\n|---|---|---|---|\n")
	for _, op := range spec.operations {
		for _, status := range slices.Sorted(maps.Keys(op.responses)) {
			met := fmt.Sprint(seen.count("%s %d", op.id, status))
			if ofTheMachine(status) {
				met += " (a fault of the machine)"
			}
			var codes []string
			for _, code := range op.responses[status].codes {
				codes = append(codes, fmt.Sprintf("%s %d", code, seen.count("%s %d %s", op.id, status, code)))
			}
			fmt.Fprintf(&table, "| %s | %d | %s | %s |\n", op.id, status, met, strings.Join(codes, ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(spec.webhooks)) {
		fmt.Fprintf(&table, "| %s | webhook | %d | |\n", name, seen.count("webhook %s", name))
	}
	return table.String()
}

// ofTheMachine reports whether a status needs a failure of the machine. The tests of the packages cause those.
func ofTheMachine(status int) bool {
	return status == http.StatusInternalServerError || status == http.StatusServiceUnavailable
}

// unseen lists statuses, error codes, error examples and webhooks of the contract that no test has met, except those of
// the machine.
func unseen() (missing []string) {
	for _, op := range spec.operations {
		for status, answer := range op.responses {
			if ofTheMachine(status) {
				continue
			}
			if !seen.has("%s %d", op.id, status) {
				missing = append(missing, fmt.Sprintf("%s %d", op.id, status))
			}
			for _, code := range answer.codes {
				if !seen.has("%s %d %s", op.id, status, code) {
					missing = append(missing, fmt.Sprintf("%s %d %s", op.id, status, code))
				}
			}
			for _, said := range answer.says {
				if !seen.has("%s %d says %s", op.id, status, said) && !seen.has("%d says %s", status, said) {
					missing = append(missing, fmt.Sprintf("%s %d says %s", op.id, status, said))
				}
			}
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(spec.webhooks)),
		slices.Collect(maps.Keys(platformSpec.webhooks))) {
		if !seen.has("webhook %s", name) {
			missing = append(missing, "webhook "+name)
		}
	}
	slices.Sort(missing)
	return missing
}
