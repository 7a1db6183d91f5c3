package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/base/poll"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
)

const (
	lifeLawyers = 2_000
	// lifeLoad is a minimum. A consultation takes nine to 13 seconds at the pace of simulated lawyers; at a rising rate
	// that settles within 20.
	lifeLoad   = time.Minute
	lifeSettle = time.Minute // for consultations still open when the load ends
	lifeEvents = 8           // of a consultation without incident
)

func lifeScenarios() []Scenario {
	return []Scenario{{Name: "life/whole", Run: lifeWhole}, {Name: "life/statements", Run: lifeStatements}}
}

// lifeWhole runs consultations end to end at rising rates, in one process beside Postgres. They are created over HTTP;
// simulated lawyers accept, call, take notes and complete. Every event is sent to a receiver that verifies it. The
// figures of the machine include the load, the receiver and the simulated people. The figures of the program include
// only the simulated people, because it simulates them itself.
func lifeWhole(ctx context.Context, e *Env) (results []Result, err error) {
	r, err := newMatchRig(ctx, e)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.callable(ctx, lifeLawyers); err != nil {
		return nil, err
	}
	for _, perSecond := range []int{10, 30, 60} {
		before := e.sink.taken()
		l, err := r.live(ctx, max(e.Load, lifeLoad), perSecond)
		if err != nil {
			return results, err
		}
		what := fmt.Sprintf("%d/s: ", perSecond)
		n := l.created
		results = append(results,
			Result{Measure: what + "completed", Value: l.rate, Unit: "consultations/s",
				AtLeast: 0.97 * float64(perSecond)},
			Result{Measure: what + "create p50", Value: l.create.Percentile(50), Unit: "ms"},
			Result{Measure: what + "create p99", Value: l.create.Percentile(99), Unit: "ms"},
			Result{Measure: what + "create p99.9", Value: l.create.Percentile(99.9), Unit: "ms"},
			Result{Measure: what + "webhook p50", Value: l.lag.Percentile(50), Unit: "ms"},
			Result{Measure: what + "webhook p99", Value: l.lag.Percentile(99), Unit: "ms", AtMost: 250},
			Result{Measure: what + "program", Value: ms(l.cpu.program) / n, Unit: "ms CPU each"},
			Result{Measure: what + "Postgres", Value: ms(l.cpu.database) / n, Unit: "ms CPU each"},
			Result{Measure: what + "commits, including single statements", Value: l.transactions / n, Unit: "each"},
			Result{Measure: what + "WAL", Value: l.wal / n / 1000, Unit: "kB each"},
			Result{Measure: what + "resident", Value: l.resident / 1e6, Unit: "MB", AtMost: 150},
			Result{Measure: what + "not completed", Value: n - l.completed, Unit: "of " + fmt.Sprint(l.created),
				AtMost: 0.5})
		results = append(results, e.sink.results(what, e.sink.taken()-before, n)...)
	}
	return results, nil
}

// lifeStatements counts the statements that one process sends for an end-to-end consultation, less what it sends when
// idle. Transactions are those with several statements.
func lifeStatements(ctx context.Context, e *Env) (results []Result, err error) {
	r, err := newMatchRig(ctx, e)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.callable(ctx, lifeLawyers); err != nil {
		return nil, err
	}
	receiver, err := r.receive(ctx)
	if err != nil {
		return nil, err
	}
	c := r.config()
	sent := &recorder{}
	c.Tracer = sent
	if err := r.serveHere(ctx, c); err != nil {
		return nil, err
	}
	if err := r.awaitLawyers(ctx); err != nil {
		return nil, err
	}
	tokens := make([]string, countedLives)
	for i := range tokens {
		if tokens[i], err = r.person(ctx); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	sent.begin()
	for i, token := range tokens {
		if err := r.create(ctx, token, r.pairs[i%len(r.pairs)]); err != nil {
			return nil, err
		}
		if !poll.Pause(ctx, time.Second/countedPerSecond) {
			return nil, ctx.Err()
		}
	}
	for end := time.Now().Add(lifeSettle); receiver.done.Load() < countedLives && time.Now().Before(end) &&
		poll.Pause(ctx, 50*time.Millisecond); {
	}
	statements, trips := sent.end()
	all := texts(statements)
	took := time.Since(began)
	if receiver.done.Load() < countedLives {
		return nil, fmt.Errorf("%d of %d consultations ended", receiver.done.Load(), countedLives)
	}
	sent.begin()
	if !poll.Pause(ctx, took) {
		return nil, ctx.Err()
	}
	statements, idleTrips := sent.end()
	idle := texts(statements)
	total, often := 0., []Result{}
	for text, n := range all {
		each := float64(n-idle[text]) / countedLives
		total += each
		if each >= 0.5 {
			often = append(often, Result{Measure: text, Value: each, Unit: "each"})
		}
	}
	slices.SortFunc(often,
		func(a, b Result) int { return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Measure, b.Measure)) })
	return append([]Result{{Measure: "all", Value: total, Unit: "each"},
		{Measure: "transactions", Value: float64(all["begin"]-idle["begin"]) / countedLives, Unit: "each",
			AtMost: 14},
		{Measure: "round trips", Value: float64(trips-idleTrips) / countedLives, Unit: "each"}}, often...), nil
}

