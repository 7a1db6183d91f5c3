package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// Logger returns a logger that adds the trace ID and span ID to records written within a span. It returns log itself if
// t is nil.
func (t *Tracer) Logger(log *slog.Logger) *slog.Logger {
	if t == nil {
		return log
	}
	return slog.New(naming{log.Handler()})
}

type naming struct{ slog.Handler }

// Handle implements slog.Handler.
func (h naming) Handle(ctx context.Context, r slog.Record) error {
	if s := trace.SpanContextFromContext(ctx); s.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", s.TraceID().String()), slog.String("span_id", s.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h naming) WithAttrs(attrs []slog.Attr) slog.Handler { return naming{h.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (h naming) WithGroup(name string) slog.Handler { return naming{h.Handler.WithGroup(name)} }
