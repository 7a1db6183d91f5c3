// Package telemetrytest keeps the spans that a test makes, as they would leave the process.
package telemetrytest

import (
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"partnerd/internal/base/telemetry"
)

// Spans are what a tracer has recorded.
type Spans struct{ kept *tracetest.InMemoryExporter }

// Span is one that has ended.
type Span struct {
	Name       string
	Client     bool // asks somebody outside
	Failed     bool
	Child      bool              // of another span
	Attributes map[string]string // that leave
}

// New makes a tracer that records everything.
func New(testing.TB) (*telemetry.Tracer, *Spans) {
	kept := tracetest.NewInMemoryExporter()
	return telemetry.Into(kept), &Spans{kept}
}

// Named lists the spans of a name.
func (s *Spans) Named(name string) (found []Span) {
	for _, one := range s.kept.GetSpans() {
		if one.Name != name {
			continue
		}
		attributes := map[string]string{}
		for _, a := range one.Attributes {
			attributes[string(a.Key)] = a.Value.String()
		}
		found = append(found, Span{one.Name, one.SpanKind == trace.SpanKindClient, one.Status.Code == codes.Error,
			one.Parent.IsValid(), attributes})
	}
	return found
}

// Told is all that leaves of all spans but identifiers and instants, for a test to look for what must not.
func (s *Spans) Told() string {
	var told strings.Builder
	for _, one := range s.kept.GetSpans() {
		fmt.Fprintln(&told, one.Name, one.Attributes, one.Events, one.Status)
	}
	return told.String()
}
