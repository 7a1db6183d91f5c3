package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/base/poll"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

// matchRig is a database and the processes of the built program that run on it.
type matchRig struct {
	app     *app.App // prepares and queries; it neither serves nor works
	log     *slog.Logger
	sink    *sink // receives the program's traces; nil for none
	dir     string
	url     string // of the database
	addr    string
	binary  string
	crm     application.Application
	secret  string
	pairs   []pair
	clients atomic.Int64

	running []*running
	ending  atomic.Bool // set once the processes are told to stop
	stop    []func()
}

// running is a process of the program.
type running struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // set if it ended by itself
}

type pair struct{ competence, language string }

func (r *matchRig) onClose(f func()) { r.stop = append(r.stop, f) }

func (r *matchRig) close() {
	r.end()
	for i := len(r.stop) - 1; i >= 0; i-- {
		r.stop[i]()
	}
}

func newMatchRig(ctx context.Context, e *Env) (r *matchRig, err error) {
	r = &matchRig{log: e.Log, sink: e.sink}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.dir, err = os.MkdirTemp("", "partnerd-bench-*"); err != nil {
		return r, err
	}
	r.onClose(func() { os.RemoveAll(r.dir) })
	var drop func()
	if r.url, drop, err = e.emptyDatabase(ctx); err != nil {
		return r, err
	}
	r.onClose(drop)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	r.addr = free.Addr().String()
	free.Close()
	r.binary = filepath.Join(r.dir, "partnerd")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", r.binary, "partnerd/cmd/partnerd").
		CombinedOutput(); err != nil {
		return r, fmt.Errorf("build: %w: %s", err, out)
	}
	if r.app, err = app.Open(ctx, r.config(), r.log); err != nil {
		return r, err
	}
	r.onClose(r.app.Close)
	made, err := r.app.CreateApplication(ctx, application.NewApplication{
		Name: "Demo CRM", RedirectURIs: []string{"http://localhost/callback"}, Scopes: application.AllScopes}, "")
	if err != nil {
		return r, err
	}
	r.secret = made.ClientSecret
	if r.crm, err = r.app.Applications.Get(ctx, r.app.DB.Read(), made.ClientID); err != nil {
		return r, err
	}
	return r, r.readPairs(ctx)
}

func (r *matchRig) config() config.Config {
	c := config.Config{Env: "sandbox", Addr: r.addr, BaseURL: "http://" + r.addr, DataDir: filepath.Join(r.dir, "data"),
		DatabaseURL: r.url, DatabaseConns: 8, RateApplication: 1_000_000, RateClient: 1_000_000, RateUnauthorized: 1,
		RateTokenFailures: 1}
	r.sink.observe(&c)
	return c
}

func (r *matchRig) exec(ctx context.Context, sql string, args ...any) error {
	_, err := r.app.DB.Pool().Exec(ctx, sql, args...)
	return err
}

func (r *matchRig) count(ctx context.Context, sql string, args ...any) (n int, err error) {
	err = r.app.DB.Pool().QueryRow(ctx, sql, args...).Scan(&n)
	return n, err
}

// latencies adds the durations that a query returns in seconds.
func (r *matchRig) latencies(ctx context.Context, to *Latencies, sql string, args ...any) error {
	rows, err := r.app.DB.Pool().Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var seconds float64
		if err := rows.Scan(&seconds); err != nil {
			return err
		}
		to.Add(time.Duration(seconds * float64(time.Second)))
	}
	return rows.Err()
}

func (r *matchRig) readPairs(ctx context.Context) error {
	rows, err := r.app.DB.Pool().Query(ctx,
		"SELECT c.code, l.code FROM competences c, languages l ORDER BY l.code, c.code LIMIT $1", matchPairs)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var p pair
		if err := rows.Scan(&p.competence, &p.language); err != nil {
			return err
		}
		r.pairs = append(r.pairs, p)
	}
	if err := rows.Err(); err != nil || len(r.pairs) < matchPairs {
		return errors.Join(fmt.Errorf("the catalog has %d pairs, %d are wanted", len(r.pairs), matchPairs), err)
	}
	return nil
}

