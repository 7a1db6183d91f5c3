package dbtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"partnerd/internal/infra/postgres"
)

// poolerVariable makes the tests of the whole program go through PgBouncer.
const poolerVariable = "PARTNERD_TEST_POOLER"

// PoolerURL returns the address of a test's database through its own PgBouncer in transaction mode, which ends with the
// test. It is empty unless PARTNERD_TEST_POOLER is set.
func PoolerURL(t testing.TB, database string) string {
	t.Helper()
	if os.Getenv(poolerVariable) == "" {
		return ""
	}
	return NewPooler(t, database).URL
}

// Pooler is a PgBouncer in transaction mode.
type Pooler struct {
	URL string // of the database through it

	address, config string
	run             *exec.Cmd // nil while it is stopped
}

var poolers atomic.Int32

// NewPooler starts a PgBouncer in front of a database. It ends with the test.
func NewPooler(t testing.TB, database string) *Pooler {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	dir, err := os.MkdirTemp("", "partnerd-pooler-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	address := poolerAddress(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // PgBouncer's account must read it; the password lives as long as the test
			t.Fatal(err)
		}
		return path
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the same
		t.Fatal(err)
	}
	auth := "scram-sha-256"
	if password == "" {
		auth = "trust"
	}
	users := write("users.txt", fmt.Sprintf("%q %q\n", u.User.Username(), password))
	config := write("pgbouncer.ini", fmt.Sprintf(`[databases]
* = host=%s port=%s connect_query='%s'
[pgbouncer]
listen_addr = %s
listen_port = %d
unix_socket_dir =
auth_type = %s
auth_file = %s
pool_mode = transaction
default_pool_size = 8
max_client_conn = 200
server_login_retry = 1
`, u.Hostname(), u.Port(), postgres.SessionQuery(), address.IP, address.Port, auth, users))
	u.Host = address.String()
	p := &Pooler{URL: u.String(), address: u.Host, config: config}
	t.Cleanup(p.Kill)
	p.Start(t)
	return p
}

// poolerAddress finds a port below the range for outgoing connections, so it is still free when PgBouncer listens.
func poolerAddress(t testing.TB) *net.TCPAddr {
	t.Helper()
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 28_000+(os.Getpid()*31+int(poolers.Add(1)))%4000))
		if err != nil {
			continue
		}
		l.Close()
		return l.Addr().(*net.TCPAddr)
	}
	t.Fatal("no free port")
	return nil
}

// Start starts PgBouncer and waits until it accepts connections.
func (p *Pooler) Start(t testing.TB) {
	t.Helper()
	p.run = exec.Command("pgbouncer", "-q", p.config)
	if nobody, err := user.Lookup("nobody"); err == nil && os.Getuid() == 0 { // PgBouncer refuses to run as root
		uid, _ := strconv.Atoi(nobody.Uid)
		gid, _ := strconv.Atoi(nobody.Gid)
		p.run.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	if err := p.run.Start(); err != nil {
		p.run = nil
		t.Fatalf("start PgBouncer: %v", err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", p.address); err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal("PgBouncer does not respond")
		}
	}
}

// Kill ends PgBouncer and the connections through it immediately.
func (p *Pooler) Kill() {
	if p.run != nil {
		_ = p.run.Process.Kill()
		_ = p.run.Wait()
		p.run = nil
	}
}
