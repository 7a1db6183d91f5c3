package consultation

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/infra/postgres"
)

// Kinds of incidents. All are in incidentKinds.
const (
	lawyerQuarantined = "lawyer quarantined"
	offerFailed       = "offer cannot be accepted"
	strayCall         = "call without its consultation"
	callNotKnown      = "consultation in call without a call"
	callbackDueSoon   = "callback due soon"
	callbackMissed    = "callback guarantee missed"
	noteMissing       = "note missing"
	closedWithoutNote = "closed without a note"
	phoneLost         = "phone not verified any more"
)

var incidentKinds = []string{lawyerQuarantined, offerFailed, strayCall, callNotKnown, callbackDueSoon, callbackMissed,
	noteMissing, closedWithoutNote, phoneLost}

// incident reports something for an operator to review, once tx has committed: one line in the log, and a count by
// kind.
func (s *Service) incident(tx postgres.Tx, kind, consultationID, lawyerID string) {
	tx.AfterCommit(func() {
		s.incidents.WithLabelValues(kind).Inc()
		s.log.Error("incident: "+kind, "consultation", consultationID, "lawyer", lawyerID)
	})
}

// newIncidents starts each kind at 0. If a count appeared only with its first incident, alarms would see no increase.
func newIncidents() *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "partnerd_consultation_incidents_total",
		Help: "What operators have to look at, by its kind, since this process began."}, []string{"kind"})
	for _, kind := range incidentKinds {
		c.WithLabelValues(kind)
	}
	return c
}

const scrapeTimeout = 2 * time.Second

var missingMetric = prometheus.NewDesc("partnerd_notes_missing",
	"Consultations whose note is missing a day after the call or longer.", nil, nil)

var (
	waitingMetric = prometheus.NewDesc("partnerd_consultations_waiting",
		"Consultations that search a lawyer, by status.", []string{"status"}, nil)
	oldestMetric = prometheus.NewDesc("partnerd_consultations_oldest_wait_seconds",
		"For how long the one that searches for longest has; 0 without one.", nil, nil)
	offersMetric = prometheus.NewDesc("partnerd_offers_open", "Offers that lawyers look at.", nil, nil)
)

func newLateness() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "partnerd_timer_lateness_seconds",
		Help:    "From when a timer of a consultation was due to the transaction that handled it.",
		Buckets: []float64{.1, .25, .5, 1, 2, 5, 15, 60, 600}})
}

// Collector exposes incidents, missing notes, waiting consultations, offers and the lateness of timers.
func (s *Service) Collector() prometheus.Collector { return collector{s} }

type collector struct{ s *Service }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	c.s.incidents.Describe(out)
	c.s.lateness.Describe(out)
	c.s.deps.Matching.Ended().Describe(out)
	for _, d := range []*prometheus.Desc{missingMetric, waitingMetric, oldestMetric, offersMetric} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	c.s.incidents.Collect(out)
	c.s.lateness.Collect(out)
	c.s.deps.Matching.Ended().Collect(out)
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	n, err := countMissingNotes(ctx, c.s.deps.DB.Read(), len(noteReminders))
	if err != nil {
		out <- prometheus.NewInvalidMetric(missingMetric, err)
		return
	}
	out <- prometheus.MustNewConstMetric(missingMetric, prometheus.GaugeValue, float64(n))
	f, err := readFigures(ctx, c.s.deps.DB.Read())
	if err != nil {
		out <- prometheus.NewInvalidMetric(waitingMetric, err)
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(waitingMetric, f.Matching, string(Matching))
	gauge(waitingMetric, f.Callback, string(PendingCallback))
	gauge(oldestMetric, f.Oldest)
	gauge(offersMetric, f.Offers)
}
