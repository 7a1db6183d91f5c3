package consultation

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/postgres"
)

// incident reports what an operator has to look at, once tx has committed: one line of the log, and a count of its kind.
func (s *Service) incident(tx postgres.Tx, kind, consultationID, lawyerID string) {
	tx.AfterCommit(func() {
		s.incidents.WithLabelValues(kind).Inc()
		s.log.Error("incident: "+kind, "id", consultationID, "lawyer", lawyerID)
	})
}

func newIncidents() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "partnerd_consultation_incidents_total",
		Help: "What operators have to look at, by its kind, since this process began."}, []string{"kind"})
}

const scrapeTimeout = 2 * time.Second

var missingMetric = prometheus.NewDesc("partnerd_notes_missing", "Consultations whose note is missing a day after the call or longer.", nil, nil)

// Collector exposes incidents and missing notes.
func (s *Service) Collector() prometheus.Collector { return collector{s} }

type collector struct{ s *Service }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	c.s.incidents.Describe(out)
	out <- missingMetric
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	c.s.incidents.Collect(out)
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	n, err := countMissingNotes(ctx, c.s.DB.Read(), len(noteReminders))
	if err != nil {
		out <- prometheus.NewInvalidMetric(missingMetric, err)
		return
	}
	out <- prometheus.MustNewConstMetric(missingMetric, prometheus.GaugeValue, float64(n))
}
