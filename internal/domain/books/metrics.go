package books

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const scrapeTimeout = 2 * time.Second

var (
	findingsMetric = prometheus.NewDesc("partnerd_ledger_findings",
		"Problems found by the last ledger check; 0 means none.", nil, nil)
	checkedMetric = prometheus.NewDesc("partnerd_ledger_checked_timestamp_seconds",
		"Time of the last ledger check, as Unix time.", nil, nil)
	durationMetric = prometheus.NewDesc("partnerd_ledger_check_duration_seconds",
		"Duration of the last ledger check.", nil, nil)
	entriesMetric = prometheus.NewDesc("partnerd_ledger_transactions",
		"Transactions in the ledger at the last ledger check.", nil, nil)
	outstandingMetric = prometheus.NewDesc("partnerd_wallet_outstanding_cents",
		"Total balance of all client wallets at the last ledger check.", nil, nil)
	volumeMetric = prometheus.NewDesc("partnerd_wallet_topup_volume_cents",
		"Amount topped up in the 12 months before the last ledger check.", nil, nil)
)

// collector reads the last check at each scrape, so that every replica reports the same values.
type collector struct{ s *Service }

// Collector exposes the result of the last check. Before the first check it has no values.
func (s *Service) Collector() prometheus.Collector { return collector{s} }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		findingsMetric, checkedMetric, durationMetric, entriesMetric, outstandingMetric, volumeMetric,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	last, found, err := c.s.LastCheck(ctx, c.s.db.Read())
	if err != nil {
		out <- prometheus.NewInvalidMetric(findingsMetric, err)
		return
	}
	if !found {
		return
	}
	for d, v := range map[*prometheus.Desc]float64{
		findingsMetric: float64(len(last.Findings)), checkedMetric: float64(last.StartedAt.Unix()),
		durationMetric: last.Duration.Seconds(), entriesMetric: float64(last.Transactions),
		outstandingMetric: float64(last.Outstanding), volumeMetric: float64(last.Volume),
	} {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
}
