// Package valkeytest starts servers compatible with Valkey for tests.
package valkeytest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	looks     = 3000 // checks whether a server has started, for about a minute
	lookEvery = 20 * time.Millisecond
	ports     = 20 // ports to try, in case another process takes one at the same moment
)

// Server is a server that keeps nothing on disk. It ends with the test.
type Server struct {
	Addr string
	path string
	dir  string
	cmd  *exec.Cmd
}

// Start starts a server on a free port of this machine. If none is installed it skips the test and reports that.
func Start(t *testing.T) *Server {
	t.Helper()
	s := &Server{dir: t.TempDir()}
	for _, name := range []string{"valkey-server", "redis-server"} {
		if path, err := exec.LookPath(name); err == nil && s.path == "" {
			s.path = path
		}
	}
	if s.path == "" {
		fmt.Printf("NOT CHECKED: %s needs valkey-server or redis-server\n", t.Name())
		t.Skip("NOT CHECKED: neither valkey-server nor redis-server is installed")
	}
	for range ports {
		// below the range for outgoing connections, so that the port is still free after a restart
		s.Addr = fmt.Sprint("127.0.0.1:", 20000+rand.IntN(10000))
		if s.start(t) {
			t.Cleanup(s.Kill)
			return s
		}
	}
	t.Fatal("no server of the kind of Valkey starts")
	return nil
}

// URL returns the URL for clients.
func (s *Server) URL() string { return "valkey://" + s.Addr }

// Kill kills the server immediately, as the system does when memory runs out. Its data is lost.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// Restart starts an empty server at the killed one's address.
func (s *Server) Restart(t *testing.T) {
	t.Helper()
	for range ports {
		if s.start(t) {
			return
		}
	}
	t.Fatal("the server does not start again")
}

// Freeze stops the server's process until [Server.Thaw]. The process has stopped when Freeze returns.
func (s *Server) Freeze() {
	var state syscall.WaitStatus
	_ = s.cmd.Process.Signal(syscall.SIGSTOP)
	_, _ = syscall.Wait4(s.cmd.Process.Pid, &state, syscall.WUNTRACED, nil)
}

// Thaw resumes a frozen server.
func (s *Server) Thaw() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

// start reports whether the server responds. If it does not, the server has been stopped.
func (s *Server) start(t *testing.T) bool {
	t.Helper()
	_, port, _ := net.SplitHostPort(s.Addr)
	s.cmd = exec.Command(s.path, "--bind", "127.0.0.1", "--port", port, "--dir", s.dir, "--save", "",
		"--appendonly", "no", "--logfile", "/dev/null")
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range looks {
		if s.isOurs() {
			return true
		}
		if s.ended() {
			break
		}
		time.Sleep(lookEvery)
	}
	s.Kill()
	return false
}

// isOurs reports whether the response comes from our process, and not from another one on the same port.
func (s *Server) isOurs() bool {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	late := time.AfterFunc(5*time.Second, func() { conn.Close() })
	defer late.Stop()
	if _, err := conn.Write([]byte("INFO server\r\n")); err != nil {
		return false
	}
	var said strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		said.Write(buf[:n])
		if strings.Contains(said.String(), fmt.Sprintf("process_id:%d\r\n", s.cmd.Process.Pid)) {
			return true
		}
		if err != nil {
			return false
		}
	}
}

func (s *Server) ended() bool {
	var info syscall.WaitStatus
	pid, err := syscall.Wait4(s.cmd.Process.Pid, &info, syscall.WNOHANG, nil)
	return err == nil && pid == s.cmd.Process.Pid
}
