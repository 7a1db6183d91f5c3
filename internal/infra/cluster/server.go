//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// initialise returns the directory of the binaries to run, and creates the data directory if it is absent. It works in
// a temporary directory and renames it, so that an interrupted initialisation is never mistaken for a database.
func (c *Cluster) initialise(ctx context.Context, acct *account) (bin string, err error) {
	data := c.path("data")
	version, err := readPlain(filepath.Join(data, "PG_VERSION"))
	if err == nil {
		if err := c.readPassword(); err != nil {
			return "", err
		}
		return c.binaries(ctx, acct, strings.TrimSpace(string(version)), data)
	}
	if _, statErr := os.Stat(data); !errors.Is(err, fs.ErrNotExist) || statErr == nil {
		return "", fmt.Errorf("%s is no usable database folder: %w", data, err)
	}
	fresh, err := c.freshFolder(*acct)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh) // already renamed unless this fails
	if bin, err = c.binaries(ctx, acct, "", fresh); err != nil {
		return "", err
	}
	c.password = newPassword()
	if err := c.initdb(ctx, bin, *acct, fresh); err != nil {
		return "", err
	}
	hba := "# Written by the program.\nhost all all 127.0.0.1/32 scram-sha-256\n"
	if err := rewrite(filepath.Join(fresh, "pg_hba.conf"), hba); err != nil {
		return "", fmt.Errorf("write pg_hba.conf: %w", err)
	}
	if err := writeSync(c.path("password"), c.password+"\n"); err != nil {
		return "", fmt.Errorf("write password file: %w", err)
	}
	if err := errors.Join(os.Rename(fresh, data), syncDir(c.dir)); err != nil {
		return "", fmt.Errorf("put data folder in place: %w", err)
	}
	c.opts.Logger.Info("own Postgres initialised", "dir", c.dir, "binaries", bin)
	return bin, nil
}

// freshFolder creates the directory to initialise and removes the remains of interrupted initialisations. Its name is
// new each time, because an initdb that outlived its caller may still write to the old one.
func (c *Cluster) freshFolder(acct account) (string, error) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return "", fmt.Errorf("list cluster folder: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), freshPrefix) {
			if err := os.RemoveAll(c.path(e.Name())); err != nil {
				c.opts.Logger.Warn("rest of an interrupted initialisation stays", "error", err)
			}
		}
	}
	fresh, err := os.MkdirTemp(c.dir, freshPrefix)
	if err == nil && acct.drop {
		err = os.Lchown(fresh, acct.uid, acct.gid)
	}
	if err != nil {
		return "", fmt.Errorf("make data folder: %w", err)
	}
	return fresh, nil
}

// binaries finds the binaries and ensures that the account can run them on folder.
func (c *Cluster) binaries(ctx context.Context, acct *account, version, folder string) (string, error) {
	bin, err := systemBinaries().find(ctx, version, c.path("binaries"), *acct)
	if err != nil {
		return "", err
	}
	return bin, acct.reach(folder, filepath.Join(bin, "postgres"))
}

