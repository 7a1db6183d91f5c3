package app

import (
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"partnerd/internal/dev/dbtest"
)

// An alarm over a count that rises is raised by the first time, too: the series is there, at 0, before. One that
// appeared with its first value would not have risen for Prometheus.
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
	series := map[string][]string{} // of a metric, its labels as in a rule
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
