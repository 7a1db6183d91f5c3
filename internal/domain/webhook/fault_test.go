package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/poll"
	"partnerd/internal/base/seal"
	"partnerd/internal/infra/cluster"
	"partnerd/internal/infra/postgres"
)

// longVariable extends the fault tests: make test-long.
const longVariable = "PARTNERD_TEST_LONG"

const senderVariable = "PARTNERD_TEST_WEBHOOK_SENDER"

// senderJob is the input of a child process that delivers.
type senderJob struct {
	URL, Key string
	Lease    time.Duration
}

// TestMain also runs the senders that are killed: this binary, started with a job.
func TestMain(m *testing.M) {
	if job := os.Getenv(senderVariable); job != "" {
		if err := beSender(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func beSender(encoded string) error {
	var job senderJob
	if err := json.Unmarshal([]byte(encoded), &job); err != nil {
		return err
	}
	ctx, stop := ossignal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// A sender must not outlive its test for long.
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	box, err := seal.OpenBox(job.Key)
	if err != nil {
		return err
	}
	for ctx.Err() == nil { // the database may be restarting
		db, err := postgres.Open(ctx, job.URL, postgres.Options{MaxConns: 6, Test: true})
		if err != nil {
			poll.Pause(ctx, 100*time.Millisecond)
			continue
		}
		defer db.Close()
		s := New(db, box, Config{Sandbox: true, AllowLoopback: true, Lease: job.Lease,
			Timeout: min(5*time.Second, job.Lease/2)})
		var g errgroup.Group
		g.Go(func() error { return s.Run(ctx) })
		g.Go(func() error { return s.Lead(ctx) })
		return g.Wait()
	}
	return nil
}

// senders are child processes that are killed and replaced.
type senders struct {
	t    *testing.T
	job  string
	live []*exec.Cmd
	log  syncBuffer
}

func (s *senders) start() {
	s.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), senderVariable+"="+s.job)
	cmd.Stderr = &s.log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.live = append(s.live, cmd)
}

func (s *senders) kill(i int) {
	_ = s.live[i].Process.Kill() // SIGKILL
	_ = s.live[i].Wait()
	s.live = append(s.live[:i], s.live[i+1:]...)
}

// arrival is what the endpoint saw of one delivery.
type arrival struct {
	first    time.Time
	last     time.Time
	bodies   []string
	attempts []string
	longest  time.Duration // between two attempts
}

// ledger is a slow endpoint that records all deliveries.
type ledger struct {
	*httptest.Server
	t       *testing.T
	secrets map[string]string
	mu      sync.Mutex
	by      map[string]*arrival
	invalid []string
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	now := clock.System{}.Now()
	id := r.Header.Get(HeaderDelivery)
	err = Verify(l.secrets[strings.TrimPrefix(r.URL.Path, "/")], r.Header.Get(HeaderSignature), body, now)
	l.mu.Lock()
	a := l.by[id]
	if a == nil {
		a = &arrival{first: now, last: now}
		l.by[id] = a
	}
	a.bodies, a.attempts = append(a.bodies, string(body)), append(a.attempts, r.Header.Get(HeaderAttempt))
	a.longest, a.last = max(a.longest, now.Sub(a.last)), now
	if err != nil {
		l.invalid = append(l.invalid, id+": "+err.Error())
	}
	l.mu.Unlock()
	<-time.After(time.Duration(rand.IntN(40)) * time.Millisecond) // so that some are in progress whenever a sender dies
	w.WriteHeader(http.StatusNoContent)
}

// Senders are killed during POSTs, and Postgres is restarted without a clean shutdown. Every committed event arrives,
// and nothing else. Duplicates have the same ID and the same bytes. Deliveries held by a dead sender are sent within
// the lease plus 5 s.
func TestFaultsLoseNothingAndRepeatOnlyTheSame(t *testing.T) {
	t.Parallel()
	load, lease := 6*time.Second, 3*time.Second
	if os.Getenv(longVariable) != "" {
		load, lease = 2*time.Minute, 15*time.Second
	}
	dir := t.TempDir()
	cluster, err := cluster.Start(t.Context(), cluster.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	w, key := faultWorld(t, cluster)
	receiver := &ledger{t: t, secrets: map[string]string{}, by: map[string]*arrival{}}
	receiver.Server = httptest.NewServer(receiver)
	t.Cleanup(receiver.Close)
	var apps []string
	for i := range 4 {
		path := strconv.Itoa(i)
		app, secret := w.application(receiver.URL + "/" + path)
		apps, receiver.secrets[path] = append(apps, app), secret
	}
	job, err := json.Marshal(senderJob{w.db.Pool().Config().ConnString(), key, lease})
	if err != nil {
		t.Fatal(err)
	}
	children := &senders{t: t, job: string(job)}
	t.Cleanup(func() {
		for len(children.live) > 0 {
			children.kill(0)
		}
	})
	children.start()
	children.start()
	down := w.publishWhileBreaking(apps, children, dir, load)

	eventuallyWithin(t, 2*time.Minute, "everything that was committed is delivered", func() bool {
		var left, all int
		err := w.db.Pool().QueryRow(t.Context(),
			"SELECT count(*) FILTER (WHERE state <> 'DELIVERED'), count(*) FROM webhook_deliveries").Scan(&left, &all)
		return err == nil && left == 0 && all > 0
	})
	w.compare(receiver, lease+5*time.Second+down)
	if t.Failed() {
		t.Log(children.log.String())
	}
}

func faultWorld(t *testing.T, cluster *cluster.Cluster) (*world, string) {
	t.Helper()
	key, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	box, err := seal.OpenBox(key)
	if err != nil {
		t.Fatal(err)
	}
	owner, program, err := cluster.EnsureDatabase(t.Context(), "fault")
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Grant(t.Context(), owner, program); err != nil {
		t.Fatal(err)
	}
	db, err := postgres.Open(t.Context(), program, postgres.Options{MaxConns: 6, Test: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	w := &world{t: t, db: db, box: box, log: &syncBuffer{}}
	w.svc = w.service(sandbox())
	return w, key
}

// publishWhileBreaking emits events for the duration load. It kills a sender about every third of a lease, and restarts
// Postgres halfway. It returns how long Postgres was unavailable.
func (w *world) publishWhileBreaking(apps []string, children *senders, dir string,
	load time.Duration,
) (down time.Duration) {
	w.t.Helper()
	subjects := w.consultations(apps, int(load.Seconds())*60)
	publishing, stop := context.WithTimeout(w.t.Context(), load)
	defer stop()
	var g sync.WaitGroup
	for p := range 2 {
		g.Go(func() { w.publish(publishing, subjects[p*len(subjects)/2:(p+1)*len(subjects)/2]) })
	}
	kills := time.NewTicker(max(load/20, 1200*time.Millisecond))
	defer kills.Stop()
	half := time.After(load / 2)
	for publishing.Err() == nil {
		select {
		case <-publishing.Done():
		case <-kills.C:
			children.kill(rand.IntN(len(children.live)))
			children.start()
		case <-half:
			down = crash(w.t, dir)
		}
	}
	g.Wait()
	return down
}

// consultations creates n consultations of one client.
func (w *world) consultations(apps []string, n int) []Subject {
	w.t.Helper()
	first := w.consultation(apps[0])
	w.exec(`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed, recording_consent, price_cents,
			phone_sealed, created_at, updated_at, search_started_at)
		SELECT 'con_fault_' || n, ($2::text[])[n % $3 + 1], client_id, status, competence, language, subject_sealed, recording_consent, price_cents,
			phone_sealed, created_at, updated_at, search_started_at
		FROM consultations, generate_series(0, $4 - 1) n WHERE id = $1`, first.ConsultationID, apps, len(apps), n)
	subjects := make([]Subject, n)
	for i := range subjects {
		subjects[i] = Subject{ApplicationID: apps[i%len(apps)], ConsultationID: fmt.Sprintf("con_fault_%d", i),
			Competence: "HOUSING"}
	}
	return subjects
}

// publish writes eight events per subject, for ten subjects in turn. It retries a failed transaction, whether or not it
// had committed.
func (w *world) publish(ctx context.Context, subjects []Subject) {
	const events, together = 8, 10
	next := map[string]int64{}
	for i := 0; ctx.Err() == nil && i/(events*together)*together+i%together < len(subjects); {
		s := subjects[i/(events*together)*together+i%together]
		sequence := next[s.ConsultationID] + 1
		err := w.db.InTx(context.WithoutCancel(ctx), func(tx postgres.Tx) error {
			return w.svc.Emit(context.WithoutCancel(ctx), tx, s, sequence, creation[0])
		})
		if err == nil || postgres.IsUnique(err, "") { // the commit that seemed to fail had succeeded
			next[s.ConsultationID] = sequence
			i++
		}
		poll.Pause(ctx, 4*time.Millisecond)
	}
}

// crash kills Postgres immediately, as a power cut would, and restarts it.
func crash(t *testing.T, dir string) time.Duration {
	t.Helper()
	began := clock.System{}.Now()
	raw, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Postgres is gone", func() bool { return syscall.Kill(pid, 0) != nil || zombie(pid) })
	again, err := cluster.Start(t.Context(), cluster.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Stop(context.Background()) })
	return clock.System{}.Now().Sub(began)
}

func zombie(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(raw), ") Z ")
}

// compare compares what arrived with the database.
func (w *world) compare(l *ledger, patience time.Duration) {
	w.t.Helper()
	rows, err := w.db.Pool().Query(w.t.Context(),
		"SELECT d.id, d.consultation_id, d.sequence, d.created_at, e.body FROM webhook_deliveries d "+
			"JOIN webhook_events e ON e.id = d.event_id ORDER BY 2, 3")
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	events, repeated, sequence := 0, 0, map[string]int64{}
	var slowest time.Duration // since only a sender was missing
	var before arrival        // the previous event, if it is of the same consultation
	for rows.Next() {
		var id, consultation string
		var n int64
		var at time.Time
		var body []byte
		if err := rows.Scan(&id, &consultation, &n, &at, &body); err != nil {
			w.t.Fatal(err)
		}
		events++
		if sequence[consultation]++; sequence[consultation] != n {
			w.t.Errorf("%s: event %d follows event %d", consultation, n, sequence[consultation]-1)
		}
		a := l.by[id]
		if a == nil {
			w.t.Errorf("%s never arrived", id)
			continue
		}
		delete(l.by, id)
		if n > 1 && before.first.After(at) {
			at = before.first
		}
		slowest, before = max(slowest, a.first.Sub(at), a.longest), *a
		for _, b := range a.bodies {
			if b != string(body) {
				w.t.Errorf("%s arrived with other bytes", id)
			}
		}
		if len(a.bodies) > 1 {
			repeated++
		}
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	for id := range l.by {
		w.t.Errorf("%s arrived and is not in the database", id)
	}
	if len(l.invalid) > 0 {
		w.t.Errorf("signatures refused: %v", l.invalid)
	}
	if slowest > patience {
		w.t.Errorf("the slowest delivery took %v, want at most %v", slowest, patience)
	}
	if events < 100 {
		w.t.Errorf("only %d events were published", events)
	}
	w.t.Logf("%d events, %d of them repeated, slowest %v", events, repeated, slowest)
}

func eventuallyWithin(t *testing.T, limit time.Duration, what string, happened func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-deadline:
			t.Fatalf("did not happen within %v: %s", limit, what)
		case <-tick.C:
		}
	}
}
