package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Together is how long after its cause a span still belongs to the trace of its cause. Later it begins its own trace,
// with a link.
const Together = 5 * time.Minute

// HeaderParent is the W3C Trace Context header that names the span that causes a request.
const HeaderParent = "traceparent"

// Tracer begins spans. A nil Tracer does nothing.
type Tracer struct {
	provider trace.TracerProvider
	tracer   trace.Tracer
}

// Provider returns the provider for libraries with their own tracing. The tracer must not be nil.
func (t *Tracer) Provider() trace.TracerProvider { return t.provider }

// Span is an open span. The zero value is no span, and its methods do nothing.
type Span struct{ span trace.Span }

// Start begins a span within that of ctx, or a new trace if ctx has none.
func (t *Tracer) Start(ctx context.Context, name string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, span := t.tracer.Start(ctx, name)
	return ctx, Span{span}
}

// Serve begins the trace of a request. claimed is its traceparent header, empty for none, which becomes a link.
func (t *Tracer) Serve(ctx context.Context, method, route, claimed string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	name := method
	if route != "" {
		name += " " + route
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer),
		linked(claimed), trace.WithAttributes(attribute.String(string(Method), method),
			attribute.String(string(Route), route)))
	return ctx, Span{span}
}

// Resume begins a span that follows from what [Carry] stored age ago. Up to [Together] it joins that trace; later it
// begins its own with a link. If carried is empty it begins a trace.
func (t *Tracer) Resume(ctx context.Context, name, carried string, age time.Duration) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	return t.resume(ctx, name, carried, age)
}

// Call is [Tracer.Resume] for a span that calls an external server.
func (t *Tracer) Call(ctx context.Context, name, carried string, age time.Duration) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	return t.resume(ctx, name, carried, age, trace.WithSpanKind(trace.SpanKindClient))
}

func (t *Tracer) resume(ctx context.Context, name, carried string, age time.Duration,
	options ...trace.SpanStartOption,
) (context.Context, Span) {
	if cause := read(carried); cause.IsValid() && age <= Together {
		ctx = trace.ContextWithRemoteSpanContext(ctx, cause)
	} else {
		options = append(options, trace.WithNewRoot(), linked(carried))
	}
	ctx, span := t.tracer.Start(ctx, name, options...)
	return ctx, Span{span}
}

// Carry returns the span of ctx in the form stored in a row and sent in [HeaderParent], or "" if there is none.
func Carry(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[HeaderParent]
}

// read returns the span named by a text of [Carry] or of a caller. It ignores other trace data (tracestate).
func read(carried string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{HeaderParent: carried})
	return trace.SpanContextFromContext(ctx)
}

func linked(carried string) trace.SpanStartOption {
	if cause := read(carried); cause.IsValid() {
		return trace.WithLinks(trace.Link{SpanContext: cause})
	}
	return trace.WithLinks()
}

// Set sets a text attribute.
func (s Span) Set(k Key, value string) {
	if s.span != nil && value != "" {
		s.span.SetAttributes(attribute.String(string(k), value))
	}
}

// SetInt sets a number attribute.
func (s Span) SetInt(k Key, value int64) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int64(string(k), value))
	}
}

// Link links the span to what [Carry] stored, unless that is of the same trace.
func (s Span) Link(carried string) {
	if s.span == nil {
		return
	}
	if cause := read(carried); cause.IsValid() && cause.TraceID() != s.span.SpanContext().TraceID() {
		s.span.AddLink(trace.Link{SpanContext: cause})
	}
}

// Fail marks the span as failed, with one of our own classes.
func (s Span) Fail(class string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(string(ErrorType), class))
		s.span.SetStatus(codes.Error, "")
	}
}

// End ends the span. If err is not nil the span has failed; the error's text is not exported.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}
