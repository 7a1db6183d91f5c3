package app

import (
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"partnerd/internal/dev/dbtest"
)

// TestWhatAlarmsWaitForIsCountedFromZero checks that counters used by alerts exist at 0 from the start. To Prometheus,
// a series that appears with its first value has not increased, so the first failure would raise no alert.
func TestWhatAlarmsWaitForIsCountedFromZero(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../.deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), ofEnvironment(t, "sandbox", dbtest.URL(t)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	families, err := a.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string][]string{} // by metric, the labels as in a rule
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels strings.Builder
			for _, l := range m.GetLabel() {
				labels.WriteString("," + l.GetName() + `="` + l.GetValue() + `"`)
			}
			series[f.GetName()] = append(series[f.GetName()], labels.String())
		}
	}
	awaited := regexp.MustCompile(`increase\((partnerd_[a-z_]+)(?:\{([a-z]+="[a-z_]+")\})?\[`).
		FindAllStringSubmatch(string(rules), -1)
	for _, of := range awaited {
		found := false
		for _, labels := range series[of[1]] {
			found = found || strings.Contains(labels, of[2])
		}
		if !found {
			t.Errorf("%s{%s} does not exist before the first time", of[1], of[2])
		}
	}
	if len(awaited) < 5 {
		t.Errorf("%d counts were found: the test cannot read the alarms", len(awaited))
	}
}
