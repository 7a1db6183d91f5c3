// Package dbtest gives every test its own Postgres database with all migrations applied. Tests open it with the
// program's role, which has no further privileges. Changes that the program may not make (to append-only tables, or to
// the schema) go through [Owner].
//
// A database is a copy of a template, or one that an earlier test of the same test program has left. The latter is
// emptied and renamed, which costs a tenth of a copy: a copy writes 800 files. If a test changed its tables, privileges
// or statistics, the database is dropped instead. The template's name contains a hash of the migrations, so a changed
// migration leads to a new template.
//
// The server is the one at PARTNERD_TEST_DATABASE_URL, with a role that may create databases and roles. Without this
// variable it is a cluster in .data/test below the module's root, which trades durability for speed. That cluster stays
// up between test programs; [Stop] ends it.
//
// Any number of test programs may run at the same time. Each holds advisory locks on its run and its template while it
// lives. So the next run recognises and drops exactly what a killed run left.
package dbtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/id"
	"partnerd/internal/base/password"
	"partnerd/internal/infra/cluster"
	"partnerd/internal/infra/postgres"
	"partnerd/migrations"
)

const (
	urlVariable    = "PARTNERD_TEST_DATABASE_URL"
	templatePrefix = "partnerd_template_"
	runPrefix      = "partnerd_test_"
	programRole    = "partnerd_test_program"
	buildLock      = "partnerd_building" // also the name of the template while it is being built
	maxConns       = 8                   // per test
	setupTimeout   = 3 * time.Minute
	dropTimeout    = 30 * time.Second
	objectInUse    = "55006" // Postgres error code
)

// New returns a fresh migrated database that uses the machine's clock. It is closed and dropped when the test ends.
// Without a server the test fails.
func New(t testing.TB) *postgres.DB {
	t.Helper()
	return NewWithClock(t, clock.System{})
}

// NewWithClock is [New] with a given clock for the transactions.
func NewWithClock(t testing.TB, clk clock.Clock) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), URL(t), postgres.Options{MaxConns: maxConns, Clock: clk, Test: true})
	if err != nil {
		t.Fatalf("open test database: %v", err)
	}
	t.Cleanup(db.Close)
	return db
}

// Owner opens a test's database as the owner of its tables.
func Owner(t testing.TB, db *postgres.DB) *postgres.DB {
	t.Helper()
	url := OwnerURL(t, db.Pool().Config().ConnString())
	owner, err := postgres.Open(t.Context(), url, postgres.Options{MaxConns: 2, Clock: db.Clock(), Test: true})
	if err != nil {
		t.Fatalf("open test database as its owner: %v", err)
	}
	t.Cleanup(owner.Close)
	return owner
}

// Exec runs a statement that only tests need, with parameters $1, $2 ….
func Exec(ctx context.Context, tx postgres.Tx, sql string, args ...any) error {
	_, err := tx.Exec(ctx, postgres.SQL(postgres.Batch, sql), args...)
	return err
}

// SignIn signs a lawyer in as a member of staff, and returns the session token.
func SignIn(t testing.TB, db *postgres.DB, lawyerID string) (token string) {
	t.Helper()
	err := db.InTx(t.Context(), func(tx postgres.Tx) error {
		token = tx.NewSecret("test")
		if err := Exec(t.Context(), tx, `INSERT INTO staff (id, kind, lawyer_id, email, name, language, roles, password_hash, totp_step, created_at, updated_at)
			VALUES ('stf_' || $1::text, 'LAWYER', $1, $1::text || '@staff.example', 'Lawyer', 'en', '{}', '', 0, $2, $2) ON CONFLICT (id) DO NOTHING`, lawyerID, tx.Now); err != nil {
			return err
		}
		return Exec(t.Context(), tx, `INSERT INTO staff_sessions (token_hash, staff_id, complete, lease_epoch, user_agent, address, created_at, last_used_at, expires_at)
			VALUES ($1, 'stf_' || $2::text, true, 0, 'test', '192.0.2.1', $3, $3, $4)`,
			id.DigestOf(token), lawyerID, tx.Now, tx.Now.Add(12*time.Hour))
	})
	if err != nil {
		t.Fatalf("sign a lawyer in: %v", err)
	}
	return token
}