func (c *Cluster) initdb(ctx context.Context, bin string, acct account, data string) error {
	secret := c.path("initdb.password")
	f, err := makeAnew(secret, c.password)
	if err != nil {
		return fmt.Errorf("hand initdb the password: %w", err)
	}
	defer os.Remove(secret)
	if err := errors.Join(acct.own(f), f.Close()); err != nil {
		return fmt.Errorf("hand initdb the password: %w", err)
	}
	// The C library of some systems lacks C.UTF-8; C sorts in the same order.
	var out []byte
	for _, locale := range []string{"C.UTF-8", "C"} {
		args := []string{
			"-D", data, "--username=" + superuser, "--pwfile=" + secret, "--auth=scram-sha-256",
			"--encoding=UTF8", "--locale=" + locale, "--lc-messages=C", "--no-instructions",
		}
		if c.opts.Fast {
			args = append(args, "--no-sync")
		}
		cmd := acct.command(filepath.Join(bin, "initdb"), args...)
		out, err = runUntil(ctx, cmd)
		if err == nil || !strings.Contains(string(out), "invalid locale name") {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("initialise database with %s/initdb: %w\n%s", bin, err, tail(string(out)))
	}
	return nil
}

// runUntil runs cmd. When ctx ends it kills cmd and everything cmd started.
func runUntil(ctx context.Context, cmd *exec.Cmd) ([]byte, error) {
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err := cmd.Wait()
	if !stop() && err != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return []byte(out.String()), err
}

// launch starts the server, which keeps the lock, on the port of the last start if that is free.
func (c *Cluster) launch(ctx context.Context, bin string, acct account, lock *os.File) error {
	log, err := c.openLog(acct)
	if err != nil {
		return err
	}
	defer log.Close()
	socket := c.makeSocketFolder(acct)
	for try := 1; ; try++ {
		if c.port, err = c.choosePort(); err != nil {
			return err
		}
		info, err := log.Stat()
		if err != nil {
			return fmt.Errorf("read size of server log: %w", err)
		}
		cmd := acct.command(filepath.Join(bin, "postgres"), c.serverArgs(socket)...)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.ExtraFiles = []*os.File{lock}
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("start %s: %w", cmd.Path, err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if err = c.awaitServer(ctx, ended); err == nil {
			c.findSocket(ctx)
			c.opts.Logger.Info("own Postgres started", "dir", c.dir, "port", c.port, "pid", cmd.Process.Pid,
				"binaries", bin)
			return nil
		}
		failure := c.logTail(info.Size())
		if errors.Is(err, errServerEnded) && strings.Contains(failure, addressInUseText) && try < 5 {
			continue // another process took the port between the choice and the start
		}
		if errors.Is(err, errServerEnded) && strings.Contains(failure, noSocketText) && socket != "" {
			socket = ""
			continue // the file system does not support sockets
		}
		if !errors.Is(err, errServerEnded) {
			_ = cmd.Process.Signal(syscall.SIGQUIT)
			<-ended
		}
		return fmt.Errorf("%w%s", err, failure)
	}
}

var errServerEnded = errors.New("the server ended at its start")

func (c *Cluster) awaitServer(ctx context.Context, ended <-chan error) error {
	for {
		_, err := c.dataDirectory(ctx, c.URL("postgres"))
		if err == nil {
			return nil
		}
		select {
		case cause := <-ended:
			return fmt.Errorf("%w (%v)", errServerEnded, cause) //nolint:errorlint // it may be nil
		default:
		}
		if !wait(ctx) {
			return fmt.Errorf("the server does not answer: %w", err)
		}
	}
}

// makeSocketFolder recreates the directory for the server's socket. Files left by a killed server may name a process ID
// that now belongs to another process. It returns "" if there is to be no socket.
func (c *Cluster) makeSocketFolder(acct account) string {
	folder := c.path("socket")
	if len(filepath.Join(folder, ".s.PGSQL.65535")) > maxSocketPath {
		return ""
	}
	err := errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o700))
	if err == nil && acct.drop {
		err = os.Lchown(folder, acct.uid, acct.gid)
	}
	if err == nil {
		err = c.admitLocal()
	}
	if err != nil {
		c.opts.Logger.Warn("own Postgres gets no socket", "dir", c.dir, "error", err)
		return ""
	}
	return folder
}

