//go:build unix

package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/base/poll"
)

// The cluster's directory contains
//
//	data/          the database files; exists only when complete
//	data.new-*/    an initialisation in progress, or the remains of a killed one
//	password       of the superuser, who only creates roles and databases, 0600
//	password.*     of the roles that own the tables and that the program uses, 0600
//	port           the port of the last start, tried first at the next one
//	socket/        the socket that the program connects to, cheaper than the port; only for the server's account
//	postgres.log   the server's own log; never statements or values
//	binaries/      downloaded Postgres, if the machine has none
//	start.lock     held exclusively while a process starts, adopts or stops the server
//	users.lock     held shared by every process that uses the cluster, for as long as it does
//	server.lock    held exclusively by the server's processes themselves, so it shows exactly whether one runs:
//	               process IDs are reused, an inherited lock is not
const (
	superuser        = "partnerd"
	ownerRole        = "partnerd_owner"
	programRole      = "partnerd_program"
	startTimeout     = 2 * time.Minute // a start after a crash replays the WAL first
	pollInterval     = 25 * time.Millisecond
	keepInterval     = time.Second
	maxClusterLog    = 1 << 20 // bytes; a larger log is set aside at the next start
	freshPrefix      = "data.new-"
	addressInUseText = "could not create any TCP/IP sockets"
	noSocketText     = "could not create any Unix-domain sockets"
	maxSocketPath    = 100 // bytes; the limit is 103 on macOS, 107 on Linux
)

// Options configures a private Postgres cluster.
type Options struct {
	Dir    string       // directory of the cluster; created if absent
	Fast   bool         // trades durability for speed: test databases only
	Logger *slog.Logger // nil discards all messages
}

// Cluster is a running private Postgres server, shared by all processes that started or adopted it. It listens on
// 127.0.0.1, and on a Unix socket where its directory allows one. Clients need the password kept in its directory.
type Cluster struct {
	opts     Options
	dir      string // absolute, without symbolic links
	password string
	port     int
	socket   string   // directory of the server's socket; empty for none
	users    *os.File // users.lock, shared
}

// Start starts the cluster in opts.Dir or adopts the server that already runs there. On first use it initialises the
// directory. Several processes may call it at the same time. The server outlives the process that started it: it ends
// when its last user calls [Cluster.Stop].
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	c, err := open(opts)
	if err != nil {
		return nil, err
	}
	start, err := lockFile(ctx, c.path("start.lock"))
	if err != nil {
		return nil, err
	}
	defer start.Close()
	if c.users, err = lockShared(c.path("users.lock")); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.start(ctx); err != nil {
		unlock(c.users)
		return nil, fmt.Errorf("start own Postgres in %s: %w", c.dir, err)
	}
	return c, nil
}

// Stop stops the server of the cluster in opts.Dir unless a process still uses it. stopped reports whether no server
// runs there any longer.
func Stop(ctx context.Context, opts Options) (stopped bool, err error) {
	if _, err := os.Stat(opts.Dir); errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	c, err := open(opts)
	if err != nil {
		return false, err
	}
	start, err := lockFile(ctx, c.path("start.lock"))
	if err != nil {
		return false, err
	}
	defer start.Close()
	if c.users, err = tryLock(c.path("users.lock")); err != nil || c.users == nil {
		return false, err
	}
	defer unlock(c.users)
	return true, c.shutDown(ctx)
}

// Stop declares that this process no longer uses the cluster. The last user to do so stops the server, which rolls back
// open transactions. A process that dies without calling Stop no longer counts as a user. The server then keeps running
// until the next process adopts and stops it.
func (c *Cluster) Stop(ctx context.Context) error {
	if c.users == nil {
		return nil
	}
	unlock(c.users)
	c.users = nil
	_, err := Stop(ctx, c.opts)
	return err
}

// Keep restarts the server whenever it ends on its own, for example killed for lack of memory, until ctx ends.
func (c *Cluster) Keep(ctx context.Context) {
	look := time.NewTicker(keepInterval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if err := c.revive(ctx); err != nil && ctx.Err() == nil {
			c.opts.Logger.Error("own Postgres has ended and does not start", "dir", c.dir, "error", err)
		}
	}
}

func (c *Cluster) revive(ctx context.Context) error {
	lock, err := tryLock(c.path("server.lock"))
	if err != nil || lock == nil {
		return err // nil: the server is running
	}
	lock.Close()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	start, err := lockFile(ctx, c.path("start.lock"))
	if err != nil {
		return err
	}
	defer start.Close()
	again := *c
	if err := again.start(ctx); err != nil {
		return err
	}
	if again.socket == "" && c.socket != "" {
		return fmt.Errorf("%s takes no socket any more: restart the program, which expects the server there", c.socket)
	}
	if again.port != c.port {
		return fmt.Errorf("port %d was taken meanwhile: restart the program, which expects the server "+
			"there and not at %d", c.port, again.port)
	}
	c.opts.Logger.Warn("own Postgres had ended and runs again", "dir", c.dir)
	return nil
}

// URL returns the URL of a database of the cluster for the superuser. The program itself uses the URLs of
// [Cluster.EnsureDatabase]. URL creates nothing.
func (c *Cluster) URL(database string) string { return c.url("", superuser, c.password, database) }

// LocalURL is [Cluster.URL] through the server's socket, if it has one.
func (c *Cluster) LocalURL(database string) string {
	return c.url(c.socket, superuser, c.password, database)
}

