package e2e

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector receives OTLP over HTTP as a collector does.
type collector struct {
	url string

	mu      sync.Mutex
	spans   map[string]span // by ID
	raw     bytes.Buffer    // everything received
	headers http.Header
}

type span struct {
	*tpb.Span
	resource map[string]string
}

func (s span) trace() string  { return hex.EncodeToString(s.TraceId) }
func (s span) id() string     { return hex.EncodeToString(s.SpanId) }
func (s span) parent() string { return hex.EncodeToString(s.ParentSpanId) }

func (s span) get(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			if text := a.Value.GetStringValue(); text != "" {
				return text
			}
			return fmt.Sprint(a.Value.GetIntValue())
		}
	}
	return ""
}

func (s span) linksTo(trace string) bool {
	return slices.ContainsFunc(s.Links, func(l *tpb.Span_Link) bool { return hex.EncodeToString(l.TraceId) == trace })
}

func newCollector(t testing.TB) *collector {
	c := &collector{spans: map[string]span{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			err = c.take(r, raw)
		}
		if err != nil {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *collector) take(r *http.Request, raw []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(raw)
	c.headers = r.Header
	switch r.URL.Path {
	case "/v1/traces":
		var m tracepb.ExportTraceServiceRequest
		if err := proto.Unmarshal(raw, &m); err != nil {
			return err
		}
		for _, rs := range m.ResourceSpans {
			resource := map[string]string{}
			for _, a := range rs.Resource.Attributes {
				resource[a.Key] = a.Value.GetStringValue()
			}
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					c.spans[hex.EncodeToString(s.SpanId)] = span{s, resource}
				}
			}
		}
	case "/v1/metrics":
	default:
		return fmt.Errorf("this path does not exist")
	}
	return nil
}

// find lists spans by name and, if given, by the value of an attribute.
func (c *collector) find(name string, attribute ...string) (found []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name && (attribute == nil || s.get(attribute[0]) == attribute[1]) {
			found = append(found, s)
		}
	}
	return found
}

func (c *collector) byID(id string) (s span, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok = c.spans[id]
	return s, ok
}

func sendingTo(url string) option {
	return func(s *setup) { s.OTLPEndpoint, s.OTLPHeaders = url, "authorization=Bearer%20of-the-collector" }
}

// claimed is the trace that a caller claims to belong to.
const claimed, claimedTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	"0af7651916cd43dd8448eb211c80319c"

