package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/clock"
	"partnerd/internal/infra/postgres"
)

func TestThePurgeRemovesWhatIsOldAndEndedAndNothingElse(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	w := newWorld(t, clk, sandbox())
	app, _ := w.application("")
	c := w.consultation(app)
	const old = 1300 // more than two batches
	for n := range old {
		w.emit(c, int64(n+1), creation[0])
	}
	w.exec("UPDATE webhook_deliveries SET state = 'DELIVERED', attempts = 1, ended_at = now() WHERE sequence > 2")
	w.exec("INSERT INTO webhook_attempts (delivery_id, attempt, started_at, duration_ms) SELECT id, 1, now(), 1 FROM webhook_deliveries WHERE sequence > 2")
	_, last := w.follow(app, 0) // all have a position
	clk.Advance(DefaultRetention)
	w.emit(c, old+1, creation[0]) // exactly at the limit: not old
	w.exec("UPDATE webhook_deliveries SET state = 'DELIVERED', attempts = 1, ended_at = now() WHERE sequence > $1", old)
	var again Delivery
	for _, d := range w.deliveriesOf("sequence = 3") {
		again.ID = d
	}
	w.tx(func(tx postgres.Tx) error {
		_, err := w.svc.Redeliver(t.Context(), tx, app, again.ID, true)
		return err
	})
	w.exec("UPDATE webhook_deliveries SET state = 'DELIVERED', attempts = 1, ended_at = now() WHERE sequence = 3")
	clk.Advance(time.Microsecond)
	n, err := w.svc.Purge(t.Context())
	if err != nil || n != old-3 {
		t.Fatalf("%d removed, %v; want all but two that are not delivered and one that was sent again", n, err)
	}
	var events, deliveries, attempts int
	row := w.db.Pool().QueryRow(t.Context(),
		"SELECT (SELECT count(*) FROM webhook_events), (SELECT count(*) FROM webhook_deliveries), (SELECT count(*) "+
			"FROM webhook_attempts)")
	if err := row.Scan(&events, &deliveries, &attempts); err != nil || events != 4 || deliveries != 5 || attempts != 1 {
		t.Errorf("%d events, %d deliveries, %d attempts are left, %v", events, deliveries, attempts, err)
	}
	// A reader in the middle of the removed events is told of the gap; a reader at the end is not.
	for after, gap := range map[int64]bool{10: true, last: false} {
		page, err := w.svc.Events(t.Context(), app, after, 10)
		if err != nil || len(page.Items) != 1 || page.Gap != gap {
			t.Errorf("after %d: %d items, gap %v, %v", after, len(page.Items), page.Gap, err)
		}
	}
	// Events removed before anyone read them also leave a gap.
	w.emit(c, old+2, creation[0])
	w.exec("UPDATE webhook_deliveries SET state = 'DELIVERED', attempts = 1, ended_at = now() WHERE state = 'PENDING'")
	clk.Advance(2 * DefaultRetention)
	if n, err := w.svc.Purge(t.Context()); err != nil || n != 5 {
		t.Errorf("%d removed, %v", n, err)
	}
	w.emit(c, old+3, creation[0])
	if page, err := w.svc.Events(t.Context(), app, last+1, 10); err != nil || len(page.Items) != 1 || !page.Gap {
		t.Errorf("%+v %v", page, err)
	}
}

func (w *world) deliveriesOf(condition string) (ids []string) {
	w.t.Helper()
	rows, err := w.db.Pool().Query(w.t.Context(), "SELECT id FROM webhook_deliveries WHERE "+condition)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// notebook records notifications to partners.
type notebook struct {
	mu    sync.Mutex
	notes []string
	fails bool
}

func (n *notebook) Notify(_ context.Context, _ postgres.Tx, applicationID string, kind NoticeKind,
	since time.Time,
) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fails {
		return errors.New("no mail today")
	}
	n.notes = append(n.notes, fmt.Sprintf("%s %s %s", applicationID, kind, since.Format("15:04")))
	return nil
}