// AwaitWaiters waits until at least n statements of the test's database wait for a lock. The test fails if that takes
// longer than 20 s.
func AwaitWaiters(t testing.TB, db *postgres.DB, n int) {
	t.Helper()
	for waiting, deadline := -1, time.Now().Add(20*time.Second); waiting < n; <-time.After(5 * time.Millisecond) {
		err := db.Pool().QueryRow(t.Context(),
			`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).
			Scan(&waiting)
		if err != nil || waiting < n && time.Now().After(deadline) {
			t.Errorf("%d of %d wait for a lock: %v", waiting, n, err)
			return
		}
	}
}

// OwnerURL converts an address from [URL] to the one for the owner of the tables.
func OwnerURL(t testing.TB, url string) string {
	t.Helper()
	s, database := at(t, url)
	return s.ownerURL(database)
}

// at returns the server and the database behind an address from [URL].
func at(t testing.TB, url string) (s *server, database string) {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return s, cfg.Database
}

// URL returns the address of a fresh migrated database, for tests of the whole program. The database is dropped when
// the test ends.
func URL(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatalf("no database for tests: %v\nSet %s to a Postgres whose role may create databases and roles, or "+
			"install PostgreSQL >= 14 for the tests' own cluster.", err, urlVariable)
	}
	take := s.take
	if _, ok := unused.Load(t); ok {
		take = s.copyOf
	}
	db, err := take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	atEnd(t, func(ctx context.Context) error { return s.give(ctx, db) })
	return s.url(db.name)
}

// unused holds the tests that called [Unused].
var unused sync.Map

// Unused makes every later database of the test a copy of the template, whose tables never had a row. Tests that check
// table sizes or plans need this. Rows deleted by earlier tests stay in the files, and the planner counts their pages.
func Unused(t testing.TB) {
	unused.Store(t, true)
	t.Cleanup(func() { unused.Delete(t) })
}

// atEnd calls do with a fresh context when the test has ended.
func atEnd(t testing.TB, do func(ctx context.Context) error) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), dropTimeout)
		defer cancel()
		if err := do(ctx); err != nil {
			t.Errorf("give up test database: %v", err)
		}
	})
}

// CopyURL copies the database at an address from [URL] in its current state, like a restore to this point in time. It
// returns the copy's address. No session may be connected to the database, or about to connect.
func CopyURL(t testing.TB, url string) string {
	t.Helper()
	s, database := at(t, url)
	var in *pgconn.PgError
	// Closed sessions take a moment to end.
	for end := time.Now().Add(dropTimeout); ; <-time.After(50 * time.Millisecond) {
		name, err := s.create(t.Context(), database)
		if err == nil {
			atEnd(t, func(ctx context.Context) error { return s.drop(ctx, name) })
			return s.url(name)
		}
		if !errors.As(err, &in) || in.Code != objectInUse || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// Stop ends the tests' own cluster unless a test program still uses it, and reports whether the cluster no longer runs.
// It never touches a server at PARTNERD_TEST_DATABASE_URL.
func Stop(ctx context.Context) (stopped bool, err error) {
	if os.Getenv(urlVariable) != "" {
		return true, nil
	}
	opts, err := clusterOptions()
	if err != nil {
		return false, err
	}
	return cluster.Stop(ctx, opts)
}

// server is shared by all tests of this test program.
type server struct {
	base     string // address of the maintenance database; its role owns everything
	program  string // the same address for the program's role
	template string
	run      string        // prefix of this test program's databases, locked while it lives
	locks    *pgx.Conn     // the session that holds the advisory locks
	admin    *pgxpool.Pool // creates and drops
	count    atomic.Int64

	mu    sync.Mutex
	idle  []idle // databases that tests have left
	fresh string // state of a copy of the template
	seeds string // statements that insert the template's rows
}

// shared connects once per test program. It is a global because tests share nothing else. From then on, password
// hashing is cheap: at full cost it took half of the processor time of the page tests.
var shared = sync.OnceValues(func() (*server, error) {
	password.Cheap(true)
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	base, err := serverURL(ctx)
	if err != nil {
		return nil, err
	}
	return connect(ctx, base, migrations.FS)
})

// used is the cluster of the tests. It is never released, and the variable keeps it reachable. Otherwise the garbage
// collector would close the lock file that marks this program as a user of the cluster.
var used *cluster.Cluster

// serverURL starts or adopts the cluster if no server is configured.
func serverURL(ctx context.Context) (string, error) {
	if u := os.Getenv(urlVariable); u != "" {
		return u, nil
	}
	opts, err := clusterOptions()
	if err != nil {
		return "", err
	}
	// The parent folder can be traversed by others, so the database's account needs no privilege to reach its own.
	if err := os.MkdirAll(filepath.Dir(opts.Dir), 0o755); err != nil {
		return "", fmt.Errorf("make data folder: %w", err)
	}
	if used, err = cluster.Start(ctx, opts); err != nil {
		return "", err
	}
	return used.URL("postgres"), nil
}

func clusterOptions() (cluster.Options, error) {
	dir, err := os.Getwd()
	if err != nil {
		return cluster.Options{}, fmt.Errorf("find module root: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return cluster.Options{Dir: filepath.Join(dir, ".data", "test"), Fast: true}, nil
		}
		if filepath.Dir(dir) == dir {
			return cluster.Options{}, errors.New("find module root: no go.mod in the working directory or above")
		}
		dir = filepath.Dir(dir)
	}
}

// connect takes the locks of this run, drops what dead runs left, and creates the template if it is missing.
func connect(ctx context.Context, base string, migrated fs.FS) (*server, error) {
	name, err := templateName(migrated)
	if err != nil {
		return nil, err
	}
	s := &server{base: base, template: name, run: runPrefix + strings.ToLower(rand.Text()[:12])}
	if s.locks, err = pgx.Connect(ctx, base); err != nil {
		return nil, fmt.Errorf("connect to the test server: %w", err)
	}
	cfg, err := pgxpool.ParseConfig(base)
	if err != nil {
		return nil, fmt.Errorf("read address of the test server: %w", err)
	}
	cfg.MaxConns = 3
	if s.admin, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("connect to the test server: %w", err)
	}
	for _, lock := range []struct{ call, name string }{
		{"pg_advisory_lock", buildLock}, {"pg_advisory_lock", s.run}, {"pg_advisory_lock_shared", s.template},
	} {
		if _, err := s.locks.Exec(ctx, "SELECT "+lock.call+"(hashtextextended($1, 0))", lock.name); err != nil {
			return nil, fmt.Errorf("lock %s: %w", lock.name, err)
		}
	}
	if err := s.dropLeftovers(ctx); err != nil {
		return nil, err
	}
	if err := s.ensureProgram(ctx); err != nil {
		return nil, err
	}
	if err := s.ensureTemplate(ctx); err != nil {
		return nil, err
	}
	if _, err := s.locks.Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", buildLock); err != nil {
		return nil, fmt.Errorf("unlock %s: %w", buildLock, err)
	}
	return s, nil
}

func templateName(migrated fs.FS) (string, error) {
	h := sha256.New()
	err := fs.WalkDir(migrated, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(migrated, path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(content), content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read migrations: %w", err)
	}
	fmt.Fprint(h, migrations.Grants)
	return templatePrefix + hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// ensureProgram creates the program's role. All test programs that share the server know its password, which is derived
// from that of the address.
func (s *server) ensureProgram(ctx context.Context) error {
	cfg, err := pgx.ParseConfig(s.base)
	if err != nil {
		return fmt.Errorf("read address of the test server: %w", err)
	}
	sum := sha256.Sum256([]byte("program of the tests " + cfg.Password))
	password := hex.EncodeToString(sum[:])
	var exists bool
	if err := s.admin.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", programRole).
		Scan(&exists); err != nil {
		return fmt.Errorf("look for role %s: %w", programRole, err)
	}
	if !exists {
		if err := s.exec(ctx, "CREATE ROLE "+programRole+" LOGIN PASSWORD '"+password+"'"); err != nil {
			return err
		}
	}
	s.program = withUser(s.base, programRole, password)
	return nil
}

// ensureTemplate migrates under another name and then renames. So an existing template is always complete.
func (s *server) ensureTemplate(ctx context.Context) error {
	var exists bool
	err := s.admin.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", s.template).Scan(&exists)
	if err != nil {
		return fmt.Errorf("look for template: %w", err)
	}
	if exists {
		return nil
	}
	building := buildLock
	if err := s.drop(ctx, building); err != nil {
		return err
	}
	if err := s.exec(ctx, "CREATE DATABASE "+quote(building)+" TEMPLATE template0 ENCODING 'UTF8'"); err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, s.ownerURL(building)); err != nil {
		return err
	}
	if err := postgres.Grant(ctx, s.ownerURL(building), s.url(building)); err != nil {
		return err
	}
	if err := s.exec(ctx, "ALTER DATABASE "+quote(building)+" ALLOW_CONNECTIONS false"); err != nil {
		return err
	}
	return s.exec(ctx, "ALTER DATABASE "+quote(building)+" RENAME TO "+quote(s.template))
}

// dropLeftovers drops the databases of runs that are over and the templates that no run uses. Their locks are free.
func (s *server) dropLeftovers(ctx context.Context) error {
	rows, err := s.admin.Query(ctx, "SELECT datname FROM pg_database WHERE datname LIKE ANY ($1)",
		[]string{escapeLike(runPrefix) + "%", escapeLike(templatePrefix) + "%"})
	if err != nil {
		return fmt.Errorf("list test databases: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list test databases: %w", err)
	}
	for _, name := range names {
		owner := name
		if strings.HasPrefix(name, runPrefix) {
			owner = name[:strings.LastIndexByte(name, '_')]
		}
		if name == s.template || owner == s.run {
			continue
		}
		if err := s.dropIfFree(ctx, name, owner); err != nil {
			return err
		}
	}
	return nil
}

// dropIfFree drops a database if no session holds the lock of its owner. A transaction of another session tries the
// lock and holds it until the database is dropped.
func (s *server) dropIfFree(ctx context.Context, name, owner string) error {
	tx, err := s.admin.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback(ctx)
	var free bool
	if err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))", owner).
		Scan(&free); err != nil {
		return fmt.Errorf("try lock of %s: %w", owner, err)
	}
	if !free {
		return nil
	}
	return s.drop(ctx, name)
}

// name returns a name that no database had before.
func (s *server) name() string { return fmt.Sprintf("%s_%d", s.run, s.count.Add(1)) }

// create copies a database.
func (s *server) create(ctx context.Context, template string) (string, error) {
	name := s.name()
	return name, s.exec(ctx, "CREATE DATABASE "+quote(name)+" TEMPLATE "+quote(template))
}

// drop removes a database if it exists, and ends the sessions connected to it.
func (s *server) drop(ctx context.Context, name string) error {
	return s.exec(ctx, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)")
}

func (s *server) exec(ctx context.Context, sql string) error {
	if _, err := s.admin.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

func (s *server) url(database string) string { return withDatabase(s.program, database) }

func (s *server) ownerURL(database string) string { return withDatabase(s.base, database) }

// withDatabase replaces the database in an address, which is a URL or a keyword/value string.
func withDatabase(base, database string) string {
	if u, err := url.Parse(base); err == nil && strings.HasPrefix(u.Scheme, "postgres") {
		u.Path = "/" + database
		q := u.Query()
		q.Del("dbname")
		q.Del("database")
		u.RawQuery = q.Encode()
		return u.String()
	}
	return base + " dbname='" + database + "'"
}

// withUser replaces the role in an address of either form.
func withUser(base, role, password string) string {
	if u, err := url.Parse(base); err == nil && strings.HasPrefix(u.Scheme, "postgres") {
		u.User = url.UserPassword(role, password)
		return u.String()
	}
	return base + " user='" + role + "' password='" + password + "'"
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func escapeLike(s string) string { return strings.ReplaceAll(s, "_", `\_`) }
