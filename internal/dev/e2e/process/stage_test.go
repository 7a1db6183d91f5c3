package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/base/poll"
	"partnerd/internal/dev/e2e/faults"
)

// stage is the environment of a run of faults. It has one database, routes to it that can be damaged, serving and
// working processes, and the front between them and all callers.
type stage struct {
	*testing.T
	*installation
	db         *dbServer
	disk       string // mount point of the database's disk; empty: no separate disk
	notChecked []string

	proxies map[string]*toxiproxy.Proxy // by process
	links   map[string]func(up bool) error
	actors  []*actor // processes of the program
	served  []string // addresses of the serving processes
	stepped *stepped
	front   *front
}

// actor is one process of the program, restarted whenever it ends, as on any machine.
type actor struct {
	name    string
	command func() *worker
	mu      sync.Mutex
	wanted  bool // whether it should run; false while it is to be dead
	running *worker
	ended   chan struct{} // closed when running has ended
	printed []string      // output of processes that have ended
}

// serverSettings of the private database keep its WAL short, so that it fits on a small disk.
var serverSettings = []string{"max_wal_size=64MB", "min_wal_size=32MB", "shared_buffers=64MB"}

const diskSize = 512 << 20

// newStage starts everything: three processes that serve, two that work, and one that works inside this process with a
// clock that can be stepped. All but one reach the database through toxiproxy. That one has a link of its own, which
// can drop packets.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, proxies: map[string]*toxiproxy.Proxy{}, links: map[string]func(bool) error{}}
	dir, db := serverFolder(t)
	s.db = &db
	_, s.db.port, _ = strings.Cut(freeAddress(t), ":")
	s.mountDisk(dir)
	s.db.data = filepath.Join(dir, "data")
	s.layLinks()
	s.db.run(t, "initdb", "-D", s.db.data, "-U", "owner", "--auth=trust", "--no-sync")
	if s.db.network != "" {
		hba, err := os.OpenFile(filepath.Join(s.db.data, "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = hba.WriteString("host all all samenet trust\n")
			err = errors.Join(err, hba.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.db.start(t, serverSettings...)
	s.db.exec(t, "CREATE ROLE program LOGIN", "CREATE DATABASE partnerd")
	s.front = newFront(t)
	s.installation = install(t, "PARTNERD_ENV=sandbox", "PARTNERD_DATABASE_URL="+s.db.url("program", "partnerd"),
		"PARTNERD_DATABASE_OWNER_URL="+s.db.url("owner", "partnerd"),
		"PARTNERD_DATABASE_CONNS=6", "PARTNERD_BASE_URL="+s.front.url, "PARTNERD_RATE_UNAUTHORIZED=1000000")
	if r := s.cli(t, "migrate"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	for i := range replicas {
		name, addr := fmt.Sprint("serve", i), freeAddress(t)
		s.served = append(s.served, addr)
		s.act(name, "started", []string{"PARTNERD_DATABASE_URL=" + s.damageable(name), "PARTNERD_ADDR=" + addr},
			"serve", "--no-work")
	}
	s.front.to = s.served
	// The simulated payment provider reports here.
	notices := "PARTNERD_ADDR=" + strings.TrimPrefix(s.front.url, "http://")
	s.act("work0", "started", []string{"PARTNERD_DATABASE_URL=" + s.damageable("work0"), notices}, "work")
	s.act("work1", "started", []string{"PARTNERD_DATABASE_URL=" + s.linked("work1"), notices}, "work")
	s.stepped = s.workHere(s.damageable("stepped"), strings.TrimPrefix(s.front.url, "http://"))
	return s
}

// note records that something could not be done here.
func (s *stage) note(what string, err error) {
	s.notChecked = append(s.notChecked, fmt.Sprintf("%s: %v", what, err))
	fmt.Printf("NOT CHECKED: %s: %v\n", what, err)
}

// mountDisk gives the database a small disk of its own, which can fill up.
func (s *stage) mountDisk(dir string) {
	if err := syscall.Mount("none", dir, "tmpfs", 0, fmt.Sprint("size=", diskSize)); err != nil {
		s.note("a disk that is full", err)
		return
	}
	s.disk = dir
	s.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	s.db.own(s.T, dir)
}

// layLinks puts the database into its own network namespace, with two links to this one.
func (s *stage) layLinks() {
	id := os.Getpid() % 10000
	network, third := fmt.Sprint("partnerd", id), 4*(id%60)
	var hosts []string
	ip := func(args ...string) error {
		out, err := exec.Command("ip", args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
		}
		return nil
	}
	err := ip("netns", "add", network)
	if err == nil {
		s.Cleanup(func() { _ = ip("netns", "del", network) })
	}
	for i, name := range []string{"all", "work1"} {
		near, far := fmt.Sprint("pd", id, "n", i), fmt.Sprint("pd", id, "f", i)
		here, there := fmt.Sprintf("10.213.%d.1", third+i), fmt.Sprintf("10.213.%d.2", third+i)
		for _, args := range [][]string{
			{"link", "add", near, "type", "veth", "peer", "name", far, "netns", network},
			{"addr", "add", here + "/30", "dev", near}, {"link", "set", near, "up"},
			{"-n", network, "addr", "add", there + "/30", "dev", far}, {"-n", network, "link", "set", far, "up"},
		} {
			if err == nil {
				err = ip(args...)
			}
		}
		hosts = append(hosts, there)
		s.links[name] = func(up bool) error {
			return ip("-n", network, "link", "set", far, map[bool]string{true: "up", false: "down"}[up])
		}
	}
	if err != nil {
		s.note("a network that drops packets", err)
		s.links = nil
		return
	}
	s.db.network, s.db.host = network, strings.Join(hosts, ",")
}

// linked returns the address of the database over a link that only one process uses.
func (s *stage) linked(name string) string {
	hosts := strings.Split(s.db.host, ",")
	return s.db.urlAt(hosts[len(hosts)-1]+":"+s.db.port, "program", "partnerd")
}

// damageable returns the address of the database through a proxy that only one process uses.
func (s *stage) damageable(name string) string {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(server, name, freeAddress(s.T), s.db.address())
	if err := p.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(p.Stop)
	s.proxies[name] = p
	return s.db.urlAt(p.Listen, "program", "partnerd")
}

// act starts a process, which prints word when it is at work, and adds it to the actors.
func (s *stage) act(name, word string, env []string, args ...string) {
	a := &actor{name: name}
	a.command = func() *worker {
		w := &worker{cmd: s.command(context.Background(), args...)}
		w.cmd.Env = append(slices.Clone(s.env), append(env, "PARTNERD_LOG_LEVEL=info")...)
		w.cmd.Stderr = &w.output
		return w
	}
	a.again()
	s.actors = append(s.actors, a)
	s.Cleanup(func() {
		a.kill()
		if s.Failed() {
			s.Logf("%s printed:\n%s", name, lastLines(a.said(), 15))
		}
	})
	await(s.T, readyWithin, func() bool { return strings.Contains(a.said(), word) }, a.said)
}

// again starts the process and restarts it whenever it ends by itself. It does that if there is no database at its
// start.
func (a *actor) again() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wanted {
		return
	}
	a.wanted = true
	a.launch()
}

func (a *actor) launch() {
	w, ended := a.command(), make(chan struct{})
	a.running, a.ended = w, ended
	if w.cmd.Start() != nil {
		close(ended)
		return
	}
	go func() {
		_ = w.cmd.Wait()
		close(ended)
		<-time.After(500 * time.Millisecond)
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.wanted && a.running == w {
			a.printed = append(a.printed, w.output.String())
			a.launch()
		}
	}()
}

func (a *actor) kill() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.wanted {
		return
	}
	a.wanted = false
	_ = a.running.cmd.Process.Kill()
	<-a.ended
	a.printed = append(a.printed, a.running.output.String())
	a.running = nil
}

// said returns everything that the process has printed, over all restarts.
func (a *actor) said() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.Clone(a.printed)
	if a.running != nil {
		all = append(all, a.running.output.String())
	}
	return strings.Join(all, "\n")
}

// logged returns what any process logged about a request.
func (s *stage) logged(request string) (lines string) {
	for _, a := range s.actors {
		for line := range strings.Lines(a.said()) {
			if request != "" && strings.Contains(line, request) {
				lines += line
			}
		}
	}
	return lines
}

// stepped is a part of the program that works inside this process with a clock that can be stepped.
type stepped struct {
	ahead  atomic.Int64 // nanoseconds
	output transcript
}

// workHere stands in for a process with its own clock, because built processes cannot be given another time.
func (s *stage) workHere(database, addr string) *stepped {
	p := &stepped{}
	a, err := app.Open(s.Context(), config.Config{Env: "sandbox", Addr: addr, BaseURL: s.front.url, DataDir: s.dir,
		DatabaseURL: database, DatabaseConns: 6, RateApplication: 1, RateClient: 1, RateUnauthorized: 1,
		RateTokenFailures: 1, Machine: func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }},
		slog.New(slog.NewTextHandler(&p.output, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(a.Close)
	ctx, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() {
		if err := a.Run(ctx, false, true, func() {}); err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(func() {
		stop()
		working.Wait()
	})
	return p
}

// front is the public address. It forwards everything to a serving process, and damages callbacks of the payment
// provider.
type front struct {
	url     string
	to      []string
	damaged atomic.Bool
	notices atomic.Int64
	forward *httputil.ReverseProxy
}

func newFront(t *testing.T) *front {
	f := &front{}
	f.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: f.to[rand.IntN(len(f.to))]})
			r.Out.Host = r.In.Host
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// ServeHTTP implements [http.Handler]. A callback is lost, or arrives and its response is lost, or arrives twice, or
// after others.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/payments/notices/") || !f.damaged.Load() {
		f.forward.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	pass := func() *httptest.ResponseRecorder {
		again, answer := r.Clone(r.Context()), httptest.NewRecorder()
		again.Body = io.NopCloser(bytes.NewReader(body))
		f.forward.ServeHTTP(answer, again)
		return answer
	}
	lost := func() { w.WriteHeader(http.StatusBadGateway) }
	switch f.notices.Add(1) % 4 {
	case 0:
		lost()
	case 1:
		pass()
		lost()
	case 2:
		pass()
		w.WriteHeader(pass().Code)
	default:
		poll.Pause(r.Context(), 2*time.Second)
		w.WriteHeader(pass().Code)
	}
}

// damagePhone loses, duplicates and reorders callbacks of the simulated call provider. The provider writes them as
// rows, so the damage is done there. A lost one is still found by asking the provider for the state of the call.
func (s *stage) damagePhone(on bool) error {
	statements := []string{`DROP TRIGGER IF EXISTS damaged ON sandbox_call_steps`}
	if on {
		statements = append(statements,
			`CREATE OR REPLACE FUNCTION damage_step() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
				IF pg_trigger_depth() > 1 THEN RETURN new; END IF;
				CASE abs(hashtext(new.id)) % 4
				WHEN 0 THEN new.done_at := new.due_at;
				WHEN 1 THEN INSERT INTO sandbox_call_steps (id, call_id, event, due_at, tries)
					VALUES (new.id || ':again', new.call_id, new.event, new.due_at + interval '1 second', 0) ON CONFLICT DO NOTHING;
				WHEN 2 THEN new.due_at := new.due_at + interval '2 seconds';
				ELSE NULL; END CASE;
				RETURN new; END $$`,
			`CREATE TRIGGER damaged BEFORE INSERT ON sandbox_call_steps FOR EACH ROW EXECUTE FUNCTION damage_step()`)
	}
	return s.asOwner(statements...)
}

// asOwner runs statements even while the database may be down.
func (s *stage) asOwner(statements ...string) (err error) {
	for end := time.Now().Add(readyWithin); time.Now().Before(end); <-time.After(200 * time.Millisecond) {
		if err = s.tryAsOwner(statements); err == nil {
			return nil
		}
	}
	return err
}

func (s *stage) tryAsOwner(statements []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.db.url("owner", "partnerd"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	for _, text := range append([]string{"SET LOCAL lock_timeout = '3s'"}, statements...) {
		if _, err := tx.Exec(ctx, text); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

// cast returns the subjects that faults can affect here.
func (s *stage) cast() map[faults.Kind][]string {
	var proxied, killed []string
	for name := range s.proxies {
		proxied = append(proxied, name)
	}
	slices.Sort(proxied)
	for _, a := range s.actors {
		killed = append(killed, a.name)
	}
	c := map[faults.Kind][]string{
		faults.KillProcess: killed, faults.KillDatabase: {"database"}, faults.Cut: proxied, faults.Latency: proxied,
		faults.Silence: proxied, faults.ClockStep: {"stepped"}, faults.Receiver: {"receiver"},
		faults.Payments: {"payments"}, faults.Phone: {"phone"},
	}
	if s.links != nil {
		c[faults.Drop] = []string{"work1"}
	}
	if s.disk != "" {
		c[faults.DiskFull] = []string{"database"}
	}
	return c
}

// do injects a fault. It returns how to heal it and further details.
func (s *stage) do(f faults.Fault, lies func(way int)) (heal func() error, note string, err error) {
	switch f.Kind {
	case faults.KillProcess:
		i := slices.IndexFunc(s.actors, func(a *actor) bool { return a.name == f.Subject })
		s.actors[i].kill()
		return func() error { s.actors[i].again(); return nil }, "", nil
	case faults.KillDatabase:
		s.db.kill()
		return s.restoreDatabase, "", nil
	case faults.Cut:
		p := s.proxies[f.Subject]
		p.Stop()
		return p.Start, "", nil
	case faults.Latency:
		note = fmt.Sprintf("%d ms ± %d ms", 1+f.Size/5, f.Size/10)
		return s.poison(f.Subject, "latency", map[string]int64{"latency": 1 + f.Size/5, "jitter": f.Size / 10}),
			note, nil
	case faults.Silence:
		return s.poison(f.Subject, "timeout", map[string]int64{"timeout": 0}), "", nil
	case faults.Drop:
		return func() error { return s.links[f.Subject](true) }, "", s.links[f.Subject](false)
	case faults.DiskFull:
		filler := filepath.Join(s.disk, "filler")
		fill(filler)
		return func() error { return errors.Join(os.Remove(filler), s.restoreDatabase()) }, "", nil
	case faults.ClockStep:
		step := time.Duration(f.Size-500) * 200 * time.Millisecond // up to 100 s, either way
		s.stepped.ahead.Add(int64(step))
		return func() error { return nil }, step.String(), nil
	case faults.Receiver:
		way := int(f.Size) % lieCount
		lies(way)
		return func() error { lies(-1); return nil }, lieNames[way], nil
	case faults.Payments:
		s.front.damaged.Store(true)
		return func() error { s.front.damaged.Store(false); return nil }, "", nil
	case faults.Phone:
		return func() error { return s.damagePhone(false) }, "", s.damagePhone(true)
	}
	return nil, "", fmt.Errorf("unknown kind of fault: %s", f.Kind)
}

// poison adds a toxic to both directions of a proxy.
func (s *stage) poison(name, kind string, attributes map[string]int64) (heal func() error) {
	p := s.proxies[name]
	for _, way := range []string{"upstream", "downstream"} {
		toxic, _ := json.Marshal(map[string]any{"name": kind + "_" + way, "type": kind, "stream": way,
			"attributes": attributes})
		if _, err := p.Toxics.AddToxicJson(bytes.NewReader(toxic)); err != nil {
			s.Error(err)
		}
	}
	return func() error {
		p.Toxics.ResetToxics(context.Background())
		return nil
	}
}

// restoreDatabase starts the server if it is not running, and tries again if it does not come up: its memory may not be
// free yet.
func (s *stage) restoreDatabase() error {
	for end := time.Now().Add(deadline); time.Now().Before(end); <-time.After(200 * time.Millisecond) {
		if s.db.ready() {
			return nil
		}
		if s.db.process == nil || s.db.process.Process.Signal(syscall.Signal(0)) != nil ||
			ended(s.db.process.Process.Pid) {
			s.db.kill()
			s.db.launch(s.T, serverSettings...)
		}
	}
	return errors.New("the database does not come back")
}

// ended reports whether a child of this process has ended and waits to be reaped.
func ended(pid int) bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(state), ") ")
	return strings.HasPrefix(rest, "Z")
}

// fill writes a file until the disk is full.
func fill(path string) {
	f, err := os.Create(path)
	if err != nil {
		return
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 512; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
}
