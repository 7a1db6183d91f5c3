package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"partnerd/internal/base/clock"
)

// Config says where to export to. Everything else (timeouts, compression, certificates, the interval of metrics) is
// read by the library from the standard variables OTEL_….
type Config struct {
	Traces, Metrics               string // URL to which each is posted; empty for none
	TracesHeaders, MetricsHeaders map[string]string
	Sampler                       trace.Sampler // which traces are recorded; see [ParseSampler]

	// of the process, unless overridden by OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME
	Resource   map[string]string
	Registry   *prometheus.Registry  // metrics to export
	Registerer prometheus.Registerer // receives this package's own metrics
	Logger     *slog.Logger
}

// maxSpans is the maximum number of spans that wait or are being sent.
const maxSpans = 4096

// Telemetry exports traces and metrics. A nil Telemetry does nothing.
type Telemetry struct {
	cfg     Config
	figures figures
	tracer  *Tracer
	spans   *trace.TracerProvider
	sender  *spanSender

	mu     sync.Mutex
	meters *metric.MeterProvider
}

// figures count whether exports arrive.
type figures struct{ spans, exports *prometheus.CounterVec }

func newFigures(r prometheus.Registerer) figures {
	f := figures{
		spans: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "partnerd_telemetry_spans_total",
			Help: "Spans of OpenTelemetry: sent, dropped because too many waited, or failed because the collector " +
				"did not take them."}, []string{"result"}),
		exports: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "partnerd_telemetry_exports_total",
			Help: "Posts to the collector of OpenTelemetry, by signal and result."}, []string{"signal", "result"}),
	}
	r.MustRegister(f.spans, f.exports)
	return f
}

// begin starts the counters at 0: an increase is invisible in a series that begins with its first failure.
func (f figures) begin(c *Config) {
	if c.Traces != "" {
		for _, result := range []string{sent, dropped, failed} {
			f.spans.WithLabelValues(result)
		}
		f.exports.WithLabelValues("traces", sent)
		f.exports.WithLabelValues("traces", failed)
	}
	if c.Metrics != "" {
		f.exports.WithLabelValues("metrics", sent)
		f.exports.WithLabelValues("metrics", failed)
	}
}

// Outcomes of an export.
const (
	sent    = "sent"
	dropped = "dropped" // too many were waiting
	failed  = "failed"  // the collector did not accept it
)

// New prepares the export, or returns nil if there is nothing to export. It connects to nothing before the first span,
// or [Telemetry.SendMetrics].
func New(ctx context.Context, c Config) (*Telemetry, error) {
	t := &Telemetry{cfg: c, figures: newFigures(c.Registerer)}
	if c.Traces == "" && c.Metrics == "" {
		return nil, nil
	}
	t.figures.begin(&c)
	if c.Traces == "" {
		return t, nil
	}
	exporter, err := otlptrace.New(ctx, c.traces())
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	t.sender = &spanSender{SpanExporter: exporter, figures: t.figures, complaint: complaint{log: c.Logger}}
	// The gate bounds the waiting spans, so the library's own queue, which drops silently, is never full.
	batches := trace.NewBatchSpanProcessor(t.sender, trace.WithMaxQueueSize(maxSpans))
	t.spans = trace.NewTracerProvider(trace.WithSpanProcessor(&gate{SpanProcessor: batches, sender: t.sender,
		complaint: complaint{log: c.Logger}}), trace.WithSampler(c.Sampler), trace.WithResource(c.resource(ctx)))
	t.tracer = &Tracer{provider: t.spans, tracer: t.spans.Tracer("partnerd")}
	return t, nil
}

// Into returns a tracer whose spans are passed to exporter as they end, in their exported form; for tests.
func Into(exporter trace.SpanExporter) *Tracer {
	sender := &spanSender{SpanExporter: exporter, figures: newFigures(prometheus.NewRegistry()),
		complaint: complaint{log: slog.New(slog.DiscardHandler)}}
	provider := trace.NewTracerProvider(trace.WithSyncer(sender))
	return &Tracer{provider: provider, tracer: provider.Tracer("partnerd")}
}

// Tracer returns the tracer, or nil if no traces are exported.
func (t *Telemetry) Tracer() *Tracer {
	if t == nil {
		return nil
	}
	return t.tracer
}

// SendMetrics starts exporting metrics, every minute unless OTEL_METRIC_EXPORT_INTERVAL says otherwise.
func (t *Telemetry) SendMetrics(ctx context.Context) error {
	if t == nil || t.cfg.Metrics == "" {
		return nil
	}
	exporter, err := t.cfg.metrics(ctx)
	if err != nil {
		return fmt.Errorf("send metrics: %w", err)
	}
	sender := &metricSender{Exporter: exporter, figures: t.figures, complaint: complaint{log: t.cfg.Logger}}
	reader := metric.NewPeriodicReader(sender,
		metric.WithProducer(bridge.NewMetricProducer(
			bridge.WithGatherer(prometheus.GathererFunc(readable(t.cfg.Registry.Gather))),
		)))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.meters = metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(t.cfg.resource(ctx)))
	return nil
}

