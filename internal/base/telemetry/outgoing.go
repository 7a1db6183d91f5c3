package telemetry

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/trace"
)

// Ask begins a span for a request to one of the deployment's own providers, within the span of ctx. Without a span in
// ctx it begins none. port is 0 for the default port. Names and ports of such servers are exported; those of partners
// and visitors never are.
func (t *Tracer) Ask(ctx context.Context, name, host string, port int) (context.Context, Span) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, Span{}
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	s := Span{span}
	s.Set(ServerAddress, host)
	if port != 0 {
		s.SetInt(ServerPort, int64(port))
	}
	return ctx, s
}

// Transport wraps next (nil for the default transport). Each request becomes a span, named by its method, within the
// span of its context. The span contains the server and the status, but nothing of paths, queries, headers or bodies.
// The server receives no trace context. Transport returns next itself if t is nil.
func (t *Tracer) Transport(next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	if next == nil {
		next = http.DefaultTransport
	}
	return transport{t, next, nil}
}

// TransportWithin is [Tracer.Transport] for a library that does not pass on a context: every request is a span within
// that of ctx.
func (t *Tracer) TransportWithin(ctx context.Context, next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	return transport{t, next, trace.SpanFromContext(ctx)}
}

type transport struct {
	tracer *Tracer
	next   http.RoundTripper
	within trace.Span // nil for the span of the request's context
}

// RoundTrip implements [http.RoundTripper]. The span ends with the headers of the response.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if t.within != nil {
		ctx = trace.ContextWithSpan(ctx, t.within)
	}
	port, _ := strconv.Atoi(r.URL.Port())
	_, span := t.tracer.Ask(ctx, r.Method, r.URL.Hostname(), port)
	span.Set(Method, r.Method)
	answer, err := t.next.RoundTrip(r)
	if err != nil {
		span.Fail(Class(err))
	} else {
		span.SetInt(Status, int64(answer.StatusCode))
		if answer.StatusCode >= http.StatusBadRequest {
			span.Fail(strconv.Itoa(answer.StatusCode))
		}
	}
	span.End(nil)
	return answer, err
}

// Class returns a word for an error that contains nothing of its text: the class that [WithClass] gave it, "canceled",
// "timeout", "dns", "tls", "connect", or "sql_" with the database's code. All other errors are "_OTHER", as
// OpenTelemetry defines it.
func Class(err error) string {
	var classed interface{ ErrorClass() string }
	var database interface{ SQLState() string }
	var timeout net.Error
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var operation *net.OpError
	switch {
	case errors.As(err, &classed):
		return classed.ErrorClass()
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.As(err, &dns):
		return "dns"
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert):
		return "tls"
	case errors.As(err, &operation) && operation.Op == "dial":
		return "connect"
	case errors.As(err, &database):
		return "sql_" + database.SQLState()
	}
	return "_OTHER"
}

// WithClass gives an error the class that [Class] returns for it, such as the code that a provider responded with.
func WithClass(err error, class string) error { return classedError{err, class} }

type classedError struct {
	error
	class string
}

// ErrorClass returns the class.
func (e classedError) ErrorClass() string { return e.class }

// Unwrap returns the error without the class.
func (e classedError) Unwrap() error { return e.error }

// HostPort splits a server's address into the arguments of [Tracer.Ask]; port is 0 if the address has none.
func HostPort(address string) (host string, port int) {
	u := url.URL{Host: address}
	port, _ = strconv.Atoi(u.Port())
	return u.Hostname(), port
}
