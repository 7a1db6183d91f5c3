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
	"syscall"
	"testing"
	"time"

	"partnerd/internal/postgres"
)

// poolerVariable makes the tests of the whole program go through PgBouncer.
const poolerVariable = "PARTNERD_TEST_POOLER"

// PoolerURL is the address of a test's database through a PgBouncer of its own in transaction mode, which ends with the test; empty unless
// PARTNERD_TEST_POOLER is set.
func PoolerURL(t testing.TB, database string) string {
	t.Helper()
	if os.Getenv(poolerVariable) == "" {
		return ""
	}
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
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().(*net.TCPAddr)
	free.Close()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // a password that lasts as long as the test, for the account that PgBouncer runs as
			t.Fatal(err)
		}
		return path
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the same
		t.Fatal(err)
	}
	users := write("users.txt", fmt.Sprintf("%q %q\n", u.User.Username(), password))
	config := write("pgbouncer.ini", fmt.Sprintf(`[databases]
* = host=%s port=%s connect_query='%s'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = transaction
default_pool_size = 8
max_client_conn = 200
`, u.Hostname(), u.Port(), postgres.SessionQuery(), address.Port, users))
	run := exec.Command("pgbouncer", "-q", config)
	if nobody, err := user.Lookup("nobody"); err == nil && os.Getuid() == 0 { // it refuses to be root
		uid, _ := strconv.Atoi(nobody.Uid)
		gid, _ := strconv.Atoi(nobody.Gid)
		run.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	if err := run.Start(); err != nil {
		t.Fatalf("start PgBouncer: %v", err)
	}
	t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", address.String()); err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal("PgBouncer does not answer")
		}
	}
	u.Host = address.String()
	return u.String()
}