// admitLocal allows connections through a socket, unless pg_hba.conf already has a rule for them.
func (c *Cluster) admitLocal() error {
	path := c.path("data/pg_hba.conf")
	rules, err := readPlain(path)
	if err != nil || localRule.Match(rules) {
		return err
	}
	f, err := openPlain(path, os.O_APPEND|os.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = f.WriteString("local all all scram-sha-256\n")
	return errors.Join(err, f.Close())
}

var localRule = regexp.MustCompile(`(?m)^local\s`)

// quoted quotes a directory as an item of a list of directories. In a URL, a path with a comma would be a list of
// hosts: the port is used in that case.
func quoted(folder string) string {
	if folder == "" {
		return ""
	}
	return `"` + strings.ReplaceAll(folder, `"`, `""`) + `"`
}

func (c *Cluster) serverArgs(socket string) []string {
	settings := []string{
		"port=" + strconv.Itoa(c.port), "listen_addresses=127.0.0.1", "unix_socket_directories=" + quoted(socket),
		"shared_buffers=128MB", "max_connections=200", "jit=off", "timezone=UTC",
		"password_encryption=scram-sha-256",
		// A new database starts empty: plans made while its tables were empty must not last a minute.
		"autovacuum_naptime=10s",
		// Errors of statements are returned to the client. Logging them would only write personal data to a file.
		"logging_collector=off", "log_destination=stderr", "log_min_messages=log", "log_checkpoints=off",
		"log_line_prefix=%m [%p] ", "log_timezone=UTC",
	}
	if c.opts.Fast {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off",
			"wal_level=minimal", "max_wal_senders=0", "max_connections=400")
	}
	args := []string{"-D", c.path("data")}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	return args
}

// The ports lie below the range for outgoing connections. A client that keeps retrying a port in that range may be
// assigned that very port, and the server could not get it back.
const firstPort, lastPort = 20000, 30000

// choosePort returns the port of the last start if it is free, or any free one, and stores it.
func (c *Cluster) choosePort() (int, error) {
	content, _ := readPlain(c.path("port"))
	last, _ := strconv.Atoi(strings.TrimSpace(string(content))) // absent or damaged: any port
	var candidates []int
	if last != 0 {
		candidates = append(candidates, last)
	}
	for range 20 {
		candidates = append(candidates, firstPort+rand.IntN(lastPort-firstPort))
	}
	for _, want := range append(candidates, 0) {
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(want)))
		if err != nil {
			if want == 0 {
				return 0, fmt.Errorf("find a free port: %w", err)
			}
			continue
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port != last {
			if err := writeSync(c.path("port"), strconv.Itoa(port)+"\n"); err != nil {
				return 0, fmt.Errorf("remember port: %w", err)
			}
		}
		return port, nil
	}
	return 0, errors.New("no free port")
}

// shutDown stops the server if it is running: sessions are disconnected and data is written to disk.
func (c *Cluster) shutDown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	signalled := 0
	for {
		lock, err := tryLock(c.path("server.lock"))
		if err != nil {
			return err
		}
		if lock != nil {
			lock.Close()
			if signalled != 0 {
				c.opts.Logger.Info("own Postgres stopped", "dir", c.dir, "pid", signalled)
			}
			return nil
		}
		if pid, _, err := c.readPID(); err == nil && pid != signalled && maybeServer(pid) {
			if err := syscall.Kill(pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("stop own Postgres (process %d): %w", pid, err)
			}
			signalled = pid
		}
		if !wait(ctx) {
			return fmt.Errorf("own Postgres in %s is still stopping: %w%s", c.dir, ctx.Err(), c.logTail(0))
		}
	}
}

// openLog opens the server's log for appending.
func (c *Cluster) openLog(acct account) (*os.File, error) {
	path := c.path("postgres.log")
	if info, err := os.Lstat(path); err == nil && info.Size() > maxClusterLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("set full server log aside: %w", err)
		}
	}
	f, err := openPlain(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY)
	if err != nil {
		return nil, fmt.Errorf("open server log: %w", err)
	}
	if err := acct.own(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("open server log: %w", err)
	}
	return f, nil
}

// logTail returns the last lines that the server logged after offset, for the end of an error message.
func (c *Cluster) logTail(offset int64) string {
	content, err := readPlain(c.path("postgres.log"))
	if err != nil || int64(len(content)) <= offset {
		return ""
	}
	return "\n" + c.path("postgres.log") + ":\n" + tail(string(content[offset:]))
}

func tail(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
