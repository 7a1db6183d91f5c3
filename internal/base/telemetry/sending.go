package telemetry

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
)

// gate lets at most [maxSpans] ended spans wait, and counts those it drops. It never blocks.
type gate struct {
	trace.SpanProcessor
	sender    *spanSender
	complaint complaint
}

// OnEnd implements trace.SpanProcessor.
func (g *gate) OnEnd(s trace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if g.sender.waiting.Add(1) > maxSpans {
		g.sender.waiting.Add(-1)
		g.sender.figures.spans.WithLabelValues(dropped).Inc()
		g.complaint.say("spans are dropped: the collector of OpenTelemetry takes them too slowly, or not at all",
			"waiting", maxSpans)
		return
	}
	g.SpanProcessor.OnEnd(s)
}

// spanSender exports batches of spans without the parts that must not be exported.
type spanSender struct {
	trace.SpanExporter
	figures   figures
	complaint complaint
	waiting   atomic.Int64
}

// ExportSpans implements trace.SpanExporter. It counts and logs failures itself and returns nil, because the caller
// would log each one.
func (s *spanSender) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	defer s.waiting.Add(-int64(len(spans)))
	fit := make([]trace.ReadOnlySpan, len(spans))
	for i, one := range spans {
		fit[i] = cleaned{one}
	}
	result := sent
	if err := s.SpanExporter.ExportSpans(ctx, fit); err != nil {
		result = failed
		s.complaint.say("spans did not reach the collector of OpenTelemetry", "spans", len(spans), "error", brief(err))
	}
	s.figures.exports.WithLabelValues("traces", result).Inc()
	s.figures.spans.WithLabelValues(result).Add(float64(len(spans)))
	return nil
}

// cleaned is a span as it is exported: with the listed attributes only, and without error texts, which may quote what
// people wrote.
type cleaned struct{ trace.ReadOnlySpan }

// Attributes implements trace.ReadOnlySpan.
func (c cleaned) Attributes() []attribute.KeyValue { return listed(c.ReadOnlySpan.Attributes()) }

// Events implements trace.ReadOnlySpan. It returns none, because libraries write errors into events.
func (c cleaned) Events() []trace.Event { return nil }

// Status implements trace.ReadOnlySpan.
func (c cleaned) Status() trace.Status { return trace.Status{Code: c.ReadOnlySpan.Status().Code} }

func listed(all []attribute.KeyValue) []attribute.KeyValue {
	kept := make([]attribute.KeyValue, 0, len(all))
	for _, a := range all {
		if leaves(a.Key) {
			kept = append(kept, a)
		}
	}
	return kept
}

// metricSender is the equivalent for metrics. They are exported unchanged, because they identify no one.
type metricSender struct {
	metric.Exporter
	figures   figures
	complaint complaint
}

// Export implements metric.Exporter.
func (s *metricSender) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	result := sent
	if err := s.Exporter.Export(ctx, m); err != nil {
		result = failed
		s.complaint.say("metrics did not reach the collector of OpenTelemetry", "error", brief(err))
	}
	s.figures.exports.WithLabelValues("metrics", result).Inc()
	return nil
}
