package webhook

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/infra/postgres"
)

// Purposes of a POST.
const (
	purposeDelivery = "delivery"
	purposePing     = "ping"
	purposeTrial    = "trial"
)

const (
	outcomeOK = "ok" // in addition to the failure classes

	// The figures from the database are read at most once per gaugeAge, within gaugeTime.
	gaugeAge  = 5 * time.Second
	gaugeTime = 2 * time.Second
	// maxWatched limits the time series by application. maxCounted limits the counted deliveries per application.
	maxWatched = 50
	maxCounted = 100_000
)

// metrics are the metrics of a process. Every replica reports the same gauges from the database: use their maximum.
type metrics struct {
	attempts    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	firstDelay  prometheus.Histogram
	inFlight    prometheus.Gauge
	lost        prometheus.Counter
	urlsRefused prometheus.Counter
}

func newMetrics(r prometheus.Registerer, db *postgres.DB, log *slog.Logger) *metrics {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "partnerd_webhook_attempts_total",
			Help: "POSTs to webhook endpoints, by purpose (delivery, ping, trial) and outcome (ok, or the class " +
				"of the failure)."}, []string{"purpose", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "partnerd_webhook_attempt_duration_seconds",
			Help: "How long POSTs took.", Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2, 3, 5}},
			[]string{"outcome"}),
		firstDelay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "partnerd_webhook_first_attempt_delay_seconds",
			Help:    "From the instant of an event to the start of its first attempt.",
			Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, .75, 1, 2.5, 5, 15, 60, 600},
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "partnerd_webhook_in_flight",
			Help: "Attempts under way or not yet recorded in this process."}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{Name: "partnerd_webhook_leases_lost_total",
			Help: "Attempts whose result came after their lease; their deliveries are sent twice."}),
		urlsRefused: prometheus.NewCounter(prometheus.CounterOpts{Name: "partnerd_webhook_urls_refused_total",
			Help: "URLs refused when somebody tried to set them."}),
	}
	for _, purpose := range []string{purposeDelivery, purposePing, purposeTrial} {
		// starts at 0, because a counter that first appears with an attempt does not count as an increase
		for _, class := range append(classes, outcomeOK) {
			m.attempts.WithLabelValues(purpose, class)
		}
	}
	if r != nil {
		r.MustRegister(m.attempts, m.duration, m.firstDelay, m.inFlight, m.lost, m.urlsRefused,
			&gauges{db: db, log: log})
	}
	return m
}

func (m *metrics) attempted(purpose string, o outcome) {
	name := o.class
	if name == "" {
		name = outcomeOK
	}
	m.attempts.WithLabelValues(purpose, name).Inc()
	m.duration.WithLabelValues(name).Observe(o.duration.Seconds())
}

// watched are the metrics of one endpoint.
type watched struct {
	ApplicationID string
	Pending       float64
	FailingFor    float64 // seconds
	Disabled      bool
}

// figures are the metrics from the database.
type figures struct {
	Due, Scheduled, Held                   float64 // pending deliveries
	OldestDue                              float64 // seconds
	Healthy, Failing, Disabled, WithoutURL float64 // endpoints
	watched                                []watched
}

var (
	pendingDesc = prometheus.NewDesc("partnerd_webhook_pending",
		"Deliveries that are not ended: due now, scheduled or under way, held. At most 100000 of each "+
			"application are counted.", []string{"kind"}, nil)
	oldestDesc = prometheus.NewDesc("partnerd_webhook_oldest_due_seconds",
		"For how long the oldest due delivery that is not held has been due; 0 when none is.", nil, nil)
	endpointsDesc = prometheus.NewDesc("partnerd_webhook_endpoints", "Endpoints by health.", []string{"health"}, nil)
	backlogDesc   = prometheus.NewDesc("partnerd_webhook_endpoint_pending",
		"Pending deliveries of the 50 endpoints that fail for longest or have most of them.",
		[]string{"application"}, nil)
	failingDesc = prometheus.NewDesc("partnerd_webhook_endpoint_failing_seconds",
		"For how long these endpoints have had no success; 0 when they have.", []string{"application"}, nil)
	disabledDesc = prometheus.NewDesc("partnerd_webhook_endpoint_disabled",
		"1 for those of these endpoints that are disabled.", []string{"application"}, nil)
	readableDesc = prometheus.NewDesc("partnerd_webhook_figures_readable",
		"0 when the figures of the database could not be read; the others are absent then.", nil, nil)
)

// gauges reads figures from the database when metrics are scraped.
type gauges struct {
	db  *postgres.DB
	log *slog.Logger
	mu  sync.Mutex
	at  time.Time
	of  figures
	ok  bool
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		pendingDesc, oldestDesc, endpointsDesc, backlogDesc, failingDesc, disabledDesc, readableDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	f, ok := g.read()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(readableDesc, asFloat(ok))
	if !ok {
		return
	}
	gauge(pendingDesc, f.Due, "due")
	gauge(pendingDesc, f.Scheduled, "scheduled")
	gauge(pendingDesc, f.Held, "held")
	gauge(oldestDesc, f.OldestDue)
	gauge(endpointsDesc, f.Healthy, "healthy")
	gauge(endpointsDesc, f.Failing, "failing")
	gauge(endpointsDesc, f.Disabled, "disabled")
	gauge(endpointsDesc, f.WithoutURL, "no_url")
	for _, w := range f.watched {
		gauge(backlogDesc, w.Pending, w.ApplicationID)
		gauge(failingDesc, w.FailingFor, w.ApplicationID)
		gauge(disabledDesc, asFloat(w.Disabled), w.ApplicationID)
	}
}

func (g *gauges) read() (figures, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	tx := g.db.Read()
	if age := tx.Now.Sub(g.at); age >= 0 && age < gaugeAge {
		return g.of, g.ok
	}
	ctx, cancel := context.WithTimeout(context.Background(), gaugeTime)
	defer cancel()
	f, err := selectFigures(ctx, tx)
	if err != nil {
		g.log.Error("webhook figures cannot be read", "error", err)
	}
	g.of, g.ok, g.at = f, err == nil, tx.Now
	return g.of, g.ok
}

func asFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
