package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics measures requests. Its labels have few values, whatever callers send, because the route label is the path
// template.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec

	unauthorized prometheus.Counter
}

// NewMetrics registers the request metrics with r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "partnerd_http_requests_total",
			Help: "Requests that were answered, by route, method and class of the status."},
			[]string{"route", "method", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "partnerd_http_request_duration_seconds",
			Help:    "From the header of a request to the end of its answer, by route and method.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}, []string{"route", "method"}),
	}
	m.unauthorized = prometheus.NewCounter(prometheus.CounterOpts{Name: "partnerd_http_unauthorized_total",
		Help: "Requests that were answered 401: credentials are missing, unknown or over."})
	r.MustRegister(m.requests, m.duration, m.unauthorized)
	return m
}

// methods are counted separately; all other methods share one label.
var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}

func knownMethod(method string) string {
	if !slices.Contains(methods, method) {
		return "other"
	}
	return method
}

// observe counts one request. route is empty if no route matches the path.
func (m *Metrics) observe(route, method string, status int, took time.Duration) {
	if route == "" {
		route = "unknown"
	}
	method = knownMethod(method)
	m.requests.WithLabelValues(route, method, strconv.Itoa(status/100)+"xx").Inc()
	m.duration.WithLabelValues(route, method).Observe(took.Seconds())
	if status == http.StatusUnauthorized {
		m.unauthorized.Inc()
	}
}
