package process_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/poll"
)

// postgreses are servers of Postgres in folders below one, each with a port of its own. The first is initialised; the others are copies.
type postgreses struct {
	bin     string
	dir     string
	cred    *syscall.Credential // nil: the account of the test
	servers []*exec.Cmd         // nil while it does not run
	ports   []string
}

func newPostgreses(t *testing.T, n int) *postgreses {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		fmt.Printf("NOT CHECKED: %s needs Debian's postgresql\n", t.Name())
		t.Skip("NOT CHECKED: postgresql is not installed")
	}
	p := &postgreses{bin: slices.Max(found), servers: make([]*exec.Cmd, n), ports: make([]string, n)}
	var err error
	if p.dir, err = os.MkdirTemp("", "partnerd-postgres-*"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(p.dir) })
	if account, err := user.Lookup("postgres"); err == nil && os.Getuid() == 0 { // a server refuses to be root
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		p.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(p.dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	for i := range p.ports {
		_, p.ports[i], _ = strings.Cut(freeAddress(t), ":")
	}
	p.run(t, "initdb", "-D", p.data(0), "-U", "owner", "--auth=trust", "--no-sync")
	return p
}

// standbyPair is a primary and its synchronous standby: a commit that was acknowledged is on the disks of both.
type standbyPair struct{ *postgreses }

func newPair(t *testing.T) *standbyPair {
	t.Helper()
	p := &standbyPair{newPostgreses(t, 2)}
	p.start(t, 0)
	p.exec(t, 0, "CREATE ROLE program LOGIN", "CREATE DATABASE partnerd")
	p.run(t, "pg_basebackup", "-D", p.data(1), "-h", "127.0.0.1", "-p", p.ports[0], "-U", "owner", "-R", "-c", "fast", "-X", "stream")
	p.start(t, 1)
	p.exec(t, 0, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	db := connect(t, p.url(0, "owner", "postgres"))
	await(t, deadline, func() bool {
		return slices.Equal(query(t, db, "SELECT sync_state FROM pg_stat_replication"), []string{"sync"})
	}, func() string { return "the standby does not follow" })
	return p
}

func (p *postgreses) data(i int) string { return filepath.Join(p.dir, strconv.Itoa(i)) }

// url is the address of one of them.
func (p *postgreses) url(i int, role, database string) string {
	return "postgres://" + role + "@127.0.0.1:" + p.ports[i] + "/" + database + "?sslmode=disable"
}

// both is the address of whichever takes writes.
func (p *standbyPair) both(role string) string {
	return "postgres://" + role + "@127.0.0.1:" + p.ports[0] + ",127.0.0.1:" + p.ports[1] + "/partnerd?sslmode=disable&target_session_attrs=read-write&connect_timeout=2"
}

func (p *postgreses) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.cred, Setpgid: true}
	return cmd
}

func (p *postgreses) run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := p.command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func (p *postgreses) exec(t *testing.T, i int, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.url(i, "owner", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func (p *postgreses) start(t *testing.T, i int, settings ...string) {
	t.Helper()
	args := []string{"-D", p.data(i), "-p", p.ports[i], "-h", "127.0.0.1", "-c", "unix_socket_directories=" + p.dir, "-c", "max_connections=150"}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	p.servers[i] = p.command("postgres", args...)
	var said transcript
	p.servers[i].Stderr = &said
	if err := p.servers[i].Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill(i)
		if t.Failed() {
			t.Logf("server %d said:\n%s", i, lastLines(said.String(), 15))
		}
	})
	await(t, readyWithin, func() bool {
		conn, err := pgx.Connect(t.Context(), p.url(i, "owner", "postgres"))
		if err == nil {
			conn.Close(context.Background())
		}
		return err == nil
	}, said.String)
}

// kill ends a server and its sessions at once, as when the power fails.
func (p *postgreses) kill(i int) {
	if p.servers[i] == nil {
		return
	}
	p.signal(i, syscall.SIGKILL)
	_ = p.servers[i].Wait()
	p.servers[i] = nil
}

// freeze stops a server and its sessions without a word, as when its disk hangs: connections to it stay open and nobody answers.
func (p *postgreses) freeze(i int) { p.signal(i, syscall.SIGSTOP) }

// signal reaches sessions, too, which have process groups of their own and outlive a server when they are stopped.
func (p *postgreses) signal(i int, what syscall.Signal) {
	server := p.servers[i].Process.Pid
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(server)).Output()
	_ = syscall.Kill(server, what)
	for child := range strings.FieldsSeq(string(out)) {
		if pid, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(pid, what)
		}
	}
}