// lawyers signs on n lawyers, each in one to four pairs. Lawyers who are not simulated stay present for an hour.
func (r *matchRig) lawyers(ctx context.Context, n int, simulated bool) error {
	state, idle := "AVAILABLE", "now() - n * interval '1 ms'"
	if simulated {
		state, idle = "OFFLINE", "NULL" // the program signs them on
	}
	err := r.exec(ctx, `INSERT INTO lawyers (id, email, name, password_hash, phone_sealed, state, idle_since, simulated, created_at, updated_at)
		SELECT 'law_bench_' || n, 'bench-' || n || '@lawyer.example', 'Demo Lawyer', '', '\x00', '`+state+`', `+idle+
		`, $2, now(), now()
		FROM generate_series(1, $1::int) n`, n, simulated)
	if err == nil {
		err = r.exec(ctx, `INSERT INTO lawyer_pairs (lawyer_id, competence, language)
			SELECT DISTINCT 'law_bench_' || n, p.competence, p.language
			FROM generate_series(1, $1::int) n, generate_series(0, 3) k,
				(SELECT c.code AS competence, l.code AS language, row_number() OVER (ORDER BY l.code, c.code) - 1 AS i
				FROM competences c, languages l) p
			WHERE k <= n % 4 AND p.i = (n * (k * 7 + 1) + k) % $2`, n, matchPairs)
	}
	if err == nil && !simulated {
		err = r.present(ctx)
	}
	if err == nil {
		err = r.exec(ctx, "ANALYZE")
	}
	return err
}

