package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Together is how long after its cause a step still belongs to the trace of the cause. Later it has one of its own,
// with a link.
const Together = 5 * time.Minute

// HeaderParent is the header of W3C Trace Context that names the span that causes a request.
const HeaderParent = "traceparent"

// Tracer begins spans. Nil is one that does nothing.
type Tracer struct {
	provider trace.TracerProvider
	tracer   trace.Tracer
}

// Provider is for libraries that trace by themselves. The tracer must not be nil.
func (t *Tracer) Provider() trace.TracerProvider { return t.provider }

// Span is a step that is under way. The zero value is none, whose methods do nothing.
type Span struct{ span trace.Span }

// Start begins a step within that of ctx, or a trace when ctx has none.
func (t *Tracer) Start(ctx context.Context, name string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, span := t.tracer.Start(ctx, name)
	return ctx, Span{span}
}

// Serve begins the trace of a request. claimed is its header traceparent, empty for none, which becomes a link.
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

// Resume begins a step that follows from what [Carry] kept age ago: in the trace of that up to [Together], else in one
// of its own that is linked to it. Without anything carried it begins a trace.
func (t *Tracer) Resume(ctx context.Context, name, carried string, age time.Duration) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	return t.resume(ctx, name, carried, age)
}

// Call is [Tracer.Resume] for a step that asks somebody outside.
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

// Carry is the span of ctx as it is kept in a row and sent in [HeaderParent]; empty when there is none.
func Carry(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[HeaderParent]
}

// read is the span that a text of [Carry], or of somebody else, names. What else one may say of a trace (tracestate) is
// not taken.
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

// Set tells a text of a span.
func (s Span) Set(k Key, value string) {
	if s.span != nil && value != "" {
		s.span.SetAttributes(attribute.String(string(k), value))
	}
}

// SetInt tells a number of a span.
func (s Span) SetInt(k Key, value int64) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int64(string(k), value))
	}
}

// Link says that a span belongs to what [Carry] kept, unless it is of the same trace.
func (s Span) Link(carried string) {
	if s.span == nil {
		return
	}
	if cause := read(carried); cause.IsValid() && cause.TraceID() != s.span.SpanContext().TraceID() {
		s.span.AddLink(trace.Link{SpanContext: cause})
	}
}

// Fail says that a step did not succeed, by a word of ours for why.
func (s Span) Fail(class string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(string(ErrorType), class))
		s.span.SetStatus(codes.Error, "")
	}
}

// End ends a step. With an error it has failed; what the error says stays here.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}
