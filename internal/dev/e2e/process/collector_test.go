package process_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestTheProgramSendsToACollector: the program sends its spans as the standard variables say, and the metrics that
// Prometheus reads, with the token from a file.
func TestTheProgramSendsToACollector(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]bool{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return // of a program that has since ended
		}
		mu.Lock()
		defer mu.Unlock()
		seen[r.Header.Get("Authorization")] = true
		var traces tracepb.ExportTraceServiceRequest
		var metrics metricpb.ExportMetricsServiceRequest
		if r.URL.Path == "/otlp/v1/traces" {
			err = proto.Unmarshal(raw, &traces)
		} else {
			err = proto.Unmarshal(raw, &metrics)
		}
		if err != nil {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		for _, rs := range traces.ResourceSpans {
			for _, a := range rs.Resource.Attributes {
				seen[a.Key+"="+a.Value.GetStringValue()] = true
			}
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					seen[s.Name] = true
				}
			}
		}
		for _, rm := range metrics.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, m := range sm.Metrics {
					seen[m.Name] = true
				}
			}
		}
	}))
	defer collector.Close()
	in := install(t)
	token := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(token, []byte("authorization=Bearer%20of-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in.env = append(slices.Clone(in.env), "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL+"/otlp",
		"OTEL_EXPORTER_OTLP_HEADERS_FILE="+token, "OTEL_SERVICE_NAME=named", "OTEL_RESOURCE_ATTRIBUTES=region=one",
		"OTEL_METRIC_EXPORT_INTERVAL=200", "OTEL_BSP_SCHEDULE_DELAY=200")
	server := in.serve(t, freeAddress(t))
	await(t, time.Minute, func() bool {
		answer, err := http.Get(server.url + "/.well-known/jwks.json")
		if err != nil {
			return false
		}
		answer.Body.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, want := range []string{"GET /.well-known/jwks.json", "SELECT", "partnerd_http_requests_total",
			"partnerd_webhook_in_flight", "go_goroutines", "Bearer of-a-file", "service.name=named", "region=one"} {
			if !seen[want] {
				return false
			}
		}
		return true
	}, func() string { return "spans and metrics have not come" })
	server.terminate(t)
	mu.Lock()
	defer mu.Unlock()
	for what := range seen {
		if strings.HasPrefix(what, "process.command") || strings.HasPrefix(what, "host.") {
			t.Errorf("the collector received %s", what)
		}
	}
}
