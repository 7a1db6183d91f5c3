package queue

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	unknownJob    = "unknown" // a job of a newer release, for which this one has no handler
	scrapeTimeout = 2 * time.Second
)

// metrics counts the failures of this process.
type metrics struct{ failed, givenUp *prometheus.CounterVec }

func newMetrics() metrics {
	m := metrics{
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "partnerd_jobs_failed_total",
			Help: "Attempts of jobs that failed, by job."}, []string{"job"}),
		givenUp: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "partnerd_jobs_given_up_total",
			Help: "Jobs whose last attempt failed, by job."}, []string{"job"}),
	}
	m.begin(unknownJob)
	return m
}

// begin starts the series of a job at 0, so that its first failure is an increase.
func (m metrics) begin(name string) {
	m.failed.WithLabelValues(name)
	m.givenUp.WithLabelValues(name)
}

var retryingMetric = prometheus.NewDesc("partnerd_jobs_retrying",
	"Jobs that failed and wait for their next attempt, by job, of 10 000 at most.", []string{"job"}, nil)

// Collectors returns metrics of this process's failures and of the jobs that wait for a retry. Call it once all
// handlers are registered.
func (q *Queue) Collectors() []prometheus.Collector {
	return []prometheus.Collector{q.metrics.failed, q.metrics.givenUp, retrying{q}}
}

// retrying counts at each scrape, so that every process reports the same.
type retrying struct{ queue *Queue }

// Describe implements prometheus.Collector.
func (retrying) Describe(out chan<- *prometheus.Desc) { out <- retryingMetric }

// Collect implements prometheus.Collector.
func (r retrying) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	counts, err := Retrying(ctx, r.queue.db.Read())
	if err != nil {
		out <- prometheus.NewInvalidMetric(retryingMetric, err)
		return
	}
	by := map[string]int{}
	for name := range r.queue.handlers {
		by[name] = 0
	}
	for _, c := range counts {
		name := c.Job
		if _, known := r.queue.handlers[name]; !known {
			name = unknownJob
		}
		by[name] += c.Jobs
	}
	for name, n := range by {
		out <- prometheus.MustNewConstMetric(retryingMetric, prometheus.GaugeValue, float64(n), name)
	}
}
