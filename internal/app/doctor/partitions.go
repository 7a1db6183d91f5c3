package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/requestlog"
)

// byTime maps the tables with weekly partitions to the retention of their rows.
var byTime = map[string]time.Duration{requestlog.Table: requestlog.Retention}

const (
	partitionsTimeout = 2 * time.Second
	partitionsFew     = 2                  // partitions ahead below which the doctor warns
	partitionsLate    = 2 * 24 * time.Hour // how long rows past their retention may remain
)

var partitionsMetric = prometheus.NewDesc("partnerd_partitions_ahead",
	"Number of coming weeks for which the table has a partition.", []string{"table"}, nil)

// partitions counts at each scrape, so that every replica reports the same.
type partitions struct{ db *postgres.DB }

// Describe implements prometheus.Collector.
func (partitions) Describe(out chan<- *prometheus.Desc) { out <- partitionsMetric }

// Collect implements prometheus.Collector.
func (p partitions) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), partitionsTimeout)
	defer cancel()
	tx := p.db.Read()
	all, err := postgres.Partitions(ctx, tx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(partitionsMetric, err)
		return
	}
	for table, n := range postgres.Ahead(all, tx.Now) {
		out <- prometheus.MustNewConstMetric(partitionsMetric, prometheus.GaugeValue, float64(n), table)
	}
}

// partitions checks that the coming weeks have partitions, and that old ones are dropped.
func (e *examination) partitions(ctx context.Context, tx postgres.Tx) {
	all, err := postgres.Partitions(ctx, tx)
	if err != nil {
		e.warn("partitions", err.Error(), "Run partnerd migrations up, or check the database.")
		return
	}
	ahead := postgres.Ahead(all, tx.Now)
	var said []string
	few, late := false, false
	for _, table := range slices.Sorted(maps.Keys(byTime)) {
		line := fmt.Sprintf("%s has partitions for %d of the coming weeks", table, ahead[table])
		few = few || ahead[table] < partitionsFew
		if goes := nextToGo(all, table); !goes.IsZero() {
			line += ", and its oldest rows are dropped on " + goes.UTC().Format(time.DateOnly)
			late = late || tx.Now.Sub(goes) > partitionsLate
		}
		said = append(said, line)
	}
	found := strings.Join(said, "; ")
	const do = "Check that a partnerd serve or work is running, look for the job \"purge the log of requests\" in its log, " +
		"and look for long transactions on the table. No data is lost."
	if few || late {
		e.warn("partitions", found, do)
		return
	}
	e.ok("partitions", found)
}

// nextToGo returns when the oldest partition with rows passes its retention, or zero if there is no such partition.
func nextToGo(all []postgres.Partition, table string) time.Time {
	for _, p := range all {
		if p.Table == table && p.Filled && p.Ends != nil {
			return p.Ends.Add(byTime[table])
		}
	}
	return time.Time{}
}
