package process_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// dbServer is a Postgres server that tests control fully.
type dbServer struct {
	bin     string
	data    string
	host    string // address; if several with commas, tests use the first
	port    string
	network string // its network namespace; empty: that of the test
	sockets string // folder; empty: none
	cred    *syscall.Credential
	process *exec.Cmd // nil once it has ended
}

// serverFolder creates a folder for the data of servers and returns how to run Debian's Postgres, still without host
// and port.
func serverFolder(t *testing.T) (dir string, s dbServer) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		fmt.Printf("NOT CHECKED: %s needs Debian's postgresql\n", t.Name())
		t.Skip("NOT CHECKED: postgresql is not installed")
	}
	dir, err := os.MkdirTemp("", "partnerd-postgres-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s = dbServer{bin: slices.Max(found), host: "127.0.0.1"}
	if account, err := user.Lookup("postgres"); err == nil && os.Getuid() == 0 { // a server refuses to run as root
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		s.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		s.own(t, dir)
	}
	return dir, s
}

// newServers prepares n servers in one folder, each with its own port. The first is initialised; the others are to
// become copies.
func newServers(t *testing.T, n int) (dir string, all []*dbServer) {
	t.Helper()
	dir, server := serverFolder(t)
	for i := range n {
		s := server
		s.data, s.sockets = filepath.Join(dir, strconv.Itoa(i)), dir
		_, s.port, _ = strings.Cut(freeAddress(t), ":")
		all = append(all, &s)
	}
	all[0].run(t, "initdb", "-D", all[0].data, "-U", "owner", "--auth=trust", "--no-sync")
	return dir, all
}

// own gives a folder to the account of the server.
func (s *dbServer) own(t *testing.T, dir string) {
	t.Helper()
	if s.cred == nil {
		return
	}
	if err := os.Chown(dir, int(s.cred.Uid), int(s.cred.Gid)); err != nil {
		t.Fatal(err)
	}
}

func (s *dbServer) address() string {
	host, _, _ := strings.Cut(s.host, ",")
	return host + ":" + s.port
}

func (s *dbServer) url(role, database string) string { return s.urlAt(s.address(), role, database) }

// urlAt returns the URL of the server through another address.
func (s *dbServer) urlAt(address, role, database string) string {
	return "postgres://" + role + "@" + address + "/" + database + "?sslmode=disable"
}

func (s *dbServer) command(name string, args ...string) *exec.Cmd {
	program, cred := filepath.Join(s.bin, name), s.cred
	if s.network != "" {
		into := []string{"--net=/run/netns/" + s.network}
		if cred != nil {
			into = append(into, fmt.Sprint("--setgid=", cred.Gid), fmt.Sprint("--setuid=", cred.Uid))
		}
		args, program, cred = append(append(into, program), args...), "nsenter", nil
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Setpgid: true}
	return cmd
}

func (s *dbServer) run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := s.command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func (s *dbServer) exec(t *testing.T, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.url("owner", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, text := range statements {
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// start starts the server and waits until it accepts connections.
func (s *dbServer) start(t *testing.T, settings ...string) {
	t.Helper()
	said := s.launch(t, settings...)
	await(t, readyWithin, s.ready, said.String)
}

// launch starts the server without waiting.
func (s *dbServer) launch(t *testing.T, settings ...string) (said *transcript) {
	t.Helper()
	args := []string{"-D", s.data, "-p", s.port, "-h", s.host}
	for _, setting := range append([]string{"unix_socket_directories=" + s.sockets, "max_connections=150"},
		settings...) {
		args = append(args, "-c", setting)
	}
	said = &transcript{}
	s.process = s.command("postgres", args...)
	s.process.Stderr = said
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("the server of %s said:\n%s", s.data, lastLines(said.String(), 15))
		}
	})
	return said
}

func (s *dbServer) ready() bool {
	within, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	conn, err := pgx.Connect(within, s.url("owner", "postgres"))
	if err == nil {
		conn.Close(context.Background())
	}
	return err == nil
}

// kill ends the server and its sessions immediately, like a power failure.
func (s *dbServer) kill() {
	if s.process == nil {
		return
	}
	s.signal(syscall.SIGKILL)
	_ = s.process.Wait()
	s.process = nil
}

// freeze stops the server and its sessions without a word, like a hanging disk. Connections stay open and get no
// response.
func (s *dbServer) freeze() { s.signal(syscall.SIGSTOP) }

// signal also reaches sessions. They have their own process groups and, when stopped, outlive a server.
func (s *dbServer) signal(what syscall.Signal) {
	server := s.process.Process.Pid
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(server)).Output()
	_ = syscall.Kill(server, what)
	for child := range strings.FieldsSeq(string(out)) {
		if pid, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(pid, what)
		}
	}
}