// person creates a linked client who can pay for one consultation, and returns the access token.
func (r *matchRig) person(ctx context.Context) (token string, err error) {
	id := fmt.Sprint("cli_bench_", r.clients.Add(1))
	err = r.app.DB.InTx(ctx, func(tx postgres.Tx) error {
		_, err := tx.Exec(ctx, postgres.SQL(postgres.Batch,
			`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at)
			VALUES ($1, $1 || '@client.example', 'Demo Client', '', $2, $2)`), id, tx.Now)
		if err == nil {
			err = r.app.Accounts.SetPhone(ctx, tx, id, "+33639980001", true)
		}
		if err == nil {
			err = r.app.Wallet.Adjust(ctx, tx, id, wallet.Price, "Opening balance")
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("make client: %w", err)
	}
	return linkByServices(ctx, r.app, r.crm, r.secret, id)
}

// wait inserts consultations that search until their time is over; no lawyer serves their pairs. They look like erased
// consultations, so they hold nothing to decrypt.
func (r *matchRig) wait(ctx context.Context, n int, left time.Duration) (due time.Time, err error) {
	due = time.Now().Add(left).Truncate(time.Millisecond)
	if err := r.exec(ctx, `INSERT INTO clients (id, email, name, password_hash, created_at, updated_at)
		SELECT 'cli_wait_' || n, 'wait-' || n || '@client.example', 'Demo Client', '', now(), now() FROM generate_series(1, $1::int) n`, n); err != nil {
		return due, err
	}
	return due, r.exec(ctx, `INSERT INTO consultations (id, application_id, client_id, status, competence, language,
			recording_consent, price_cents, created_at, updated_at, erased_at, search_started_at, timer_at)
		SELECT 'con_wait_' || n, $2, 'cli_wait_' || n, 'MATCHING', p.competence, p.language, false, 2000, now(), now(), now(),
			$3::timestamptz - interval '30 minutes', $3
		FROM generate_series(1, $1::int) n JOIN (SELECT c.code AS competence, l.code AS language, row_number() OVER (ORDER BY l.code, c.code) - 1 AS i
			FROM competences c, languages l) p ON p.i = n % $4`, n, r.crm.ID, due, matchPairs)
}

// start runs the program until [matchRig.end].
func (r *matchRig) start(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, r.binary, args...)
	c := r.config()
	cmd.Env = []string{"HOME=" + r.dir, "PARTNERD_ENV=" + c.Env, "PARTNERD_DATA_DIR=" + c.DataDir,
		"PARTNERD_DATABASE_URL=" + c.DatabaseURL, "PARTNERD_ADDR=" + c.Addr, "PARTNERD_BASE_URL=" + c.BaseURL,
		"PARTNERD_DATABASE_CONNS=8", "PARTNERD_LOG_LEVEL=error", "PARTNERD_RATE_APPLICATION=1000000",
		"PARTNERD_RATE_CLIENT=1000000"}
	cmd.Env = append(cmd.Env, r.sink.environment()...)
	var printed bytes.Buffer
	cmd.Stderr = &printed
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &running{cmd: cmd, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		if r.ending.Load() {
			p.err = nil
		}
		if p.err != nil {
			p.err = fmt.Errorf("partnerd %s ended: %w: %.400s", args[0], p.err, printed.String())
		}
		close(p.ended)
	}()
	r.running = append(r.running, p)
	return nil
}

// alive returns an error if a process has ended by itself.
func (r *matchRig) alive() error {
	for _, p := range r.running {
		select {
		case <-p.ended:
			return errors.Join(errors.New("a process ended by itself"), p.err)
		default:
		}
	}
	return nil
}

// end stops every process that the rig started.
func (r *matchRig) end() {
	r.ending.Store(true)
	defer r.ending.Store(false)
	for _, p := range r.running {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, p := range r.running {
		select {
		case <-p.ended:
		case <-time.After(20 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	}
	r.running = nil
}

// matched is the result of a load.
type matched struct {
	created  int
	took     Latencies // of the consultations that were offered
	database float64   // milliseconds spent in statements, per consultation
}

// measure starts the processes, creates at a rate, waits for the offers, and stops the processes.
func (r *matchRig) measure(ctx context.Context, load time.Duration, perSecond int, serve []string,
	work int,
) (*matched, error) {
	m := &matched{created: int(load.Seconds() * float64(perSecond))}
	tokens := make([]string, m.created)
	var g errgroup.Group
	g.SetLimit(6)
	for i := range tokens {
		g.Go(func() (err error) { tokens[i], err = r.person(ctx); return err })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	defer r.reset(ctx)
	defer r.end()
	if err := r.start(ctx, serve...); err != nil {
		return nil, err
	}
	for range work {
		if err := r.start(ctx, "work"); err != nil {
			return nil, err
		}
	}
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	since, busy, err := r.busy(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	for i, token := range tokens {
		if !poll.Pause(ctx, time.Until(start.Add(time.Duration(i)*time.Second/time.Duration(perSecond)))) {
			return nil, ctx.Err()
		}
		g.Go(func() error { return r.create(ctx, token, r.pairs[i%len(r.pairs)]) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(matchSettle); time.Now().Before(end); {
		waiting, err := r.count(ctx, "SELECT count(*) FROM consultations c WHERE created_at >= $1 AND NOT EXISTS (SELECT FROM offers o WHERE o.consultation_id = c.id)", since)
		if err != nil {
			return nil, err
		}
		if waiting == 0 || !poll.Pause(ctx, 200*time.Millisecond) {
			break
		}
	}
	_, after, err := r.busy(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.alive(); err != nil {
		return nil, err
	}
	m.database = (after - busy) / float64(m.created)
	return m, r.latencies(ctx, &m.took, `SELECT extract(epoch FROM min(o.created_at) - c.created_at)::float8
		FROM consultations c JOIN offers o ON o.consultation_id = c.id WHERE c.created_at >= $1 GROUP BY c.id, c.created_at`, since)
}

// busy returns how many milliseconds the database has spent on statements so far (pg_stat_database.active_time).
func (r *matchRig) busy(ctx context.Context) (at time.Time, ms float64, err error) {
	if !poll.Pause(ctx, 2*time.Second) { // sessions report their statistics with a delay
		return at, 0, ctx.Err()
	}
	err = r.app.DB.Pool().QueryRow(ctx,
		"SELECT now(), active_time FROM pg_stat_database WHERE datname = current_database()").Scan(&at, &ms)
	return at, ms, err
}

func (r *matchRig) ready(ctx context.Context) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if resp, err := http.Get("http://" + r.addr + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				if !poll.Pause(ctx, 3*time.Second) { // the other processes and the simulated lawyers start
					return ctx.Err()
				}
				return nil
			}
		}
		if !poll.Pause(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
	return errors.New("the server did not become ready within a minute")
}

func (r *matchRig) create(ctx context.Context, token string, p pair) error {
	body := fmt.Appendf(nil,
		`{"competence": %q, "language": %q, "subject": "Bench", "withdrawalWaiverAcknowledged": true}`,
		p.competence, p.language)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.addr+"/api/v1/consultations",
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", rand.Text())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusCreated {
		err = fmt.Errorf("create: %d: %s", resp.StatusCode, answer)
	}
	return err
}

// cpu is processor time so far.
type cpu struct{ program, database time.Duration }

// cpu adds up the time of the processes, and of Postgres including its finished children.
func (r *matchRig) cpu(ctx context.Context) (c cpu, err error) {
	backend, err := r.count(ctx, "SELECT pg_backend_pid()")
	if err != nil {
		return c, err
	}
	own, err := readStat(backend)
	if err != nil {
		return c, err
	}
	found, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return c, err
	}
	for _, path := range found {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		s, err := readStat(pid)
		if err != nil { // the process has ended
			continue
		}
		switch {
		case pid == own.parent:
			c.database += s.own + s.children
		case s.parent == own.parent:
			c.database += s.own
		}
		for _, p := range r.running {
			if pid == p.cmd.Process.Pid {
				c.program += s.own
			}
		}
	}
	return c, nil
}

type stat struct {
	parent        int
	own, children time.Duration
}

const tick = 10 * time.Millisecond // unit of the kernel's accounting, whatever its own tick

func readStat(pid int) (s stat, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, err
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:])) // from the third field on
	if len(fields) < 15 {
		return s, fmt.Errorf("read the processor time of %d", pid)
	}
	n := make([]time.Duration, 15)
	for i := range n {
		v, _ := strconv.ParseInt(fields[i], 10, 64)
		n[i] = time.Duration(v)
	}
	return stat{parent: int(n[1]), own: (n[11] + n[12]) * tick, children: (n[13] + n[14]) * tick}, nil
}
