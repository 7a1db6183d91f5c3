package webhook

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/internal/base/clock"
)

func TestAStalledEndpointDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	release := make(chan struct{})
	var most, now atomic.Int64
	hung := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release
	})
	t.Cleanup(func() { close(release) })
	healthy := newReceiver(t, status(http.StatusOK))
	hungApp, _ := w.application(hung.URL)
	healthyApp, _ := w.application(healthy.URL)
	for range 30 {
		w.emit(w.consultation(hungApp), 1, creation[0])
	}
	w.run(w.svc)
	eventually(t, "the hung endpoint has its share", func() bool { return len(hung.seen()) == 10 })
	start := clock.System{}.Now()
	for range 10 {
		w.emit(w.consultation(healthyApp), 1, creation...)
	}
	for _, d := range w.settled(healthyApp, 1) {
		if d.State != Delivered {
			t.Errorf("%+v", d)
		}
	}
	if took := (clock.System{}).Now().Sub(start); took > 4*time.Second {
		t.Errorf("the healthy endpoint waited %v", took)
	}
	if most.Load() != 10 {
		t.Errorf("%d attempts at once at the hung endpoint, want 10", most.Load())
	}
}

func TestTwoDispatchersDeliverEachEventOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	r := newReceiver(t, status(http.StatusOK))
	const applications, consultations = 4, 25
	var apps []string
	for range applications {
		app, _ := w.application(r.URL)
		apps = append(apps, app)
		for range consultations {
			w.emit(w.consultation(app), 1, creation...)
		}
	}
	w.run(w.svc)
	w.run(w.service(sandbox()))
	for _, app := range apps {
		eventually(t, "all delivered", func() bool {
			var left int
			row := w.db.Pool().QueryRow(t.Context(),
				"SELECT count(*) FROM webhook_deliveries WHERE application_id = $1 AND state = 'PENDING'", app)
			return row.Scan(&left) == nil && left == 0
		})
	}
	seen := map[string]int{}
	for _, p := range r.seen() {
		seen[p.header.Get(HeaderDelivery)]++
	}
	if len(seen) != applications*consultations*3 {
		t.Errorf("%d deliveries, want %d", len(seen), applications*consultations*3)
	}
	for d, n := range seen {
		if n != 1 {
			t.Errorf("%s was sent %d times", d, n)
		}
	}
}

func TestWhatADeadProcessClaimedIsSentAfterItsLease(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	w := newWorld(t, clk, sandbox())
	r := newReceiver(t, status(http.StatusOK))
	app, _ := w.application(r.URL)
	c := w.consultation(app)
	w.emit(c, 1, creation...)

	dead := w.dispatcher()
	var held []message
	if _, err := dead.claim(t.Context(), func(m message) { held = append(held, m) }); err != nil || len(held) != 1 {
		t.Fatalf("claimed %d, %v; want the first event alone", len(held), err)
	}
	again := func() (n int) {
		if _, err := w.dispatcher().claim(t.Context(), func(message) { n++ }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	clk.Advance(w.svc.cfg.Lease - time.Microsecond)
	if n := again(); n != 0 {
		t.Fatalf("%d deliveries were claimed under a lease", n)
	}
	clk.Advance(time.Microsecond)
	w.run(w.svc)
	w.settled(app, 1)
	if p := r.seen(); len(p) != 3 || p[0].header.Get(HeaderDelivery) != held[0].deliveryID ||
		p[0].header.Get(HeaderAttempt) != "1" {
		t.Errorf("%d posts; the claimed delivery was not the first", len(p))
	}

	// The dead process was only slow: its result comes too late and changes nothing.
	late := result{held[0], outcome{startedAt: clk.Now(), status: 500, class: classStatus,
		detail: "responded with 500"}}
	if err := dead.write(t.Context(), []result{late}); err != nil {
		t.Fatal(err)
	}
	d := w.deliveries(app)[0]
	if a := w.attempts(d, app); d.State != Delivered || d.Attempts != 1 || len(a) != 1 || a[0].StatusCode != 200 {
		t.Errorf("%+v %+v", d, a)
	}
	if !strings.Contains(w.log.String(), "outlived its lease") {
		t.Error("nothing in the log")
	}
}

func TestShutdownLetsAttemptsFinishAndRecordsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	entered, proceed := make(chan struct{}), make(chan struct{})
	r := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			close(entered)
			<-proceed
		}
		w.WriteHeader(http.StatusAccepted)
	})
	app, _ := w.application(r.URL)
	c := w.consultation(app)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.svc.Run(ctx) }()
	w.emit(c, 1, creation...)
	<-entered
	cancel()
	select {
	case err := <-ended:
		t.Fatalf("ended with an attempt under way: %v", err)
	default:
	}
	close(proceed)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	// A claim in progress at the end may have brought one more; nothing was claimed after it.
	items, recorded := w.deliveries(app), 0
	for _, d := range items {
		recorded += d.Attempts
	}
	if items[0].State != Delivered || items[2].Attempts != 0 || len(r.seen()) != recorded {
		t.Errorf("%d posts; %+v", len(r.seen()), items)
	}
	w.run(w.service(sandbox()))
	w.settled(app, 1)
}

