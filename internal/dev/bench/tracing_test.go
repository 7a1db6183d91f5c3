package bench

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/app/config"
	"partnerd/internal/base/telemetry"
)

// TestTheSinkCountsSpans checks that every span is counted and that an invalid message is rejected.
func TestTheSinkCountsSpans(t *testing.T) {
	t.Parallel()
	s, err := newSink(0.25)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	r := prometheus.NewRegistry()
	sends, err := telemetry.New(t.Context(), telemetry.Config{Traces: s.url, Registry: r, Registerer: r,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	const spans = 1500 // three exports
	for range spans {
		_, span := sends.Tracer().Start(t.Context(), "step")
		span.Set(telemetry.ConsultationID, "con_1")
		span.End(nil)
	}
	ending, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sends.Close(ending)
	if n := s.taken(); n != spans {
		t.Errorf("%v spans were counted, want %d", n, spans)
	}
	answer, err := http.Post(s.url, "application/x-protobuf", strings.NewReader("\xff nonsense"))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusBadRequest {
		t.Errorf("the response to nonsense is %d", answer.StatusCode)
	}
}

// TestTracingIsOffUnlessAsked checks that a share of 0 turns tracing off. With a share, programs in this process and in
// their own get the same settings.
func TestTracingIsOffUnlessAsked(t *testing.T) {
	t.Parallel()
	var none *sink
	var c config.Config
	if none.observe(&c); c.OTLPTracesEndpoint != "" || none.environment() != nil || none.results("", 1, 1) != nil {
		t.Error("something is traced")
	}
	some := &sink{share: 0.1, url: "http://127.0.0.1:1/v1/traces"}
	some.observe(&c)
	want := []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + c.OTLPTracesEndpoint,
		"OTEL_TRACES_SAMPLER=" + c.TracesSampler, "OTEL_TRACES_SAMPLER_ARG=" + c.TracesSamplerArg}
	if got := some.environment(); !slices.Equal(got, want) || c.TracesSamplerArg != "0.1" {
		t.Errorf("%q, want %q", got, want)
	}
}
