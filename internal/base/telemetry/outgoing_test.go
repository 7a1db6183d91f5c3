package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"partnerd/internal/base/telemetry"
	"partnerd/internal/base/telemetry/telemetrytest"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestARequestToAProviderIsAStep checks that a request to a provider is a child span with its method, the server and
// the status, and nothing else. The provider receives no trace context.
func TestARequestToAProviderIsAStep(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Values("traceparent"))+len(r.Header.Values("tracestate"))+len(r.Header.Values("baggage")) > 0 {
			t.Errorf("the provider is told of a trace: %v", r.Header)
		}
		if strings.Contains(r.URL.Path, "wrong") {
			http.Error(w, "SECRET", http.StatusPaymentRequired)
		}
	}))
	t.Cleanup(server.Close)
	host, port := telemetry.HostPort(strings.TrimPrefix(server.URL, "http://"))
	tracer, spans := telemetrytest.New(t)
	for _, within := range []bool{false, true} {
		ctx, parent := tracer.Start(t.Context(), "parent")
		asking, client := ctx, http.Client{Transport: tracer.Transport(nil)}
		if within {
			asking, client.Transport = t.Context(), tracer.TransportWithin(ctx, http.DefaultTransport)
		}
		for _, path := range []string{"/right/SECRET?key=SECRET", "/wrong/SECRET"} {
			r, err := http.NewRequestWithContext(asking, http.MethodPost, server.URL+path, strings.NewReader("SECRET"))
			if err != nil {
				t.Fatal(err)
			}
			r.SetBasicAuth("SECRET", "SECRET")
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
		parent.End(nil)
	}
	posts := spans.Named("POST")
	if len(posts) != 4 {
		t.Fatalf("%d steps", len(posts))
	}
	for i, s := range posts {
		want := map[string]string{"http.request.method": "POST", "server.address": host,
			"server.port": strconv.Itoa(port), "http.response.status_code": "200"}
		if i%2 == 1 {
			want["http.response.status_code"], want["error.type"] = "402", "402"
		}
		if !s.Client || !s.Child || s.Failed != (i%2 == 1) || len(s.Attributes) != len(want) {
			t.Errorf("%+v", s)
		}
		for key, value := range want {
			if s.Attributes[key] != value {
				t.Errorf("%s is %q, want %q", key, s.Attributes[key], value)
			}
		}
	}
	if strings.Contains(spans.Told(), "SECRET") {
		t.Error("a secret leaves")
	}
}

// TestAFailureOnTheWayToAProviderIsAWord checks that a network failure is reported as a class, whatever its text.
// Without a trace there is no span.
func TestAFailureOnTheWayToAProviderIsAWord(t *testing.T) {
	t.Parallel()
	for want, failure := range map[string]error{
		"canceled": context.Canceled, "timeout": os.ErrDeadlineExceeded, "dns": &net.OpError{Op: "dial",
			Err: &net.DNSError{Name: "SECRET"}},
		"connect": &net.OpError{Op: "dial", Err: errors.New("SECRET")}, "_OTHER": errors.New("SECRET"),
	} {
		tracer, spans := telemetrytest.New(t)
		through := tracer.Transport(roundTripper(func(*http.Request) (*http.Response, error) { return nil, failure }))
		ctx, parent := tracer.Start(t.Context(), "parent")
		for _, ctx := range []context.Context{ctx, t.Context()} {
			if _, err := through.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet,
				"https://provider.example/SECRET", nil)); !errors.Is(err, failure) {
				t.Errorf("the caller is told %v", err)
			}
		}
		parent.End(nil)
		gets := spans.Named("GET")
		if len(gets) != 1 || !gets[0].Failed || gets[0].Attributes["error.type"] != want ||
			gets[0].Attributes["server.address"] != "provider.example" || strings.Contains(spans.Told(), "SECRET") {
			t.Errorf("%s: %s", want, spans.Told())
		}
	}
}

// refusal is a database error with its code as value.
type refusal string

func (refusal) Error() string      { return "SECRET" }
func (r refusal) SQLState() string { return string(r) }

// TestAnErrorIsNamedByAWord checks that an error has a class, however deeply it is wrapped, and that the class contains
// nothing of its text.
func TestAnErrorIsNamedByAWord(t *testing.T) {
	t.Parallel()
	refused := telemetry.WithClass(errors.New("550 SECRET"), "550")
	for want, err := range map[string]error{
		"550": fmt.Errorf("send: %w", refused), "sql_53300": fmt.Errorf("purge: %w", refusal("53300")),
		"canceled": fmt.Errorf("run: %w", context.Canceled), "_OTHER": errors.New("SECRET"),
	} {
		if got := telemetry.Class(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
	if refused.Error() != "550 SECRET" {
		t.Errorf("the text became %q", refused)
	}
}
