package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestEveryMetricIsDocumented: the table of metrics names exactly what /metrics exports, with the labels.
func TestEveryMetricIsDocumented(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../app/README.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(partnerd_[a-z_]+)(?:\\{([a-z,]+)\\})?`").
		FindAllStringSubmatch(string(raw), -1) {
		if key := m[1] + labels(m[2]); documented[key] {
			t.Errorf("%s stands twice in the table", key)
		} else {
			documented[key] = true
		}
	}
	w := newWorld(t, withoutWorkers)
	descriptions := make(chan *prometheus.Desc)
	go func() { w.Metrics.Describe(descriptions); close(descriptions) }()
	said := regexp.MustCompile(`fqName: "(partnerd_[a-z_]+)".*variableLabels: \{([a-z,]*)\}`)
	found := map[string]bool{}
	for d := range descriptions {
		if m := said.FindStringSubmatch(d.String()); m != nil {
			found[m[1]+labels(m[2])] = true
		}
	}
	for key := range found {
		if !documented[key] {
			t.Errorf("%s is not in internal/app/README.md", key)
		}
	}
	for key := range documented {
		// Its driver runs only in live deployments.
		if !found[key] && key != "partnerd_telephony_callbacks_total{kind,result}" {
			t.Errorf("internal/app/README.md has %s, which is not a metric", key)
		}
	}
	if len(found) == 0 {
		t.Error("no metric was found: the test cannot read them")
	}
}

func labels(list string) string {
	names := strings.Split(list, ",")
	slices.Sort(names)
	return "{" + strings.Join(names, ",") + "}"
}

// TestRequestsAreMeasuredByRoute: requests are measured by route, so callers cannot multiply the series.
func TestRequestsAreMeasuredByRoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withoutWorkers)
	handler, err := w.Handler()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path string) {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))
	}
	before := w.requests(t)
	for n := range 50 {
		ask(http.MethodGet, fmt.Sprintf("/api/v1/consultations/con_%d", n))
		ask(http.MethodGet, fmt.Sprintf("/api/v1/none/%d", n))
		ask(http.MethodGet, fmt.Sprintf("/api/v2/%d", n))
		ask(http.MethodGet, fmt.Sprintf("/wp-admin/%d", n))
		ask(fmt.Sprintf("MADEUP%d", n), "/openapi.yaml")
		ask(http.MethodGet, "/healthz")
		ask(http.MethodGet, "/readyz")
	}
	ask(http.MethodHead, "/openapi.yaml")
	after := w.requests(t)
	for series, want := range map[string]float64{
		"GET /api/v1/consultations/:id 4xx": 50, "HEAD /openapi.yaml 2xx": 1, "GET /healthz 2xx": 0,
		"GET /readyz 2xx": 0,
	} {
		if got := after[series] - before[series]; got != want {
			t.Errorf("%s: %v more, want %v of %v", series, got, want, after)
		}
	}
	if more := len(after) - len(before); more > 8 {
		t.Errorf("%d series more: %v", more, after)
	}
	total := 0.0
	for series, n := range after {
		total += n - before[series]
	}
	if total != 251 {
		t.Errorf("%v requests were counted, want 251 and no probe", total)
	}
}

// TestProbesDoNotFillTheLog: a load balancer that probes every second does not fill the log. A successful probe is
// logged at debug level.
func TestProbesDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withoutWorkers)
	for _, path := range []string{"/readyz", "/healthz", "/api/v1/me"} {
		w.send(t, http.MethodGet, path, nil)
	}
	for route, level := range map[string]string{"/readyz": "DEBUG", "/healthz": "DEBUG", "/api/v1/me": "INFO"} {
		eventually(t, route+" at "+level,
			func() bool { return w.logs.matches("level=" + level + " msg=request [^\n]*route=" + route + " ") })
	}
	if w.logs.matches("level=INFO msg=request [^\n]*route=/(readyz|healthz) ") {
		t.Error("a probe is in the log")
	}
}

// requests reads the counts by method, route and status class.
func (w *world) requests(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := w.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "partnerd_http_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			of := map[string]string{}
			for _, l := range m.GetLabel() {
				of[l.GetName()] = l.GetValue()
			}
			counts[of["method"]+" "+of["route"]+" "+of["status"]] = m.GetCounter().GetValue()
		}
	}
	return counts
}
