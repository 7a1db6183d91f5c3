package e2e

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/infra/postgres"
)

// world is a running program on its own database.
type world struct {
	*app.App
	base string
	http *http.Client // checks every response against the contract and follows no redirect
	logs *logBook
	end  func() error // ends the program; its database stays open

	mu      sync.Mutex
	secrets []string // must never be logged
}

// setup holds the options of a world.
type setup struct {
	config.Config
	idle      bool // no workers: nothing happens without a request
	simulated bool // adds simulated lawyers, who accept everything immediately
	mayFail   bool // the log may contain errors
}

type option func(*setup)

func withoutWorkers(s *setup)       { s.idle = true }
func withSimulatedLawyers(s *setup) { s.simulated = true }
func withIncidents(s *setup)        { s.mayFail = true }

// newWorld starts the program and ends it with the test. The test fails if the ledger does not balance, or if the
// program logged an error or a secret.
func newWorld(t testing.TB, options ...option) *world {
	t.Helper()
	database := dbtest.URL(t)
	s := setup{Config: config.Config{
		Env: "sandbox", DatabaseURL: database, DatabaseOwnerURL: dbtest.OwnerURL(t, database), DataDir: t.TempDir(),
		Addr: freeAddress(t), DatabaseConns: 16, RateApplication: 1_000_000, RateClient: 1_000_000,
		RateUnauthorized: 1_000_000, RateTokenFailures: 1_000_000,
	}}
	for _, o := range options {
		o(&s)
	}
	s.DatabasePoolerURL = dbtest.PoolerURL(t, database)
	w := &world{logs: &logBook{}}
	var err error
	if w.App, err = app.Open(t.Context(), s.Config, slog.New(w.logs)); err != nil {
		t.Fatalf("open: %v", err)
	}
	w.base = w.Config.BaseURL
	w.http = &http.Client{
		Transport: &checked{t: t, host: strings.TrimPrefix(w.base, "http://"),
			next: &http.Transport{MaxIdleConnsPerHost: 64}},
		Timeout:       30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if s.simulated {
		w.SimulatedLawyers.Pace = sandbox.Pace{Talk: time.Second}
		w.SimulatedClock.Pace = w.SimulatedLawyers.Pace
		w.SimulatedClock.Patience = patience // leaves nothing behind, even on a busy machine
		w.inTx(t, func(tx postgres.Tx) error { return w.SimulatedLawyers.Seed(t.Context(), tx) })
	}
	w.run(t, s)
	return w
}

func (w *world) run(t testing.TB, s setup) {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- w.Run(ctx, true, !s.idle, func() { close(started) }) }()
	w.end = sync.OnceValue(func() error {
		stop()
		return <-ended
	})
	t.Cleanup(func() {
		w.logs.end()
		if err := w.end(); err != nil {
			t.Errorf("run: %v", err)
		}
		w.checkBooks(t)
		w.Close()
		w.checkLogs(t, s.mayFail)
	})
	select {
	case <-started:
	case err := <-ended:
		ended <- nil
		t.Fatalf("run: %v", err)
	}
}

// checkBooks asserts that money and consultations agree.
func (w *world) checkBooks(t testing.TB) {
	t.Helper()
	findings, err := books.Verify(context.WithoutCancel(t.Context()), w.DB.Read())
	if err != nil || len(findings) > 0 {
		t.Errorf("the ledger: %v %v", findings, err)
	}
}

func (w *world) checkLogs(t testing.TB, mayFail bool) {
	t.Helper()
	for _, secret := range append(w.secrets, canary) {
		if w.logs.contains(secret) {
			t.Errorf("the log holds the secret %q", secret)
		}
	}
	fails := w.logs.errors()
	if !mayFail && len(fails) > 0 || t.Failed() {
		t.Logf("log of the program:\n%s", w.logs.tail())
	}
	if !mayFail && len(fails) > 0 {
		t.Errorf("the program logged errors:\n%s", strings.Join(fails, ""))
	}
}

// secret makes the test fail if one of values is logged.
func (w *world) secret(values ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range values {
		if v != "" {
			w.secrets = append(w.secrets, v)
		}
	}
}

func (w *world) inTx(t testing.TB, f func(tx postgres.Tx) error) {
	t.Helper()
	if err := w.DB.InTx(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// exec changes the database directly, for example to simulate that time has passed.
func (w *world) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	tag, err := w.DB.Pool().Exec(t.Context(), sql, args...)
	if err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %v, %d rows", sql, err, tag.RowsAffected())
	}
}

func (w *world) queryInt(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	if err := w.DB.Pool().QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// patience is the maximum time that a test waits for something that must happen.
const patience = 2 * time.Minute

// eventually waits until ready.
func eventually(t testing.TB, what string, ready func() bool) {
	t.Helper()
	if !holdsWithin(patience, ready) {
		t.Fatalf("not within %s: %s", patience, what)
	}
}

// holdsWithin waits until ready returns true, for at most d, and reports whether it did.
func holdsWithin(d time.Duration, ready func() bool) bool {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for !ready() {
		select {
		case <-deadline.C:
			return false
		case <-poll.C:
		}
	}
	return true
}

var ports atomic.Int32

// freeAddress finds a port below the range for outgoing connections.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 12000+(os.Getpid()*31+int(ports.Add(1)))%16000)
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

// logBook records what is logged.
type logBook struct {
	mu     sync.Mutex
	text   bytes.Buffer
	fails  []string // lines about errors
	ending bool     // interrupted work may log errors from now on
}

// Enabled implements slog.Handler.
func (b *logBook) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (b *logBook) Handle(ctx context.Context, r slog.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.text.Len()
	err := slog.NewTextHandler(&b.text, &slog.HandlerOptions{Level: slog.LevelDebug}).Handle(ctx, r)
	if r.Level >= slog.LevelError && !b.ending {
		b.fails = append(b.fails, string(b.text.Bytes()[before:]))
	}
	return err
}

// WithAttrs implements slog.Handler.
func (b *logBook) WithAttrs([]slog.Attr) slog.Handler { return b }

// WithGroup implements slog.Handler.
func (b *logBook) WithGroup(string) slog.Handler { return b }

func (b *logBook) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ending = true
}

func (b *logBook) contains(s string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Contains(b.text.Bytes(), []byte(s))
}

func (b *logBook) matches(pattern string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return regexp.MustCompile(pattern).Match(b.text.Bytes())
}

func (b *logBook) errors() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fails
}

func (b *logBook) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.text.String()
	return text[max(0, len(text)-8000):]
}
