package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

func sendTo(t *testing.T, url string, log *slog.Logger) *Telemetry {
	t.Helper()
	r := prometheus.NewRegistry()
	tel, err := New(t.Context(), Config{Traces: url + "/v1/traces", Metrics: url + "/v1/metrics", Registry: r,
		Registerer: r, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

// TestOffIsNothing checks that without an endpoint nothing is set up, and spans cost nothing.
func TestOffIsNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	r := prometheus.NewRegistry()
	tel, err := New(t.Context(), Config{Registry: r, Registerer: r, Logger: silent()})
	if tel != nil || err != nil {
		t.Fatalf("%v, %v", tel, err)
	}
	log := silent()
	if tel.Tracer().Logger(log) != log {
		t.Error("the log is another one")
	}
	if err := tel.SendMetrics(t.Context()); err != nil {
		t.Error(err)
	}
	next := http.DefaultTransport
	if tel.Tracer().Transport(next) != next || tel.Tracer().Transport(nil) != nil ||
		tel.Tracer().TransportWithin(t.Context(), next) != next {
		t.Error("requests go through something")
	}
	ctx, name := t.Context(), strings.Repeat("x", 10)
	allocated := testing.AllocsPerRun(100, func() {
		ctx, span := tel.Tracer().Start(ctx, name)
		ctx, step := tel.Tracer().Resume(ctx, name, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			time.Hour)
		ctx, call := tel.Tracer().Call(ctx, name, "", 0)
		ctx, asked := tel.Tracer().Ask(ctx, name, name, 1)
		ctx, request := tel.Tracer().Serve(ctx, name, name, name)
		span.Set(ConsultationID, name)
		step.SetInt(Attempt, 1)
		call.Link(name)
		request.Fail(name)
		asked.End(nil)
		if Carry(ctx) != "" {
			t.Error("something is carried")
		}
		span.End(nil)
		step.End(io.EOF)
	})
	if allocated != 0 {
		t.Errorf("%v allocations", allocated)
	}
	tel.Close(t.Context())
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}

// TestASlowCollectorIsBounded uses a collector that accepts nothing. A bounded number of spans waits; the others are
// dropped immediately and counted, and the log reports it once. Close waits no longer than its context.
func TestASlowCollectorIsBounded(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-stuck:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(stuck)
	var said strings.Builder
	var mu sync.Mutex
	tel := sendTo(t, server.URL, slog.New(slog.NewTextHandler(lockedWriter{&mu, &said}, nil)))
	const spans = 3 * maxSpans
	for range spans {
		_, span := tel.Tracer().Start(t.Context(), "step")
		span.End(nil)
	}
	if waiting := tel.sender.waiting.Load(); waiting > maxSpans {
		t.Errorf("%d spans wait", waiting)
	}
	dropped, gaveUp := testutil.ToFloat64(tel.figures.spans.WithLabelValues("dropped")),
		testutil.ToFloat64(tel.figures.spans.WithLabelValues("failed"))
	// on an overloaded machine a request may have been given up already
	if dropped > spans-maxSpans || dropped < spans-maxSpans-gaveUp {
		t.Errorf("%v spans were dropped and %v failed, want %d together", dropped, gaveUp, spans-maxSpans)
	}
	ending, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	tel.Close(ending) // must return, or the test hangs
	mu.Lock()
	defer mu.Unlock()
	if n := strings.Count(said.String(), "spans are dropped"); n != 1 {
		t.Errorf("the log was told %d times:\n%s", n, said.String())
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	b  *strings.Builder
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

// TestALyingCollectorIsCounted checks that any response of a collector is counted, truncated in the log, and causes no
// error elsewhere. Capacity for spans is released.
func TestALyingCollectorIsCounted(t *testing.T) {
	t.Parallel()
	partial, err := proto.Marshal(&coltrace.ExportTraceServiceResponse{
		PartialSuccess: &coltrace.ExportTracePartialSuccess{RejectedSpans: 1,
			ErrorMessage: strings.Repeat("no ", 5000)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]struct {
		status int
		body   string
	}{
		"nonsense": {200, "\xff\xff nonsense"}, "partial": {200, string(partial)},
		"refused": {401, strings.Repeat("x", 10_000)}, "endless": {200, strings.Repeat("x", 8<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-protobuf")
				w.WriteHeader(answer.status)
				_, _ = io.WriteString(w, answer.body)
			}))
			defer server.Close()
			var said strings.Builder
			var mu sync.Mutex
			tel := sendTo(t, server.URL, slog.New(slog.NewTextHandler(lockedWriter{&mu, &said}, nil)))
			for range 10 {
				_, span := tel.Tracer().Start(t.Context(), "step")
				span.End(nil)
				if err := tel.spans.ForceFlush(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if n := testutil.ToFloat64(tel.figures.spans.WithLabelValues("failed")); n != 10 {
				t.Errorf("%v spans failed", n)
			}
			if waiting := tel.sender.waiting.Load(); waiting != 0 {
				t.Errorf("%d spans wait", waiting)
			}
			tel.Close(t.Context())
			mu.Lock()
			defer mu.Unlock()
			if n := strings.Count(said.String(), "did not reach"); n != 1 || len(said.String()) > 1000 {
				t.Errorf("the log was told %d times, in %d bytes", n, said.Len())
			}
		})
	}
}

// TestOnlyWhatIsListedLeaves checks that unlisted attributes and error texts are not exported, whoever wrote them into
// a span.
func TestOnlyWhatIsListedLeaves(t *testing.T) {
	t.Parallel()
	kept := tracetest.NewInMemoryExporter()
	_, s := Into(kept).tracer.Start(t.Context(), "step")
	s.SetAttributes(attribute.String("email", "SECRET"), attribute.String(string(ConsultationID), "con_1"),
		attribute.String("url.full", "SECRET"))
	s.RecordError(errors.New("SECRET"))
	s.AddEvent("SECRET")
	s.SetStatus(codes.Error, "SECRET")
	s.End()
	spans := kept.GetSpans()
	if len(spans) != 1 || len(spans[0].Attributes) != 1 || spans[0].Attributes[0].Value.AsString() != "con_1" ||
		len(spans[0].Events) != 0 || spans[0].Status.Code != codes.Error || spans[0].Status.Description != "" {
		t.Errorf("%+v", spans)
	}
}

// TestWhereATraceEnds checks that a span joins the trace of its cause for a while, and later begins its own, linked to
// it. A caller's trace only becomes a link.
func TestWhereATraceEnds(t *testing.T) {
	t.Parallel()
	provider := trace.NewTracerProvider()
	tracer := &Tracer{provider: provider, tracer: provider.Tracer("")}
	const cause = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	under, _ := tracer.Start(t.Context(), "something else that is under way")
	for name, c := range map[string]struct {
		begin    func() (context.Context, Span)
		together bool
		links    int
	}{
		"soon": {func() (context.Context, Span) { return tracer.Resume(under, "", cause, Together) },
			true, 0},
		"late": {func() (context.Context, Span) { return tracer.Resume(under, "", cause, Together+1) },
			false, 1},
		"nothing carried": {func() (context.Context, Span) { return tracer.Resume(under, "", "", 0) }, false, 0},
		"nonsense":        {func() (context.Context, Span) { return tracer.Call(under, "", "00-x-y-z", 0) }, false, 0},
		"a request":       {func() (context.Context, Span) { return tracer.Serve(under, "GET", "", cause) }, false, 1},
	} {
		ctx, span := c.begin()
		s := span.span.(trace.ReadOnlySpan)
		if got := s.SpanContext().TraceID().String() == "0af7651916cd43dd8448eb211c80319c"; got != c.together {
			t.Errorf("%s: in the trace of the cause: %t", name, got)
		}
		if len(s.Links()) != c.links || s.SpanContext().TraceID() == read(Carry(under)).TraceID() {
			t.Errorf("%s: %d links, in trace %s", name, len(s.Links()), s.SpanContext().TraceID())
		}
		if again := read(Carry(ctx)); again.SpanID() != s.SpanContext().SpanID() || !again.IsSampled() {
			t.Errorf("%s: carried as %q", name, Carry(ctx))
		}
	}
}

func TestHeadersAndAddresses(t *testing.T) {
	t.Parallel()
	got, err := ParseHeaders("authorization=Bearer%20a%3Db, x-other = c=d ,")
	if err != nil || len(got) != 2 || got["authorization"] != "Bearer a=b" || got["x-other"] != "c=d" {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"SECRET", "=SECRET", "a=SECRET%zz", "a b=SECRET", "a=SECRET%0d%0ab"} {
		if _, err := ParseHeaders(bad); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, good := range []string{"http://127.0.0.1:4318", "https://collector.example/otlp"} {
		if err := CheckURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"127.0.0.1:4318", "grpc://host", "http://", "https://user:SECRET@host",
		"https://host?key=SECRET", "http://[SECRET"} {
		if err := CheckURL(bad); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestWhatACollectorThatIsAwayDoesNotTakeIsSeen uses a collector that is absent, and one that accepts connections and
// never responds. Every span and every export of metrics counts as failed, and each kind is logged once, not per batch.
// The counters exist, at 0, before anything is lost.
func TestWhatACollectorThatIsAwayDoesNotTakeIsSeen(t *testing.T) {
	for _, limit := range []string{
		"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_METRIC_EXPORT_TIMEOUT",
	} {
		t.Setenv(limit, "200") // ms; otherwise a request is retried for half a minute
	}
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "3600000") // exports are triggered below
	hangs, err := net.Listen("tcp", "127.0.0.1:0")     // the system accepts connections, but no response follows
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	for name, address := range map[string]string{"away": "127.0.0.1:1", "hangs": hangs.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			var mu sync.Mutex
			tel := sendTo(t, "http://"+address, slog.New(slog.NewTextHandler(lockedWriter{&mu, &said}, nil)))
			if err := tel.SendMetrics(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := testutil.CollectAndCount(tel.figures.spans) + testutil.CollectAndCount(tel.figures.exports); n != 3+
				4 {
				t.Errorf("%d figures before anything was sent", n)
			}
			const batches = 3
			metricsFailed := tel.figures.exports.WithLabelValues("metrics", failed)
			for i := range batches {
				_, span := tel.Tracer().Start(t.Context(), "step")
				span.End(nil)
				if err := tel.spans.ForceFlush(t.Context()); err != nil {
					t.Error(err)
				}
				_ = tel.meters.ForceFlush(t.Context()) // may give up just before the request does
				for until := time.Now().Add(time.Minute); testutil.ToFloat64(metricsFailed) != float64(i+1) &&
					time.Now().Before(until); {
					time.Sleep(time.Millisecond)
				}
			}
			for want, got := range map[string]prometheus.Counter{
				"spans":            tel.figures.spans.WithLabelValues(failed),
				"posts of traces":  tel.figures.exports.WithLabelValues("traces", failed),
				"posts of metrics": metricsFailed,
			} {
				if n := testutil.ToFloat64(got); n != batches {
					t.Errorf("%v %s failed, want %d", n, want, batches)
				}
			}
			if waiting := tel.sender.waiting.Load(); waiting != 0 {
				t.Errorf("%d spans wait", waiting)
			}
			mu.Lock()
			told := said.String()
			mu.Unlock()
			if n := strings.Count(told, "\n"); n != 2 || !strings.Contains(told, "spans did not reach") ||
				!strings.Contains(told, "metrics did not reach") {
				t.Errorf("the log was told %d times:\n%s", n, told)
			}
			tel.Close(t.Context())
		})
	}
}

// TestACollectorThatStaysAwayIsToldOfAgain checks that a longer outage is logged again, with the number of suppressed
// messages.
func TestACollectorThatStaysAwayIsToldOfAgain(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	c := complaint{log: slog.New(slog.NewTextHandler(&said, nil))}
	for range 3 {
		c.say("away")
	}
	c.last = c.last.Add(-complainEvery)
	c.say("away")
	if lines := strings.Split(strings.TrimSpace(said.String()), "\n"); len(lines) != 2 ||
		!strings.Contains(lines[1], "untold=2") {
		t.Errorf("%s", said.String())
	}
}

// TestAShareOfTheTracesIsRecordedWhole checks that each request is sampled on its own, whatever its caller says.
// Everything that follows from it, in any process, is recorded with it or not at all.
func TestAShareOfTheTracesIsRecordedWhole(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"parentbased_traceidratio", "traceidratio"} {
		sampler, err := ParseSampler(name, "0.25")
		if err != nil {
			t.Fatal(err)
		}
		provider := trace.NewTracerProvider(trace.WithSampler(sampler))
		tracer := &Tracer{provider: provider, tracer: provider.Tracer("")}
		for _, flags := range []string{"00", "01"} {
			const requests = 10_000
			const claimed = "0af7651916cd43dd8448eb211c80319c"
			recorded := 0
			for range requests {
				ctx, request := tracer.Serve(t.Context(), "GET", "", "00-"+claimed+"-b7ad6b7169203331-"+flags)
				_, step := tracer.Resume(t.Context(), "step", Carry(ctx), 0)
				if request.span.IsRecording() != step.span.IsRecording() {
					t.Fatal("a trace is recorded in part")
				}
				if request.span.SpanContext().TraceID().String() == claimed {
					t.Fatal("a caller chose the trace")
				}
				if request.span.IsRecording() {
					recorded++
				}
			}
			if recorded < requests/5 || recorded > requests*3/10 { // eleven standard deviations from a quarter
				t.Errorf("%s, claimed with %s: %d of %d are recorded", name, flags, recorded, requests)
			}
		}
	}
}

func TestSamplersAreThoseOfTheStandard(t *testing.T) {
	t.Parallel()
	for name, want := range map[[2]string]string{
		{}:                                  "ParentBased{root:AlwaysOnSampler",
		{"parentbased_always_on"}:           "ParentBased{root:AlwaysOnSampler",
		{"always_on", "nonsense"}:           "AlwaysOnSampler",
		{" Always_Off "}:                    "AlwaysOffSampler",
		{"parentbased_always_off"}:          "ParentBased{root:AlwaysOffSampler",
		{"traceidratio", "0.5"}:             "TraceIDRatioBased{0.5}",
		{"traceidratio", "0"}:               "TraceIDRatioBased{0}",
		{"parentbased_traceidratio"}:        "ParentBased{root:TraceIDRatioBased{1}",
		{"parentbased_traceidratio", "0.1"}: "ParentBased{root:TraceIDRatioBased{0.1}",
	} {
		s, err := ParseSampler(name[0], name[1])
		if err != nil || !strings.HasPrefix(s.Description(), want) {
			t.Errorf("%q: %v, %v", name, s, err)
		}
	}
	for _, bad := range [][2]string{{"jaeger_remote"}, {"parentbased_"}, {"traceidratio", "-0.1"},
		{"traceidratio", "1.1"}, {"traceidratio", "NaN"}, {"parentbased_traceidratio", "10%"}} {
		if s, err := ParseSampler(bad[0], bad[1]); err == nil {
			t.Errorf("%q: %v", bad, s)
		}
	}
}

// broken is a metric that cannot be read.
type broken struct{}

func (broken) Describe(out chan<- *prometheus.Desc) {
	out <- prometheus.NewDesc("broken", "Of a database that is away.", nil, nil)
}
func (b broken) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "Of a database that is away.", nil, nil),
		errors.New("away"))
}

// TestWhatCanBeReadIsSent checks that an unreadable metric does not keep others from being exported.
func TestWhatCanBeReadIsSent(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	r.MustRegister(broken{})
	if _, err := readable(r.Gather)(); err == nil {
		t.Error("nothing can be read, and that is no fault")
	}
	r.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "whole", Help: "Of the process."}))
	if families, err := readable(r.Gather)(); err != nil || len(families) != 1 || families[0].GetName() != "whole" {
		t.Errorf("%v, %v", families, err)
	}
}