func TestAnotherProcessIsToldOfNewEvents(t *testing.T) {
	t.Parallel()
	slow := sandbox()
	slow.Poll = time.Hour
	w := newWorld(t, clock.System{}, slow)
	r := newReceiver(t, status(http.StatusOK))
	app, _ := w.application(r.URL)
	c := w.consultation(app)
	w.run(w.service(slow)) // the other process; w.svc only writes and announces
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan struct{})
	go func() { defer close(told); w.svc.Announce(ctx) }()
	t.Cleanup(func() { cancel(); <-told })
	listening := func() bool {
		var n int
		row := w.db.Pool().QueryRow(t.Context(),
			"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = $1",
			`LISTEN "`+channel+`"`)
		return row.Scan(&n) == nil && n == 1
	}
	eventually(t, "the other process listens", listening)
	w.emit(c, 1, creation...)
	w.settled(app, 1)
}

// When processes are notified of an event, the leading process and busy processes claim immediately, and the others a
// moment later.
func TestNotEveryProcessClaimsBecauseOfOneEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	atOnce := func(d *dispatcher) bool {
		d.onRemoteCommit("events")
		select {
		case <-d.wake:
			return true
		default:
			return false
		}
	}
	d := w.dispatcher()
	if atOnce(d) {
		t.Error("a process with nothing under way looks at once")
	}
	select {
	case <-d.wake:
	case <-time.After(20 * time.Second):
		t.Fatal("a process with nothing under way never looks")
	}
	d.slots.take([]message{{applicationID: "app"}}, nil)
	if !atOnce(d) {
		t.Error("a process with something under way waits")
	}
	leader := w.dispatcher()
	leader.leading.Store(true)
	if !atOnce(leader) {
		t.Error("the process that leads waits")
	}
}

func TestSlotsBoundTheAttemptsOfAProcess(t *testing.T) {
	t.Parallel()
	few := sandbox()
	few.Slots = 3
	w := newWorld(t, clock.System{}, few)
	var most, now atomic.Int64
	r := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
	})
	var apps []string
	for range 5 {
		app, _ := w.application(r.URL)
		apps = append(apps, app)
		for range 10 {
			w.emit(w.consultation(app), 1, creation[0])
		}
	}
	w.run(w.svc)
	for _, app := range apps {
		for _, d := range w.settled(app, 1) {
			if d.State != Delivered {
				t.Errorf("%+v", d)
			}
		}
	}
	if most.Load() > 3 {
		t.Errorf("%d attempts at once with 3 slots", most.Load())
	}
}