// TestOneTraceFromTheRequestToTheWebhook: one trace leads from the request to its webhooks and the search. Later
// actions of lawyers and the telephony have their own traces. Those are linked to it and lead to their own webhooks.
// Traces contain nothing about people.
func TestOneTraceFromTheRequestToTheWebhook(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	w := newWorld(t, sendingTo(c.url))
	w.secret("of-the-collector")
	p := w.partner(t, "CRM A")
	person := w.client(t, "traced-client", true, 10_000)
	s := w.link(t, p, person)
	l := w.lawyer(t, "traced-lawyer")
	r := s.do(t, http.MethodPost, consultations, wish("externalRef", "REF-OF-PARTNER", "subject", "SUBJECT-OF-CLIENT",
		"description", "DESCRIPTION-OF-CLIENT"),
		"Idempotency-Key", newKey(), "traceparent", claimed, "tracestate", "vendor=somebody",
		"baggage", "email=somebody")
	r.is(t, "create", http.StatusCreated, "")
	id := r.value()["id"].(string)
	w.complete(t, l, id)
	p.receiver.awaitAll(t, id, started+" assigned call_started call_ended note_available completed")
	events := p.receiver.Events(id)
	eventually(t, "the spans of all deliveries, and of what led to them", func() bool {
		return len(c.find("webhook delivery", "partnerd.consultation.id", id)) >= len(events) &&
			len(c.find("consultation dial")) > 0 && len(c.find("call command")) > 0 &&
			len(c.find("consultation hang up")) > 0 && len(c.find("call event")) >= 5 &&
			len(c.find("POST "+consultations)) == 1 && len(c.find("consultation search")) > 0 && c.orphans() == nil
	})

	request := c.find("POST " + consultations)[0]
	if request.parent() != "" || !request.linksTo(claimedTrace) || request.trace() == claimedTrace ||
		request.Links[0].TraceState != "" || request.TraceState != "" {
		t.Errorf("the request: %v", request)
	}
	for key, want := range map[string]string{
		"http.request.method": "POST", "http.route": consultations, "http.response.status_code": "201",
		"partnerd.request.id": r.Header.Get("X-Request-Id"), "partnerd.client.id": person.ID,
	} {
		if got := request.get(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if request.resource["service.name"] != "partnerd" || request.resource["deployment.environment.name"] != "sandbox" {
		t.Errorf("resource: %v", request.resource)
	}
	for _, e := range events {
		delivery, ok := c.byID(strings.Split(e.Header.Get("traceparent"), "-")[2])
		if !ok || delivery.Name != "webhook delivery" || delivery.get("partnerd.delivery.id") != e.Delivery ||
			delivery.get("http.response.status_code") != "204" && delivery.get("http.response.status_code") != "200" {
			t.Errorf("%s came with %q, which is %v", e.Type, e.Header.Get("traceparent"), delivery)
			continue
		}
		direct := slices.Contains(strings.Fields(started), strings.TrimPrefix(e.Type, "consultation."))
		root := c.root(delivery)
		switch {
		case direct && root.id() != request.id():
			t.Errorf("%s follows from %v, not from the request", e.Type, root)
		case !direct && (delivery.trace() == request.trace() || !c.linked(delivery.trace(), request.trace())):
			t.Errorf("%s: the trace of %v is not linked to the request", e.Type, root)
		}
	}
	for _, name := range []string{
		"consultation search", "consultation dial", "consultation hang up", "call command", "call event",
	} {
		for _, s := range c.find(name, "partnerd.consultation.id", id) {
			if s.trace() != request.trace() && !c.linked(s.trace(), request.trace()) {
				t.Errorf("%s is not connected with the request: %v", name, s)
			}
		}
	}
	if search := c.find("consultation search", "partnerd.consultation.id", id); !slices.ContainsFunc(search,
		func(s span) bool { return s.parent() == request.id() }) {
		t.Errorf("no search follows from the request: %v", search)
	}
	if inserts := c.find("INSERT"); !slices.ContainsFunc(inserts, func(s span) bool {
		return c.root(s).id() == request.id() && strings.Contains(s.get("db.query.text"), "$1")
	}) {
		t.Error("no statement is part of the request")
	}
	if !w.logs.contains("trace_id="+request.trace()) || !w.logs.contains("span_id="+request.id()) {
		t.Error("the log does not name the trace of the request")
	}
	if got := c.headers.Get("Authorization"); got != "Bearer of-the-collector" {
		t.Errorf("the collector was shown %q", got)
	}
	c.namesNobody(t, canary, preview, "SUBJECT-OF-CLIENT", "DESCRIPTION-OF-CLIENT", "REF-OF-PARTNER", person.Email,
		person.Name, person.password, phone, phone[1:], "+33639980099", "traced-lawyer", s.token.AccessToken,
		s.token.RefreshToken, p.ClientSecret, p.WebhookSecret, p.receiver.path, "vendor=somebody", "email=somebody",
		"127.0.0.1")
}

// orphans are spans whose parent has not arrived.
func (c *collector) orphans() (list []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if _, ok := c.spans[s.parent()]; s.parent() != "" && !ok {
			list = append(list, s)
		}
	}
	return list
}

func (c *collector) root(s span) span {
	for s.parent() != "" {
		s, _ = c.byID(s.parent())
	}
	return s
}

// linked reports whether a span of one trace is linked to another trace.
func (c *collector) linked(trace, to string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(slices.Collect(maps.Values(c.spans)),
		func(s span) bool { return s.trace() == trace && s.linksTo(to) })
}

func (c *collector) namesNobody(t *testing.T, secrets ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, secret := range secrets {
		if bytes.Contains(c.raw.Bytes(), []byte(secret)) {
			t.Errorf("the collector received %q", secret)
		}
	}
}

// TestWithoutACollectorNothingIsTraced: without an endpoint nothing is traced: no header, no column, no log line,
// whatever a caller sends.
func TestWithoutACollectorNothingIsTraced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.partner(t, "CRM A")
	s := w.link(t, p, w.client(t, "c1", true, 10_000))
	r := s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", newKey(), "traceparent", claimed)
	r.is(t, "create", http.StatusCreated, "")
	id := r.value()["id"].(string)
	p.receiver.awaitAll(t, id, started)
	for _, e := range p.receiver.Events(id) {
		if got := e.Header.Values("traceparent"); got != nil {
			t.Errorf("%s came with %q", e.Type, got)
		}
	}
	if n := w.queryInt(t, `SELECT (SELECT count(*) FROM webhook_events WHERE trace_parent IS NOT NULL) + (SELECT count(*) FROM consultations WHERE trace_parent IS NOT NULL)`); n != 0 {
		t.Errorf("%d rows name a trace", n)
	}
	if w.logs.contains("trace_id") {
		t.Error("the log names a trace")
	}
}

// TestACollectorThatFailsIsNobodysConcern: a collector that is unreachable, never responds, or responds with nonsense
// affects nothing. Consultations continue, and the program ends.
func TestACollectorThatFailsIsNobodysConcern(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = io.WriteString(w, "\xff\xff nonsense")
	}))
	t.Cleanup(liar.Close)
	for name, url := range map[string]string{
		"away": "http://" + freeAddress(t), "silent": "http://" + silent.Addr().String(), "lying": liar.URL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, sendingTo(url))
			p := w.partner(t, "CRM A")
			s := w.link(t, p, w.client(t, "c1", true, 10_000))
			l := w.lawyer(t, "l1")
			c := s.create(t)
			w.complete(t, l, c.ID)
			p.receiver.awaitAll(t, c.ID, started+" assigned call_started call_ended note_available completed")
		})
	}
}

// TestCallersDoNotDecideWhatIsTraced: the caller's sampling flag neither prevents nor causes the recording of a
// request.
func TestCallersDoNotDecideWhatIsTraced(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	w := newWorld(t, sendingTo(c.url), withoutWorkers)
	for _, header := range []string{
		strings.TrimSuffix(claimed, "1") + "0", claimed, "00-nonsense", strings.Repeat("x", 5000),
	} {
		w.send(t, http.MethodGet, "/api/v1/catalog/competences", nil, "traceparent", header)
	}
	eventually(t, "four traces", func() bool { return len(c.find("GET /api/v1/catalog/competences")) == 4 })
	seen := map[string]int{}
	for _, s := range c.find("GET /api/v1/catalog/competences") {
		if s.parent() != "" || s.trace() == claimedTrace {
			t.Errorf("%v", s)
		}
		seen[fmt.Sprint(len(s.Links))]++
	}
	if text, _ := json.Marshal(seen); string(text) != `{"0":2,"1":2}` {
		t.Errorf("links: %s", text)
	}
}