// promote makes the standby the one that takes writes, which waits for no standby of its own.
func (p *standbyPair) promote(t *testing.T) {
	t.Helper()
	p.exec(t, 1, "SELECT pg_promote()", "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
}

// TestFailoverLosesNothing is "make failover": the primary dies, or hangs until it is fenced, while partners call; the standby is promoted,
// and what was acknowledged is there, once.
func TestFailoverLosesNothing(t *testing.T) {
	if os.Getenv("PARTNERD_TEST_FAILOVER") == "" {
		t.Skip("make failover")
	}
	for name, lose := range map[string]func(*standbyPair){
		"killed": func(p *standbyPair) { p.kill(0) },
		"hung":   func(p *standbyPair) { p.freeze(0) },
	} {
		t.Run(name, func(t *testing.T) { failover(t, lose) })
	}
}

func failover(t *testing.T, lose func(*standbyPair)) {
	p := newPair(t)
	front := freeAddress(t)
	in := install(t, "PARTNERD_ENV=sandbox", "PARTNERD_DATABASE_URL="+p.both("program"), "PARTNERD_DATABASE_OWNER_URL="+p.both("owner"), "PARTNERD_DATABASE_CONNS=6",
		"PARTNERD_BASE_URL=http://"+front)
	first := in.serve(t, front)
	second := in.serve(t, freeAddress(t))
	crm := onboard(t, in, first.url, 100_000_000)
	token := crm.link(t, first.url).AccessToken

	const callers, before, after, fencedAfter = 6, 60, 60, 3 * time.Second
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var made sync.Map // key → consultation
	var acknowledged atomic.Int64
	var lostAt, longest, repeated atomic.Int64 // nanoseconds; the longest that a request waited for its answer, with its repetitions
	var load sync.WaitGroup
	for i := range callers {
		load.Go(func() {
			at := []*process{first, second}[i%2]
			for poll.Pause(ctx, 100*time.Millisecond) {
				q, begun := request{rand.Text(), "TAX", "PT"}, time.Now()
				for ctx.Err() == nil { // as a client does that keeps the key until it is answered
					x := create(ctx, at.url, token, q)
					if x.status == http.StatusCreated {
						made.Store(q.key, x.consultation(t).ID)
						acknowledged.Add(1)
						for took, was := int64(time.Since(begun)), longest.Load(); lostAt.Load() > 0 && took > was && !longest.CompareAndSwap(was, took); was = longest.Load() {
						}
						break
					}
					if x.status != 0 && x.status != http.StatusServiceUnavailable && x.status != http.StatusConflict {
						t.Errorf("create: %d %s", x.status, x.body)
					}
					repeated.Add(1)
					poll.Pause(ctx, 200*time.Millisecond)
				}
			}
		})
	}
	reach := func(n int64) {
		t.Helper()
		await(t, deadline, func() bool { return acknowledged.Load() >= n }, func() string { return fmt.Sprintf("%d of %d consultations are made", acknowledged.Load(), n) })
	}
	reach(before)
	whole := create(t.Context(), first.url, token, request{rand.Text(), "HOUSING", "FR"}) // which is called while the primary is lost
	if whole.status != http.StatusCreated {
		t.Fatalf("create: %d %s", whole.status, whole.body)
	}
	if _, err := crm.received.Wait(t.Context(), whole.consultation(t).ID, "consultation.assigned"); err != nil {
		t.Fatal(err)
	}
	lose(p)
	lostAt.Store(time.Now().UnixNano())
	p.promote(t)
	promoted := time.Now()
	poll.Pause(t.Context(), fencedAfter)
	p.kill(0) // or two would take writes
	reach(acknowledged.Load() + after)
	stop()
	load.Wait()

	db := connect(t, p.url(1, "owner", "partnerd"))
	there := map[string]string{}
	for _, row := range query(t, db, "SELECT id || ' ' || external_ref FROM consultations WHERE external_ref IS NOT NULL") {
		id, key, _ := strings.Cut(row, " ")
		if was, twice := there[key]; twice {
			t.Errorf("one key made %s and %s", was, id)
		}
		there[key] = id
	}
	count, lost := 0, 0
	made.Range(func(key, id any) bool {
		if count++; there[key.(string)] != id {
			lost++
		}
		return true
	})
	if lost > 0 {
		t.Errorf("%d of %d acknowledged consultations are lost", lost, count)
	}
	within, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if _, err := crm.received.Wait(within, whole.consultation(t).ID, "consultation.completed"); err != nil {
		t.Errorf("the consultation that was assigned is not completed: %v", err)
	}
	for _, fault := range append(query(t, db, brokenSQL), query(t, db, doubleSQL)...) {
		t.Error(fault)
	}
	await(t, deadline, func() bool {
		return len(query(t, db, "SELECT id FROM webhook_deliveries WHERE ended_at IS NULL LIMIT 1")) == 0
	}, func() string { return "events are still to be sent" })
	crm.everyEventArrived(t, db)
	in.booksAgree(t)
	t.Logf("%d consultations acknowledged, %d lost, %d requests repeated; the standby took writes after %s, and nobody waited longer than %s for an answer",
		count, lost, repeated.Load(), promoted.Sub(time.Unix(0, lostAt.Load())).Round(time.Millisecond), time.Duration(longest.Load()).Round(time.Millisecond))
}
