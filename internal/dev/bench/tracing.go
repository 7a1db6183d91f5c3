package bench

import (
	"io"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protowire"

	"partnerd/internal/app/config"
)

// sink receives traces by OTLP over HTTP and keeps only their number. It runs in the load generator. So its cost is in
// the figures of the machine, but not in those of a program in its own process.
type sink struct {
	share float64 // share of the traces that are recorded
	url   string
	spans atomic.Int64
	end   func()
}

// newSink listens until close is called.
func newSink(share float64) (*sink, error) {
	s := &sink{share: share}
	base, end, err := listen(s)
	s.url, s.end = base+"/v1/traces", end
	return s, err
}

func (s *sink) close() {
	if s != nil {
		s.end()
	}
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	n, ok := count(body, 1, 2, 2) // resource_spans, scope_spans, spans
	if !ok {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.spans.Add(n)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// count counts the messages at the end of a path of fields. It reads only their lengths.
func count(message []byte, path ...protowire.Number) (n int64, ok bool) {
	for len(message) > 0 {
		field, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return 0, false
		}
		message = message[size:]
		if field != path[0] || kind != protowire.BytesType {
			if size = protowire.ConsumeFieldValue(field, kind, message); size < 0 {
				return 0, false
			}
			message = message[size:]
			continue
		}
		inner, size := protowire.ConsumeBytes(message)
		if size < 0 {
			return 0, false
		}
		message = message[size:]
		if len(path) == 1 {
			n++
			continue
		}
		within, ok := count(inner, path[1:]...)
		if !ok {
			return 0, false
		}
		n += within
	}
	return n, true
}

const sampler = "parentbased_traceidratio"

// observe makes a program in this process send its traces to the sink, if there is one.
func (s *sink) observe(c *config.Config) {
	if s != nil {
		c.OTLPTracesEndpoint, c.TracesSampler, c.TracesSamplerArg = s.url, sampler, s.arg()
	}
}

// environment does the same as [sink.observe] for a program in its own process.
func (s *sink) environment() []string {
	if s == nil {
		return nil
	}
	return []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + s.url, "OTEL_TRACES_SAMPLER=" + sampler,
		"OTEL_TRACES_SAMPLER_ARG=" + s.arg()}
}

func (s *sink) arg() string { return strconv.FormatFloat(s.share, 'g', -1, 64) }

// taken returns the number of spans received so far.
func (s *sink) taken() float64 {
	if s == nil {
		return 0
	}
	return float64(s.spans.Load())
}

// lost returns the share of spans that a program in this process did not send, or nothing without a sink.
func (s *sink) lost(metrics *prometheus.Registry) ([]Result, error) {
	if s == nil {
		return nil, nil
	}
	families, err := metrics.Gather()
	if err != nil {
		return nil, err
	}
	lost, all := 0., 0.
	for _, f := range families {
		if f.GetName() != "partnerd_telemetry_spans_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if all += m.GetCounter().GetValue(); m.GetLabel()[0].GetValue() != "sent" {
				lost += m.GetCounter().GetValue()
			}
		}
	}
	return []Result{{Measure: "spans lost", Value: 100 * lost / max(all, 1), Unit: "%"}}, nil
}

// results returns the spans of n items, or nothing without a sink. Fewer spans per item under higher load mean dropped
// spans.
func (s *sink) results(what string, spans, n float64) []Result {
	if s == nil {
		return nil
	}
	return []Result{{Measure: what + "spans", Value: spans / n, Unit: "each"}}
}
