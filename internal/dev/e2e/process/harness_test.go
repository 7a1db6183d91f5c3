package process_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/infra/cluster"
)

const (
	readyWithin = time.Minute // the first start initialises a database
	deadline    = 2 * time.Minute
	pollEvery   = 20 * time.Millisecond
)

// binary is the command under test, partnersBinary the one for partners.
var binary, partnersBinary string

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // whatever the number of processors: these tests mostly wait
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "partnerd-process-*")
	if err == nil {
		err = os.Chmod(dir, 0o755) // for the other account that tests use
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary, partnersBinary = filepath.Join(dir, "partnerd"), filepath.Join(dir, "partnerctl")
	if out, err := exec.Command("go", "build", "-o", dir+"/", "partnerd/cmd/partnerd", "partnerd/cmd/partnerctl").
		CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// installation is a data folder with the settings that its processes share.
type installation struct {
	dir  string // data folder
	env  []string
	cred *syscall.Credential // nil: the account of the test

	program string // empty: the command under test
}

// install creates an empty data folder. Its private database is stopped when the test ends.
func install(t *testing.T, env ...string) *installation {
	t.Helper()
	in := &installation{dir: filepath.Join(t.TempDir(), "data")}
	in.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PARTNERD_DATA_DIR=" + in.dir, "PARTNERD_LOG_LEVEL=warn",
		"PARTNERD_RATE_APPLICATION=1000000", "PARTNERD_RATE_CLIENT=1000000", "PARTNERD_RATE_TOKEN_FAILURES=1000000",
	}, env...)
	t.Cleanup(func() { in.stopDatabase(t) })
	return in
}

func (in *installation) cluster() cluster.Options {
	return cluster.Options{Dir: filepath.Join(in.dir, "postgres")}
}

func (in *installation) stopDatabase(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if stopped, err := cluster.Stop(ctx, in.cluster()); err != nil || !stopped {
		t.Errorf("stop the private database: stopped %t, %v", stopped, err)
	}
}

// database connects to the private database as an additional user of it.
func (in *installation) database(t *testing.T) *pgx.Conn {
	t.Helper()
	cluster, err := cluster.Start(t.Context(), in.cluster())
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, cluster.URL("partnerd"))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		conn.Close(ctx)
		if err := cluster.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// command prepares the command with arguments.
func (in *installation) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, cmp.Or(in.program, binary), args...)
	cmd.Env, cmd.Dir = in.env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: in.cred}
	return cmd
}

// result is the exit code and output of a command.
type result struct {
	code           int
	stdout, stderr string
}

// cli runs a command to its end. The value after --password goes to its standard input.
func (in *installation) cli(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	secret := ""
	if i := slices.Index(args, "--password"); i >= 0 {
		args, secret = slices.Clone(args), args[i+1]
		args[i+1] = "-"
	}
	cmd := in.command(ctx, args...)
	cmd.Stdin = strings.NewReader(secret + "\n")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %q: %v", args, err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// ask runs a command that must succeed with exactly one JSON object.
func (in *installation) ask(t *testing.T, into any, args ...string) {
	t.Helper()
	r := in.cli(t, args...)
	if r.code != 0 {
		t.Fatalf("%q ended with %d: %s", args, r.code, r.stderr)
	}
	d := json.NewDecoder(strings.NewReader(r.stdout))
	if err := d.Decode(into); err != nil || d.More() {
		t.Fatalf("%q printed more or less than one JSON object (%v): %s", args, err, r.stdout)
	}
}

// booksAgree runs the program's own ledger check.
func (in *installation) booksAgree(t *testing.T) {
	t.Helper()
	var books struct {
		OK       bool
		Findings []string
	}
	in.ask(t, &books, "ledger", "verify", "--json")
	if !books.OK || len(books.Findings) > 0 {
		t.Errorf("the ledger: %+v", books)
	}
}

// process is a running "partnerd serve".
type process struct {
	cmd     *exec.Cmd
	addr    string
	url     string // where it is reached, which may differ from its public address
	ended   chan struct{}
	err     error // set once it has ended
	welcome transcript
	output  transcript
}

// transcript records the output of a process for the report of a failed test. It is safe for concurrent use.
type transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *transcript) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *transcript) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// given holds the addresses that [freeAddress] returned; their processes may not listen yet.
var given sync.Map

// freeAddress finds a port below the range for outgoing connections, so it is still free after a restart. It never
// returns an address twice.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 10000+rand.IntN(10000)))
		if err != nil {
			continue
		}
		defer l.Close()
		if _, twice := given.LoadOrStore(l.Addr().String(), true); !twice {
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

// spawn starts "partnerd serve" on addr without waiting. If it is still running when the test ends, it is killed.
func (in *installation) spawn(t *testing.T, addr string, env ...string) *process {
	t.Helper()
	p := &process{addr: addr, url: "http://" + addr, ended: make(chan struct{})}
	p.cmd = in.command(context.Background(), "serve")
	p.cmd.Env = append(slices.Clone(in.env), append(env, "PARTNERD_ADDR="+addr)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.welcome, &p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s printed:\n%s", p.addr, lastLines(p.output.String(), 20))
		}
	})
	return p
}

// serve starts "partnerd serve" on addr and waits until it is ready.
func (in *installation) serve(t *testing.T, addr string, env ...string) *process {
	t.Helper()
	p := in.spawn(t, addr, env...)
	p.awaitStatus(t, "/readyz", http.StatusOK)
	return p
}

// awaitStatus polls a path until it responds with that status.
func (p *process) awaitStatus(t *testing.T, path string, status int) {
	t.Helper()
	var last string
	await(t, readyWithin, func() bool {
		select {
		case <-p.ended:
			t.Fatalf("the process ended: %v\n%s", p.err, p.output.String())
		default:
		}
		resp, err := http.Get(p.url + path)
		if err != nil {
			last = err.Error()
			return false
		}
		resp.Body.Close()
		last = resp.Status
		return resp.StatusCode == status
	}, func() string { return fmt.Sprintf("%s is %s, not %d", path, last, status) })
}

// kill ends the process immediately, as the system does when memory runs out.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// terminate asks the process to end and asserts a clean shutdown.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.awaitEnd(t)
	if p.err != nil {
		t.Errorf("SIGTERM ended the process with %v\n%s", p.err, p.output.String())
	}
}

func (p *process) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(deadline):
		t.Fatalf("the process does not end\n%s", p.output.String())
	}
}

// await polls a condition until it holds.
func await(t *testing.T, within time.Duration, holds func() bool, otherwise func() string) {
	t.Helper()
	for end := time.Now().Add(within); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("after %s: %s", within, otherwise())
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(pollEvery):
		}
	}
}

// query reads rows of text, for messages as well as comparisons.
func query(t *testing.T, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	return out
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
