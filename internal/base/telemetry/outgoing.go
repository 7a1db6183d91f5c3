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

// Ask begins a step that asks a server of the deployment's own providers within that of ctx; none when ctx has none.
// port is 0 when it is the usual one. The names and ports of such servers leave; those of partners and visitors never
// do.
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

// Transport makes each request through next, nil for the library's own, a step within that of its context, named by its
// method. It tells the server and the status, and nothing of paths, queries, headers and bodies; what is asked is told
// nothing of the trace. It is next itself when t is nil.
func (t *Tracer) Transport(next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	if next == nil {
		next = http.DefaultTransport
	}
	return transport{t, next, nil}
}

// TransportWithin is [Tracer.Transport] for a library that passes no context on: every request is a step within that of
// ctx.
func (t *Tracer) TransportWithin(ctx context.Context, next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	return transport{t, next, trace.SpanFromContext(ctx)}
}

type transport struct {
	tracer *Tracer
	next   http.RoundTripper
	within trace.Span // nil for that of the request's context
}

// RoundTrip implements [http.RoundTripper]. The step ends with the headers of the answer.
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

// Class names an error by a word that holds nothing of its text: the class that [WithClass] gave it, "canceled",
// "timeout", "dns", "tls", "connect", "sql_" with the code of the database, or "_OTHER", which is OpenTelemetry's for
// all others.
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

// WithClass gives an error the word that [Class] returns for it, such as the code that a provider responded with.
func WithClass(err error, class string) error { return classedError{err, class} }

type classedError struct {
	error
	class string
}

// ErrorClass returns the word.
func (e classedError) ErrorClass() string { return e.class }

// Unwrap returns the error without the word.
func (e classedError) Unwrap() error { return e.error }

// HostPort splits the address of a server into what [Tracer.Ask] takes; port is 0 when it has none.
func HostPort(address string) (host string, port int) {
	u := url.URL{Host: address}
	port, _ = strconv.Atoi(u.Port())
	return u.Hostname(), port
}
