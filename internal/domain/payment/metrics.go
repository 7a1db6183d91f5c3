package payment

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const scrapeTimeout = 2 * time.Second

var incidentsMetric = prometheus.NewDesc("partnerd_payment_incidents_total",
	"Notices of payment providers that a person has to look into, by what came of them.", []string{"outcome"}, nil)

var foreignMetric = prometheus.NewDesc("partnerd_payment_notices_ignored_total",
	"Notices of payment providers that were ignored because they are of another account or mode.", nil, nil)

var refundsMetric = prometheus.NewDesc("partnerd_topup_refunds",
	"Refunds that have not reached their source: retrying failed and are tried again, failed are refused for good.",
	[]string{"state"}, nil)

// collector counts rows at each scrape, so every replica reports the same numbers. Ignored notices leave no row, so
// each replica counts its own.
type collector struct{ s *Service }

// Collector exposes the number of incidents and of refunds that are failing or have failed.
func (s *Service) Collector() prometheus.Collector { return collector{s} }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	out <- incidentsMetric
	out <- foreignMetric
	out <- refundsMetric
}

// Collect implements prometheus.Collector. An outcome that has not occurred is reported as 0, so that its first
// occurrence is an increase.
func (c collector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(foreignMetric, prometheus.CounterValue, float64(c.s.foreign.Load()))
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	tx := c.s.db.Read()
	counts, err := countIncidents(ctx, tx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(incidentsMetric, err)
		return
	}
	retrying, failed, err := countUnsent(ctx, tx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(refundsMetric, err)
		return
	}
	out <- prometheus.MustNewConstMetric(refundsMetric, prometheus.GaugeValue, float64(retrying), "retrying")
	out <- prometheus.MustNewConstMetric(refundsMetric, prometheus.GaugeValue, float64(failed), "failed")
	by := map[Outcome]int64{}
	for _, n := range counts {
		by[n.Outcome] = n.Count
	}
	for _, o := range incidentOutcomes {
		out <- prometheus.MustNewConstMetric(incidentsMetric, prometheus.CounterValue, float64(by[o]), string(o))
	}
}
