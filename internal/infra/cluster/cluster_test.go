//go:build unix

package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const patience = 60 * time.Second

// clusterDir creates an empty directory. At the end it stops the server in it.
func clusterDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cluster")
	stopAtEnd(t, dir)
	return dir
}

func stopAtEnd(t *testing.T, dir string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if stopped, err := Stop(ctx, Options{Dir: dir}); err != nil || !stopped {
			t.Errorf("cluster left running in %s: %v", dir, err)
		}
	})
}

func startCluster(t *testing.T, dir string) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), Options{Dir: dir, Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop(context.Background()) })
	return c
}

func stop(t *testing.T, c *Cluster) {
	t.Helper()
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func query(t *testing.T, c *Cluster, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var s string
	if err := conn.QueryRow(t.Context(), sql).Scan(&s); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatalf("%s: %v", sql, err)
	}
	return s
}

func serverPID(t *testing.T, c *Cluster) int {
	t.Helper()
	pid, _, err := c.readPID()
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !f() {
		if !wait(ctx) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func running(t *testing.T, c *Cluster) bool {
	t.Helper()
	lock, err := tryLock(c.path("server.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if lock != nil {
		lock.Close()
	}
	return lock == nil
}

// TestClusterChild is the other process of the tests below. Given a directory as argument, it starts or adopts the
// cluster there, reports that, and uses it until its input ends.
func TestClusterChild(t *testing.T) {
	if flag.NArg() == 0 {
		return
	}
	c, err := Start(t.Context(), Options{Dir: flag.Arg(0), Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready", serverPID(t, c))
	os.Stdin.Read(make([]byte, 1))
	stop(t, c)
}

// child runs TestClusterChild and returns it once its cluster is up, with the server's process ID.
func child(t *testing.T, dir string) (cmd *exec.Cmd, pid int) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^TestClusterChild$", "--", dir)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := fmt.Fscanf(out, "ready %d\n", &pid); err != nil {
		t.Fatalf("child did not get a cluster: %v", err)
	}
	return cmd, pid
}

func TestClusterKeepsDataOverStopCrashAndStalePID(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	if err := os.MkdirAll(filepath.Join(dir, "data.new-interrupted", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := Start(t.Context(), Options{Dir: dir}) // durable, as in production
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "data.new-*")); len(left) > 0 {
		t.Errorf("rest of an interrupted initialisation remains: %v", left)
	}
	for setting, want := range map[string]string{
		"fsync": "on", "listen_addresses": "127.0.0.1", "timezone": "UTC", "jit": "off",
		"server_encoding": "UTF8", "max_connections": "200",
	} {
		if got := query(t, c, "SHOW "+setting); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	for range 2 {
		if _, _, err := c.EnsureDatabase(t.Context(), "partnerd"); err != nil {
			t.Error(err)
		}
	}
	query(t, c, "CREATE TABLE kept AS SELECT 'yes' AS v")
	kept := func(c *Cluster, after string) {
		t.Helper()
		if got := query(t, c, "SELECT v FROM kept"); got != "yes" {
			t.Errorf("data lost after %s", after)
		}
	}
	port := c.port
	stop(t, c)
	if running(t, c) {
		t.Fatal("server runs on after its last user stopped it")
	}

	c = startCluster(t, dir)
	kept(c, "stop")
	if c.port != port {
		t.Errorf("port %d became %d", port, c.port)
	}

	if err := syscall.Kill(serverPID(t, c), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server's processes end", func() bool { return !running(t, c) })
	c = startCluster(t, dir)
	kept(c, "kill -9 of the server")
	stalePID(t, c)
	c = startCluster(t, dir)
	kept(c, "stale postmaster.pid")
}

func TestTheProgramConnectsByTheSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "a \"b\" ") // short, unlike t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	stopAtEnd(t, dir)
	first := startCluster(t, dir)
	bySocket := func(c *Cluster, url string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		var local bool
		if err := conn.QueryRow(t.Context(), "SELECT inet_server_addr() IS NULL").Scan(&local); err != nil || !local {
			t.Errorf("local %t, %v", local, err)
		}
		if _, err := pgx.Connect(t.Context(), strings.Replace(c.LocalURL("postgres"),
			c.password, "wrong", 1)); err == nil {
			t.Error("the socket admits a wrong password")
		}
	}
	owner, program, err := first.EnsureDatabase(t.Context(), "partnerd")
	if err != nil {
		t.Fatal(err)
	}
	bySocket(first, owner)
	bySocket(first, program)
	if info, err := os.Stat(filepath.Join(dir, "socket")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder of the socket: %v %v", info, err)
	}
	bySocket(startCluster(t, dir), program) // adopted

	if err := syscall.Kill(serverPID(t, first), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server's processes end", func() bool { return !running(t, first) })
	lock := filepath.Join(dir, "socket", fmt.Sprintf(".s.PGSQL.%d.lock", first.port))
	// its process ID now belongs to another process
	if err := os.WriteFile(lock, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600); err != nil {
		t.Fatal(err)
	}
	again := startCluster(t, dir)
	bySocket(again, again.LocalURL("postgres"))
}

func TestAFolderThatIsTooLongForASocketHasNone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 25))
	stopAtEnd(t, dir)
	c := startCluster(t, dir)
	if c.socket != "" || c.LocalURL("postgres") != c.URL("postgres") {
		t.Errorf("socket in %s", c.socket)
	}
	query(t, c, "SELECT 'yes'")
}

// stalePID leaves the cluster as if its server had been killed and its process ID reused by a live process of the same
// user.
func stalePID(t *testing.T, c *Cluster) {
	t.Helper()
	file := c.path("data/postmaster.pid")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	acct, err := chooseAccount(c.dir, c.path("data"))
	if err != nil {
		t.Fatal(err)
	}
	foreign := acct.command("/bin/sh", "-c", "exec sleep 600")
	if err := foreign.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !alive(foreign.Process.Pid) {
			t.Error("a process that is no part of the cluster was killed")
		}
		foreign.Process.Kill()
		foreign.Wait()
	})
	syscall.Kill(serverPID(t, c), syscall.SIGKILL)
	eventually(t, "the server's processes end", func() bool { return !running(t, c) })
	_, rest, _ := strings.Cut(string(content), "\n")
	if err := os.WriteFile(file, fmt.Appendf(nil, "%d\n%s", foreign.Process.Pid, rest), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestClusterOutlivesAKilledOwnerAndIsAdopted(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	owner, pid := child(t, dir)
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("server is in process group %d (%v): an interrupt at the terminal would reach it", group, err)
	}
	owner.Process.Kill()
	owner.Wait()

	c := startCluster(t, dir)
	if got := serverPID(t, c); got != pid {
		t.Errorf("server %d instead of the running %d", got, pid)
	}
	query(t, c, "SELECT 'answers'")

	_, seen := child(t, dir) // a second user: ours may leave, the server stays
	stop(t, c)
	if seen != pid || !running(t, c) {
		t.Error("server stopped while another process uses it")
	}
}

