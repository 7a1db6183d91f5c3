package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/infra/postgres"
)

const copiesTimeout = 2 * time.Second

var (
	standbysMetric = prometheus.NewDesc("partnerd_database_standbys", "Number of standbys of the database.", nil, nil)
	lagMetric      = prometheus.NewDesc("partnerd_database_standby_lag_seconds",
		"Lag of the standby furthest behind; absent if the program's role may not see it.",
		nil, nil)
	archiveMetric = prometheus.NewDesc("partnerd_database_archive_failing",
		"1 when the last segment of the database's log was not archived.", nil, nil)
)

// copies queries at each scrape, so that every process reports the same.
type copies struct{ db *postgres.DB }

// Describe implements prometheus.Collector.
func (copies) Describe(out chan<- *prometheus.Desc) {
	out <- standbysMetric
	out <- lagMetric
	out <- archiveMetric
}

// Collect implements prometheus.Collector.
func (c copies) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), copiesTimeout)
	defer cancel()
	found, err := postgres.ReadCopies(ctx, c.db.Read())
	if err != nil {
		out <- prometheus.NewInvalidMetric(standbysMetric, err)
		return
	}
	out <- prometheus.MustNewConstMetric(standbysMetric, prometheus.GaugeValue, float64(found.Standbys))
	if found.LagKnown {
		out <- prometheus.MustNewConstMetric(lagMetric, prometheus.GaugeValue, found.Lag.Seconds())
	}
	failing := 0.0
	if found.ArchiveFailing {
		failing = 1
	}
	out <- prometheus.MustNewConstMetric(archiveMetric, prometheus.GaugeValue, failing)
}
