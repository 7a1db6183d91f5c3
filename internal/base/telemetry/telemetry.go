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

// Config says where to send. What it does not have (timeouts, compression, certificates, how often metrics are sent)
// the library reads from the standard variables OTEL_….
type Config struct {
	Traces, Metrics               string // where each is posted to, a URL; empty for not at all
	TracesHeaders, MetricsHeaders map[string]string
	Sampler                       trace.Sampler // which traces are recorded; see [ParseSampler]

	// of the process, unless OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME say otherwise
	Resource   map[string]string
	Registry   *prometheus.Registry  // whose metrics are sent
	Registerer prometheus.Registerer // gets the figures of this package
	Logger     *slog.Logger
}

// maxSpans is how many spans wait, or are being sent, at one time.
const maxSpans = 4096

// Telemetry sends what is measured. Nil is one that does not.
type Telemetry struct {
	cfg     Config
	figures figures
	tracer  *Tracer
	spans   *trace.TracerProvider
	sender  *spanSender

	mu     sync.Mutex
	meters *metric.MeterProvider
}

// figures tell whether what is sent arrives.
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

// begin lets the figures of what is sent begin at 0: of a series that begins at its first fault, nobody sees that it
// rose.
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

// What becomes of what is to be sent.
const (
	sent    = "sent"
	dropped = "dropped" // too many waited
	failed  = "failed"  // the collector did not take it
)

// New prepares to send; nil when nothing is to be sent. Nothing is connected to before there is a span, or
// [Telemetry.SendMetrics].
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
	// What waits is bounded by the gate, so the library's own queue, which drops without a word, is never full.
	batches := trace.NewBatchSpanProcessor(t.sender, trace.WithMaxQueueSize(maxSpans))
	t.spans = trace.NewTracerProvider(trace.WithSpanProcessor(&gate{SpanProcessor: batches, sender: t.sender,
		complaint: complaint{log: c.Logger}}), trace.WithSampler(c.Sampler), trace.WithResource(c.resource(ctx)))
	t.tracer = &Tracer{provider: t.spans, tracer: t.spans.Tracer("partnerd")}
	return t, nil
}

// Into is a tracer whose spans go to exporter as they end, as they would leave; for tests.
func Into(exporter trace.SpanExporter) *Tracer {
	sender := &spanSender{SpanExporter: exporter, figures: newFigures(prometheus.NewRegistry()),
		complaint: complaint{log: slog.New(slog.DiscardHandler)}}
	provider := trace.NewTracerProvider(trace.WithSyncer(sender))
	return &Tracer{provider: provider, tracer: provider.Tracer("partnerd")}
}

// Tracer begins spans; nil when no traces are sent.
func (t *Telemetry) Tracer() *Tracer {
	if t == nil {
		return nil
	}
	return t.tracer
}

// SendMetrics begins to send metrics, every minute unless OTEL_METRIC_EXPORT_INTERVAL says otherwise.
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

// readable leaves out what cannot be read: while the database is away its figures are missing, and the process's own
// are sent.
func readable[F any](gather func() ([]F, error)) func() ([]F, error) {
	return func() ([]F, error) {
		families, err := gather()
		if len(families) > 0 {
			return families, nil
		}
		return nil, err
	}
}

// Close sends what is left, as long as ctx lasts, and ends.
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
			_ = t.sender.SpanExporter.Shutdown(ctx) // cuts off a post that is still under way
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

// resource says which process sends. It names no person, command line or machine.
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

// Check posts nothing to each address, as a question whether it takes something.
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

// CheckURL says what is wrong with an address to send to; it quotes nothing of it.
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

// ParseSampler reads OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG as OpenTelemetry defines them, but refuses what it
// does not know. Those that are parentbased follow what was decided about the cause of a step ([Carry]); callers from
// outside are no cause.
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

// ParseHeaders reads a list like "name=value,other=value", whose values are escaped as in a URL. The error quotes
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

// brief is what an error says, as far as a line of a log may be long: a collector chooses the text.
func brief(err error) string {
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

// complaint is what the log is told at most once a minute.
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