func TestClusterStartedByManyAtOnceIsOne(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	pids := make([]int, 4)
	var wg sync.WaitGroup
	for i := range pids {
		wg.Go(func() {
			c, err := Start(t.Context(), Options{Dir: dir, Fast: true})
			if err != nil {
				t.Error(err)
				return
			}
			pids[i], _, err = c.readPID()
			if err != nil {
				t.Error(err)
			}
			t.Cleanup(func() { c.Stop(context.Background()) })
		})
	}
	_, pid := child(t, dir)
	wg.Wait()
	for _, p := range pids {
		if p != pid {
			t.Errorf("servers %v and %d in one folder", pids, pid)
		}
	}
}

// Directories of t.TempDir are closed to other accounts, so as root the tests above need the capability. This test
// needs none.
func TestClusterInOpenFolderRunsWithoutPrivilegeAndShowsItsLogOnFailure(t *testing.T) {
	t.Parallel()
	base, err := os.MkdirTemp("", "partnerd-cluster-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "cluster")
	stopAtEnd(t, dir)
	c := startCluster(t, dir)
	acct, err := chooseAccount(c.dir, c.path("data"))
	if err != nil {
		t.Fatal(err)
	}
	if err := acct.reach(c.path("data"), "/bin/true"); err != nil || len(acct.caps) > 0 {
		t.Errorf("capabilities %v for an open folder (%v)", acct.caps, err)
	}
	if acct.uid == 0 {
		t.Error("the database runs as root")
	}
	if info, err := os.Stat(c.path("password")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("password file: %v %v", info, err)
	}
	if _, err := pgx.Connect(t.Context(), strings.Replace(c.URL("postgres"), c.password, "wrong", 1)); err == nil {
		t.Error("server admits a wrong password")
	}
	port := c.port
	stop(t, c)

	taken, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	c = startCluster(t, dir)
	if c.port == port {
		t.Errorf("port %d is another program's", port)
	}
	query(t, c, "SELECT 'answers'")
	stop(t, c)
	taken.Close()

	conf, err := os.OpenFile(c.path("data/postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(conf, "no_such_setting = 1")
	conf.Close()
	if _, err := Start(t.Context(), Options{Dir: dir}); err == nil ||
		!strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("error without the server's reason: %v", err)
	}
}

// fakePostgres creates an installation that only prints its version.
func fakePostgres(t *testing.T, bin, version string) {
	t.Helper()
	script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n"
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBinarySearchOrderAndVersion(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	downloads := filepath.Join(root, "binaries")
	onPath, old, newer := filepath.Join(root, "path"), filepath.Join(root, "pg/9/bin"), filepath.Join(root, "pg/16/bin")
	fakePostgres(t, onPath, "15.4 (Debian 15.4-1)")
	fakePostgres(t, old, "9.6.24")
	fakePostgres(t, filepath.Join(root, "pg/14/bin"), "14.1")
	fakePostgres(t, newer, "16beta1")
	fakePostgres(t, filepath.Join(downloads, "17/bin"), "17.5")
	noServer := httptest.NewServer(http.NotFoundHandler())
	defer noServer.Close()

	missing := func(string) (string, error) { return "", exec.ErrNotFound }
	withPath := func(name string) (string, error) {
		if name == "postgres" {
			return filepath.Join(onPath, name), nil
		}
		return missing(name)
	}
	patterns := []string{filepath.Join(root, "pg/*/bin")}
	for _, tc := range []struct {
		name     string
		search   binarySearch
		version  string
		want     string
		problems []string
	}{
		{"PATH first", binarySearch{lookPath: withPath, patterns: patterns}, "", onPath, nil},
		{"newest of the others", binarySearch{lookPath: missing, patterns: patterns}, "", newer, nil},
		{"version of the data", binarySearch{lookPath: withPath, patterns: patterns}, "16", newer, nil},
		{"earlier download", binarySearch{lookPath: missing}, "", filepath.Join(downloads, "17/bin"), nil},
		{"version nobody has", binarySearch{lookPath: withPath, patterns: patterns, repository: noServer.URL}, "18", "",
			[]string{"PostgreSQL 18", "wrote the existing data", onPath + " (15)", old + " (9)",
				"PARTNERD_DATABASE_URL", "install"}},
		{"version out of support", binarySearch{lookPath: withPath, patterns: patterns}, "9.6", "", []string{`"9.6"`}},
	} {
		got, err := tc.search.find(t.Context(), tc.version, downloads, account{})
		if tc.want != "" && (err != nil || got != tc.want) {
			t.Errorf("%s: %q, %v", tc.name, got, err)
		}
		for _, p := range tc.problems {
			if err == nil || !strings.Contains(err.Error(), p) {
				t.Errorf("%s: error does not name %q: %v", tc.name, p, err)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(downloads, "download-*")); len(left) > 0 {
		t.Errorf("failed download left %v", left)
	}
}