// readable ignores metrics that cannot be read: while the database is unavailable its metrics are missing, and the
// process's own are exported.
func readable[F any](gather func() ([]F, error)) func() ([]F, error) {
	return func() ([]F, error) {
		families, err := gather()
		if len(families) > 0 {
			return families, nil
		}
		return nil, err
	}
}

// Close exports what is left, for as long as ctx lasts, and stops.
func (t *Telemetry) Close(ctx context.Context) {
	if t == nil {
		return
	}
	t.mu.Lock()
	meters := t.meters
	t.mu.Unlock()
	var ends sync.WaitGroup
	if meters != nil {
		ends.Go(func() { t.told("metrics", meters.Shutdown(ctx)) })
	}
	if t.spans != nil {
		ends.Go(func() {
			t.told("spans", t.spans.Shutdown(ctx))
			_ = t.sender.SpanExporter.Shutdown(ctx) // cuts off a request still in progress
		})
	}
	ends.Wait()
}

func (t *Telemetry) told(what string, err error) {
	if err != nil {
		t.cfg.Logger.Warn("the last "+what+" did not reach the collector of OpenTelemetry", "error", brief(err))
	}
}

func (c *Config) traces() otlptrace.Client {
	return otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(c.Traces), otlptracehttp.WithHeaders(c.TracesHeaders))
}

func (c *Config) metrics(ctx context.Context) (metric.Exporter, error) {
	return otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(c.Metrics),
		otlpmetrichttp.WithHeaders(c.MetricsHeaders))
}

// resource describes the exporting process. It names no person, command line or machine.
func (c *Config) resource(ctx context.Context) *resource.Resource {
	attributes := make([]attribute.KeyValue, 0, len(c.Resource))
	for k, v := range c.Resource {
		attributes = append(attributes, attribute.String(k, v))
	}
	r, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attributes...),
		resource.WithFromEnv())
	if err != nil {
		c.Logger.Warn("OTEL_RESOURCE_ATTRIBUTES cannot be read whole", "error", brief(err))
	}
	return r
}

// Check posts an empty export to each endpoint, to find out whether it is accepted.
func (c *Config) Check(ctx context.Context) error {
	var faults []error
	if c.Traces != "" {
		client := c.traces()
		err := client.Start(ctx)
		if err == nil {
			err = client.UploadTraces(ctx, nil)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("traces: %s", brief(err)))
		}
	}
	if c.Metrics != "" {
		exporter, err := c.metrics(ctx)
		if err == nil {
			err = exporter.Export(ctx, &metricdata.ResourceMetrics{})
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("metrics: %s", brief(err)))
		}
	}
	return errors.Join(faults...)
}

// CheckURL returns what is wrong with an endpoint. The error quotes nothing of the URL.
func CheckURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("is not like https://host:4318")
	}
	if u.User != nil {
		return errors.New("credentials are sent by OTEL_EXPORTER_OTLP_HEADERS")
	}
	return nil
}

// ParseSampler parses OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG as OpenTelemetry defines them, but rejects
// unknown values. Parent-based samplers follow the decision made for the cause of a span ([Carry]); external callers
// are not a cause.
func ParseSampler(name, arg string) (trace.Sampler, error) {
	root, follows := strings.CutPrefix(cmp.Or(strings.ToLower(strings.TrimSpace(name)), "parentbased_always_on"),
		"parentbased_")
	var s trace.Sampler
	switch root {
	case "always_on":
		s = trace.AlwaysSample()
	case "always_off":
		s = trace.NeverSample()
	case "traceidratio":
		share, err := strconv.ParseFloat(cmp.Or(strings.TrimSpace(arg), "1"), 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return nil, fmt.Errorf("%q is not a share from 0 to 1", arg)
		}
		s = trace.TraceIDRatioBased(share)
	default:
		return nil, fmt.Errorf("%q is none of always_on, always_off, traceidratio, and these after parentbased_", name)
	}
	if follows {
		s = trace.ParentBased(s)
	}
	return s, nil
}

// ParseHeaders parses a list such as "name=value,other=value", with values escaped as in a URL. The error quotes
// nothing of it.
func ParseHeaders(list string) (map[string]string, error) {
	headers := map[string]string{}
	for one := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(one) == "" {
			continue
		}
		name, escaped, ok := strings.Cut(one, "=")
		value, err := url.PathUnescape(strings.TrimSpace(escaped))
		name = strings.TrimSpace(name)
		if !ok || err != nil || name == "" || strings.ContainsFunc(name, notOfToken) ||
			strings.ContainsAny(value, "\r\n\x00") {
			return nil, errors.New("is not like name=value,other=value")
		}
		headers[name] = value
	}
	return headers, nil
}

func notOfToken(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
		!strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// brief returns the error's text, limited to a length that suits a log line: a collector chooses the text.
func brief(err error) string {
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

// complaint logs a message at most once a minute.
type complaint struct {
	log *slog.Logger

	mu     sync.Mutex
	last   time.Time
	silent int
}

const complainEvery = time.Minute

func (c *complaint) say(message string, attributes ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := clock.System{}.Now()
	if !c.last.IsZero() && now.Sub(c.last) < complainEvery {
		c.silent++
		return
	}
	c.log.Warn(message, append(attributes, "untold", c.silent)...)
	c.last, c.silent = now, 0
}