const countedLives, countedPerSecond = 100, 10

// texts counts statements by their text.
func texts(all []statement) map[string]int {
	n := map[string]int{}
	for _, s := range all {
		n[strings.Join(strings.Fields(s.sql), " ")]++
	}
	return n
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// lived is the result of a load of end-to-end consultations.
type lived struct {
	created, completed float64   // consultations
	rate               float64   // completed per second during the load, once the first ones had ended
	create, lag        Latencies // of the request; from the time that an event reports to its arrival
	cpu                cpu
	transactions       float64
	wal, resident      float64 // bytes
}

// lifeReceiver receives events and verifies them.
type lifeReceiver struct {
	secret   string
	arrived  sync.Map // consultation/sequence → time.Time
	finished Latencies
	began    time.Time
	wrong    atomic.Int64
	done     atomic.Int64
}

func (l *lifeReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	n, err := takeNotice(req, l.secret)
	if err != nil {
		l.wrong.Add(1)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if _, twice := l.arrived.LoadOrStore(n.id, n.at); !twice && n.kind == webhook.Completed {
		l.finished.Add(n.at.Sub(l.began))
		l.done.Add(1)
	}
	w.WriteHeader(http.StatusNoContent)
}

// receive serves the endpoint of the rig's application until the rig is closed.
func (r *matchRig) receive(ctx context.Context) (*lifeReceiver, error) {
	l := &lifeReceiver{began: time.Now()}
	base, end, err := listen(l)
	if err != nil {
		return nil, err
	}
	r.onClose(end)
	made, err := r.app.CreateApplication(ctx, application.NewApplication{
		Name: "Demo CRM", RedirectURIs: []string{"http://localhost/callback"}, Scopes: application.AllScopes}, base+"/")
	if err != nil {
		return nil, err
	}
	l.secret, r.secret = made.WebhookSecret, made.ClientSecret
	r.crm, err = r.app.Applications.Get(ctx, r.app.DB.Read(), made.ClientID)
	return l, err
}

// used is the consumption so far.
type used struct {
	cpu               cpu
	transactions, wal float64
}

func (r *matchRig) used(ctx context.Context) (u used, err error) {
	if _, _, err = r.busy(ctx); err != nil {
		return u, err
	}
	if u.cpu, err = r.cpu(ctx); err != nil {
		return u, err
	}
	err = r.app.DB.Pool().QueryRow(ctx,
		`SELECT xact_commit + xact_rollback, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')
		FROM pg_stat_database WHERE datname = current_database()`).Scan(&u.transactions, &u.wal)
	return u, err
}

// live starts one process, creates consultations at a rate, waits until all have ended, and stops the process. The
// figures include the background work of the process.
func (r *matchRig) live(ctx context.Context, load time.Duration, perSecond int) (l *lived, err error) {
	receiver, err := r.receive(ctx)
	if err != nil {
		return nil, err
	}
	l = &lived{created: load.Seconds() * float64(perSecond)}
	tokens := make([]string, int(l.created))
	var g errgroup.Group
	g.SetLimit(200)
	for i := range tokens {
		g.Go(func() (err error) { tokens[i], err = r.person(ctx); return err })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := r.exec(ctx, "VACUUM ANALYZE"); err != nil {
		return nil, err
	}
	defer r.end()
	if err := r.start(ctx, "serve"); err != nil {
		return nil, err
	}
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	if err := r.awaitLawyers(ctx); err != nil {
		return nil, err
	}
	before, err := r.used(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	receiver.began = start
	for i, token := range tokens {
		if !poll.Pause(ctx, time.Until(start.Add(time.Duration(i)*time.Second/time.Duration(perSecond)))) {
			return nil, ctx.Err()
		}
		g.Go(func() error {
			began := time.Now()
			err := r.create(ctx, token, r.pairs[i%len(r.pairs)])
			l.create.Add(time.Since(began))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(lifeSettle); receiver.done.Load() < int64(l.created) && time.Now().Before(end); {
		if !poll.Pause(ctx, 50*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
	after, err := r.used(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range r.running {
		l.resident = max(l.resident, peakMemory(p.cmd.Process.Pid))
	}
	if err := r.alive(); err != nil {
		return nil, err
	}
	l.completed = float64(receiver.done.Load())
	l.rate = receiver.finished.Rate(load/2, load)
	l.cpu = cpu{program: after.cpu.program - before.cpu.program, database: after.cpu.database - before.cpu.database}
	l.transactions, l.wal = after.transactions-before.transactions, after.wal-before.wal
	if wrong := receiver.wrong.Load(); wrong > 0 {
		return l, fmt.Errorf("%d events had a wrong signature", wrong)
	}
	return l, r.lags(ctx, receiver, l)
}

// lags compares the arrival of events with their creation and checks that each consultation has exactly its own.
func (r *matchRig) lags(ctx context.Context, receiver *lifeReceiver, l *lived) error {
	rows, err := r.app.DB.Pool().Query(ctx,
		"SELECT consultation_id, sequence, created_at FROM webhook_events WHERE application_id = $1", r.crm.ID)
	if err != nil {
		return err
	}
	defer rows.Close()
	missing := 0
	for rows.Next() {
		var id string
		var sequence int
		var at time.Time
		if err := rows.Scan(&id, &sequence, &at); err != nil {
			return err
		}
		if arrived, ok := receiver.arrived.Load(fmt.Sprint(id, "/", sequence)); ok {
			l.lag.Add(max(0, arrived.(time.Time).Sub(at)))
		} else {
			missing++
		}
	}
	if missing > 0 || l.lag.Count() != lifeEvents*int(l.completed) {
		return errors.Join(fmt.Errorf("%d events of %d consultations arrived, %d did not",
			l.lag.Count(), int(l.completed), missing), rows.Err())
	}
	return rows.Err()
}

// peakMemory returns a process's peak resident memory in bytes, or 0 if the kernel does not report it.
func peakMemory(pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	m := peakLine.FindSubmatch(status)
	if m == nil {
		return 0
	}
	kB, _ := strconv.ParseFloat(string(m[1]), 64)
	return kB * 1024
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// callable adds simulated lawyers with phones.
func (r *matchRig) callable(ctx context.Context, n int) error {
	if err := r.lawyers(ctx, n, true); err != nil {
		return err
	}
	return r.app.DB.InTx(ctx, func(tx postgres.Tx) error {
		for i := range n {
			if err := r.app.Lawyers.SetPhone(ctx, tx, fmt.Sprint("law_bench_", i+1), "+33199000001"); err != nil {
				return err
			}
		}
		return nil
	})
}

// awaitLawyers waits until all simulated lawyers are on duty.
func (r *matchRig) awaitLawyers(ctx context.Context) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && poll.Pause(ctx, 500*time.Millisecond); {
		if away, err := r.count(ctx,
			"SELECT count(*) FROM lawyers WHERE simulated AND state <> 'AVAILABLE'"); err != nil || away == 0 {
			return err
		}
	}
	return errors.Join(errors.New("the simulated lawyers did not come within a minute"), ctx.Err())
}

// serveHere runs the program in this process until the rig is closed.
func (r *matchRig) serveHere(ctx context.Context, c config.Config) error {
	a, err := app.Open(ctx, c, r.log)
	if err != nil {
		return err
	}
	r.onClose(a.Close)
	stop, err := runApp(ctx, a, true)
	r.onClose(stop)
	return err
}
