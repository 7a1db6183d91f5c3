package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
)

const lateTimeout = 2 * time.Second

var lateMetric = prometheus.NewDesc("partnerd_oldest_due_seconds",
	"How long the oldest due item that no process has started has been waiting; 0 when none is.",
	[]string{"queue"}, nil)

// dues lists the kinds of due work, except webhooks, which report their own. Each has its limits for a warning and a
// failure of the doctor.
var dues = []struct {
	queue      string
	what       string
	oldest     func(ctx context.Context, tx postgres.Tx) (*time.Time, error)
	warn, fail time.Duration
}{
	{"jobs", "job (email, text messages, purges)", queue.OldestDue, 5 * time.Minute, time.Hour},
	{"timers", "timer of a consultation", consultation.OldestDue, time.Minute, 5 * time.Minute},
	{"calls", "command to the telephony provider", telephony.OldestDue, time.Minute, 5 * time.Minute},
	{"refunds", "refund of a top-up", payment.OldestDue, 5 * time.Minute, time.Hour},
}

// lateBy returns how long something that became due then has been overdue.
func lateBy(since *time.Time, now time.Time) time.Duration {
	if since == nil {
		return 0
	}
	return max(now.Sub(*since), 0)
}

// late queries at each scrape, so that every replica reports the same.
type late struct{ db *postgres.DB }

// Describe implements prometheus.Collector.
func (late) Describe(out chan<- *prometheus.Desc) { out <- lateMetric }

// Collect implements prometheus.Collector.
func (l late) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), lateTimeout)
	defer cancel()
	tx := l.db.Read()
	for _, d := range dues {
		since, err := d.oldest(ctx, tx)
		if err != nil {
			out <- prometheus.NewInvalidMetric(lateMetric, err)
			return
		}
		out <- prometheus.MustNewConstMetric(lateMetric, prometheus.GaugeValue,
			lateBy(since, tx.Now).Seconds(), d.queue)
	}
}

// late checks that due work is being done.
func (e *examination) late(ctx context.Context, tx postgres.Tx) {
	var said []string
	level := OK
	for _, d := range dues {
		since, err := d.oldest(ctx, tx)
		if err != nil {
			e.warn("jobs", err.Error(), "Run partnerd migrations up, or check the database.")
			return
		}
		by := lateBy(since, tx.Now)
		if by < d.warn {
			continue
		}
		said = append(said, fmt.Sprintf("the oldest %s has waited for %s", d.what, by.Round(time.Second)))
		if by >= d.fail {
			level = Fail
		} else if level == OK {
			level = Warn
		}
	}
	retrying, err := queue.Retrying(ctx, tx)
	if err != nil {
		e.warn("jobs", err.Error(), "Run partnerd migrations up, or check the database.")
		return
	}
	for _, r := range retrying {
		said = append(said, fmt.Sprintf("%d jobs of %q failed and are being retried", r.Jobs, r.Job))
		if level == OK {
			level = Warn
		}
	}
	found := strings.Join(said, "; ")
	const do = "Check that a partnerd serve or work is running, and look for errors in its log. Until then email " +
		"waits, searches do not time out and calls are not ended."
	switch level {
	case Fail:
		e.fail("jobs", found, do)
	case Warn:
		e.warn("jobs", found, do)
	default:
		e.ok("jobs", "nothing due is waiting")
	}
}