// url returns a URL through the socket directory, or through the port if socket is empty.
func (c *Cluster) url(socket, role, password, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(role, password),
		Path:     "/" + database,
		RawQuery: "sslmode=disable&require_auth=scram-sha-256",
	}
	if socket == "" {
		u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port))
	} else {
		host := strings.ReplaceAll(url.QueryEscape(socket), "+", "%20") // some parsers do not decode "+" as a space
		u.RawQuery += "&host=" + host + "&port=" + strconv.Itoa(c.port)
	}
	return u.String()
}

func open(opts Options) (*Cluster, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("find folder of own Postgres: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create folder of own Postgres: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("find folder of own Postgres: %w", err)
	}
	return &Cluster{opts: opts, dir: dir}, nil
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) start(ctx context.Context) error {
	acct, err := chooseAccount(c.dir, c.path("data"))
	if err != nil {
		return err
	}
	lock, err := c.adoptOrLock(ctx)
	if err != nil || lock == nil {
		return err
	}
	defer lock.Close() // the server holds it once started
	bin, err := c.initialise(ctx, &acct)
	if err != nil {
		return err
	}
	if adopted, err := c.clearForeignPID(ctx); err != nil || adopted {
		return err
	}
	return c.launch(ctx, bin, acct, lock)
}

// adoptOrLock returns nil once the server that runs here responds, or the lock to start one if none runs.
func (c *Cluster) adoptOrLock(ctx context.Context) (*os.File, error) {
	for {
		lock, err := tryLock(c.path("server.lock"))
		if err != nil || lock != nil {
			return lock, err
		}
		if err := c.readPassword(); err != nil {
			return nil, err
		}
		last := c.adopt(ctx)
		if last == nil {
			return nil, nil
		}
		if !wait(ctx) {
			return nil, fmt.Errorf("a server runs here but does not answer: %w%s", last, c.logTail(0))
		}
	}
}

// adopt connects to the server that postmaster.pid names.
func (c *Cluster) adopt(ctx context.Context) error {
	pid, port, err := c.readPID()
	if err != nil {
		return err
	}
	c.port = port
	if _, err := c.dataDirectory(ctx, c.URL("postgres")); err != nil {
		return err
	}
	c.findSocket(ctx)
	c.opts.Logger.Info("own Postgres adopted", "dir", c.dir, "port", port, "pid", pid)
	return nil
}

// clearForeignPID handles a postmaster.pid left by a killed server whose process ID now belongs to another process. The
// server would refuse to start. If a server of this directory was started manually, it is adopted instead. The rest of
// the file stays, because Postgres uses it to find orphans of the dead server.
func (c *Cluster) clearForeignPID(ctx context.Context) (adopted bool, err error) {
	file := c.path("data/postmaster.pid")
	pid, port, err := c.readPID()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, errDamagedPID): // left by a crash of the machine; contains nothing of value
		return false, os.Remove(file)
	case err != nil:
		return false, err
	case !alive(pid):
		return false, nil // Postgres detects that itself
	}
	if port != 0 {
		c.port = port
		if dir, err := c.dataDirectory(ctx, c.URL("postgres")); err == nil && sameFile(dir, c.path("data")) {
			c.findSocket(ctx)
			return true, nil
		}
	}
	content, err := readPlain(file)
	if err != nil {
		return false, fmt.Errorf("read stale postmaster.pid: %w", err)
	}
	_, rest, _ := strings.Cut(string(content), "\n")
	// Postgres considers a file stale if it contains the process ID of its own parent.
	if err := rewrite(file, fmt.Sprintf("%d\n%s", os.Getpid(), rest)); err != nil {
		return false, fmt.Errorf("mark postmaster.pid as stale: %w", err)
	}
	c.opts.Logger.Warn("stale postmaster.pid named another live process", "dir", c.dir, "pid", pid)
	return false, nil
}

var errDamagedPID = errors.New("postmaster.pid holds no process number")

// readPID reads postmaster.pid. port is 0 if the server has not written it yet.
func (c *Cluster) readPID() (pid, port int, err error) {
	content, err := readPlain(c.path("data/postmaster.pid"))
	if err != nil {
		return 0, 0, fmt.Errorf("read postmaster.pid: %w", err)
	}
	lines := strings.Split(string(content), "\n")
	if pid, err = strconv.Atoi(strings.TrimSpace(lines[0])); err != nil || pid < 1 {
		return 0, 0, fmt.Errorf("%w: %q", errDamagedPID, lines[0])
	}
	if len(lines) > 3 {
		port, _ = strconv.Atoi(strings.TrimSpace(lines[3]))
	}
	return pid, port, nil
}

func (c *Cluster) readPassword() error {
	content, err := readPlain(c.path("password"))
	if err != nil {
		return fmt.Errorf("read password of own Postgres (restore it, or remove the folder to begin anew): %w", err)
	}
	if c.password = strings.TrimSpace(string(content)); c.password == "" {
		return fmt.Errorf("password file %s is empty: restore it, or remove the folder to begin anew",
			c.path("password"))
	}
	return nil
}

// findSocket checks whether the running server also responds on its socket. A server started by an older release has
// none.
func (c *Cluster) findSocket(ctx context.Context) {
	folder := c.path("socket")
	if dir, err := c.dataDirectory(ctx, c.url(folder, superuser, c.password, "postgres")); err == nil &&
		sameFile(dir, c.path("data")) {
		c.socket = folder
	}
}

// dataDirectory asks the server at url which directory it serves.
func (c *Cluster) dataDirectory(ctx context.Context, url string) (dir string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, "SHOW data_directory").Scan(&dir)
	return dir, err
}

// wait pauses between two checks of a condition. It returns false when ctx is over.
func wait(ctx context.Context) bool { return poll.Pause(ctx, pollInterval) }

func newPassword() string {
	b := make([]byte, 24)
	rand.Read(b)
	return hex.EncodeToString(b)
}
