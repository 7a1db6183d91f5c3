// Package telemetrytest records the spans of a test, in their exported form.
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

// Spans are the spans recorded by a tracer.
type Spans struct{ kept *tracetest.InMemoryExporter }

// Span is a span that has ended.
type Span struct {
	Name       string
	Client     bool // calls an external server
	Failed     bool
	Child      bool              // has a parent span
	Attributes map[string]string // as exported
}

// New returns a tracer that records everything.
func New(testing.TB) (*telemetry.Tracer, *Spans) {
	kept := tracetest.NewInMemoryExporter()
	return telemetry.Into(kept), &Spans{kept}
}

// Named returns the spans with a name.
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

// Told returns everything exported of all spans except IDs and times, so that a test can search it for what must not be
// there.
func (s *Spans) Told() string {
	var told strings.Builder
	for _, one := range s.kept.GetSpans() {
		fmt.Fprintln(&told, one.Name, one.Attributes, one.Events, one.Status)
	}
	return told.String()
}