func TestPartnersAreToldOnceOfEachStepOfAFailure(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	book := &notebook{}
	cfg := sandbox()
	cfg.Notifier = book
	w := newWorld(t, clk, cfg)
	app, _ := w.application("http://127.0.0.1:9/")
	suspended, _ := w.application("http://127.0.0.1:9/")
	w.exec("UPDATE webhook_endpoints SET failing_since = $1", clk.Now())
	w.exec("UPDATE applications SET suspended_at = now() WHERE id = $1", suspended)
	expect := func(advance time.Duration, want ...string) {
		t.Helper()
		clk.Advance(advance)
		book.notes = nil
		for range 2 {
			if _, err := w.svc.SendNotices(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for i := range want {
			want[i] = app + " " + want[i]
		}
		if strings.Join(book.notes, ", ") != strings.Join(want, ", ") {
			t.Errorf("told %q, want %q", book.notes, want)
		}
	}
	expect(time.Hour - time.Microsecond)
	expect(time.Microsecond, "failing_1h 09:30")
	expect(23*time.Hour, "failing_24h 09:30")
	book.fails = true
	clk.Advance(48 * time.Hour)
	if _, err := w.svc.SendNotices(t.Context()); err == nil {
		t.Error("the failure of the channel is kept quiet")
	}
	book.fails = false
	expect(0, "failing_72h 09:30")
	w.exec("UPDATE webhook_endpoints SET disabled_at = $1, disabled_reason = 'failing'", clk.Now())
	expect(0, "disabled 09:30")
	w.tx(func(tx postgres.Tx) error { return w.svc.EnableEndpoint(t.Context(), tx, app) })
	w.exec("UPDATE webhook_endpoints SET failing_since = $1", clk.Now())
	expect(4*24*time.Hour, "failing_72h 09:30") // after a pause, only the worst is reported
}

func TestMetricsTellOfQueueAttemptsAndEndpoints(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	registry := prometheus.NewRegistry()
	cfg := sandbox()
	cfg.Registerer = registry
	w := newWorld(t, clk, cfg)
	healthy, broken := newReceiver(t, status(204)), newReceiver(t, status(500))
	good, _ := w.application(healthy.URL)
	bad, _ := w.application(broken.URL)
	disabled, _ := w.application(healthy.URL)
	w.exec("UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'gone' WHERE application_id = $1",
		disabled)
	without, _ := w.application("")
	for _, app := range []string{good, bad, disabled, without} {
		w.emit(w.consultation(app), 1, creation[0])
	}
	stop := w.run(w.svc)
	w.settled(good, 1)
	w.settled(bad, 1)
	stop()
	if w.svc.checkURL("http://10.0.0.1/") == nil {
		t.Error("a private address is accepted")
	}
	w.emit(w.consultation(good), 1, creation[0])
	clk.Advance(4 * time.Second) // before the retry: one is due, one scheduled, two held
	expected := map[string]float64{
		`partnerd_webhook_pending{kind="due"}`: 1, `partnerd_webhook_pending{kind="scheduled"}`: 1,
		`partnerd_webhook_pending{kind="held"}`:         2,
		`partnerd_webhook_oldest_due_seconds`:           4,
		`partnerd_webhook_endpoints{health="healthy"}`:  1,
		`partnerd_webhook_endpoints{health="failing"}`:  1,
		`partnerd_webhook_endpoints{health="disabled"}`: 1,
		`partnerd_webhook_endpoints{health="no_url"}`:   1,
		`partnerd_webhook_figures_readable`:             1, `partnerd_webhook_in_flight`: 0,
		`partnerd_webhook_urls_refused_total`:                                                  1,
		`partnerd_webhook_attempts_total{outcome="ok",purpose="delivery"}`:                     1,
		`partnerd_webhook_attempts_total{outcome="status",purpose="delivery"}`:                 1,
		fmt.Sprintf(`partnerd_webhook_endpoint_failing_seconds{application=%q}`, bad):          4,
		fmt.Sprintf(`partnerd_webhook_endpoint_disabled{application=%q}`, disabled):            1,
		fmt.Sprintf(`partnerd_webhook_endpoint_pending{application=%q}`, without):              1,
		`partnerd_webhook_first_attempt_delay_seconds_count`:                                   2,
		`partnerd_webhook_attempt_duration_seconds_count{outcome="status"}`:                    1,
		`partnerd_webhook_leases_lost_total`:                                                   0,
		fmt.Sprintf(`partnerd_webhook_endpoint_failing_seconds{application=%q}`, without) + "": 0,
	}
	got := gather(t, registry)
	if got["partnerd_webhook_figures_readable"] != 1 {
		t.Fatal(w.log.String())
	}
	for name, want := range expected {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
}

// gather returns the samples by name and labels, histograms as their counts.
func gather(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			name, suffix := f.GetName(), ""
			if len(labels) > 0 {
				suffix = "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case m.GetHistogram() != nil:
				out[name+"_count"+suffix] = float64(m.GetHistogram().GetSampleCount())
			case m.GetCounter() != nil:
				out[name+suffix] = m.GetCounter().GetValue()
			default:
				out[name+suffix] = m.GetGauge().GetValue()
			}
		}
	}
	return out
}
