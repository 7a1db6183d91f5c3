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

// stray takes what the program logs outside of its own logger.
var stray = &logBook{}

// TestMain runs the tests and then asks whether they met everything that the contract documents.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(stray))
	flag.Parse()
	status := m.Run()
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

// whole tells whether all tests ran: a part of them cannot meet everything.
func whole() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return true
}

// unseen lists statuses, error codes, examples of errors and webhooks of the contract that no test has met. 500 and 503 need faults of the
// machine and are left to the tests of the packages.
func unseen() (missing []string) {
	for _, op := range spec.operations {
		for status, answer := range op.responses {
			if status == http.StatusInternalServerError || status == http.StatusServiceUnavailable {
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
	for _, name := range slices.Concat(slices.Collect(maps.Keys(spec.webhooks)), slices.Collect(maps.Keys(platformSpec.webhooks))) {
		if !seen.has("webhook %s", name) {
			missing = append(missing, "webhook "+name)
		}
	}
	slices.Sort(missing)
	return missing
}
