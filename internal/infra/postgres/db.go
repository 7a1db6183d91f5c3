// Package postgres is the only access to the database: connections, transactions, migrations and their privileges,
// statements that stay SQL text, and helpers for models.
package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/id"
	"partnerd/internal/base/poll"
	"partnerd/internal/base/telemetry"
	"partnerd/internal/infra/postgres/pipeline"
)

// LockTimeout bounds every wait for a row lock. The duplicate of a running idempotent request waits this long (decision
// H51).
const LockTimeout = 5 * time.Second

const maxTries = 5

// DB is a pool of connections to one database. It is safe for concurrent use.
type DB struct {
	pool     *pgxpool.Pool // for statements and transactions
	sessions *pgxpool.Pool // for work that needs its own session; the same as pool without a pooler

	sql   *sql.DB
	gorm  *gorm.DB
	clock clock.Clock
	ids   id.Minter
	stop  context.CancelFunc // stops following the database's clock; nil if nothing follows it

	remote *clock.Remote // the database's clock; nil if another clock is used
}

// Options configures [Open].
type Options struct {
	MaxConns int         // connections in the pool; 0 means 10
	Pooler   string      // URL of the same database through a pooler in transaction mode; empty for none
	Clock    clock.Clock // nil means the database's clock, so that all processes agree
	// measures the time between two readings of the database's clock; nil means the machine's clock
	Machine func() time.Time
	Test    bool         // mark generated IDs as sandbox IDs
	Log     *slog.Logger // receives changes of the database's clock; nil for none
	Tracer  Tracer       // sees every statement; nil for none

	Spans *telemetry.Tracer // for statements that belong to a span; nil for none
}

// Tracer sees the start and end of statements, single or batched, to count them or to make them fail.
type Tracer interface {
	pgx.QueryTracer
	pgx.BatchTracer
}

// tracer returns what observes the statements, or nil. Spans contain the statement's text, which holds no parameter
// values, and neither the server's address nor the user. The library's own metrics are disabled: the program has its
// own.
func (o Options) tracer() pgx.QueryTracer {
	if o.Spans == nil {
		return o.Tracer
	}
	spans := otelpgx.NewTracer(otelpgx.WithTracerProvider(o.Spans.Provider()),
		otelpgx.WithMeterProvider(noop.NewMeterProvider()), otelpgx.WithDisableAcquireTracer(),
		otelpgx.WithDisableConnectionDetailsInAttributes())
	if o.Tracer == nil {
		return spans
	}
	return multitracer.New(o.Tracer, spans)
}

// Open connects to the database at url.
func Open(ctx context.Context, url string, o Options) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read database URL: %w", err)
	}
	if o.MaxConns == 0 {
		o.MaxConns = 10
	}
	var remote *clock.Remote
	if o.Clock == nil {
		remote = clock.NewRemote(o.Machine)
		o.Clock = remote
	}
	cfg.MaxConns = int32(o.MaxConns)
	cfg.ConnConfig.Tracer = o.tracer()
	maps.Copy(cfg.ConnConfig.RuntimeParams, clientSettings)
	statements := cfg
	if o.Pooler != "" {
		if statements, err = pooled(cfg, o.Pooler); err != nil {
			return nil, err
		}
		cfg.MaxConns = pooledSessions
	}
	maps.Copy(cfg.ConnConfig.RuntimeParams, sessionSettings)
	db, err := open(ctx, statements, o.Clock, id.Minter{Test: o.Test})
	if err != nil {
		return nil, err
	}
	if o.Pooler != "" {
		if err := db.keepSessions(ctx, cfg); err != nil {
			db.Close()
			return nil, err
		}
	}
	if err := db.Ping(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	if remote != nil {
		if _, _, err := db.ask(ctx, remote); err != nil {
			db.Close()
			return nil, fmt.Errorf("read the database's clock: %w", err)
		}
		following, stop := context.WithCancel(context.WithoutCancel(ctx))
		db.stop, db.remote = stop, remote
		go db.follow(following, remote, cmp.Or(o.Log, slog.New(slog.DiscardHandler)))
	}
	return db, nil
}

// clientSettings are the client parameters that a pooler preserves.
var clientSettings = map[string]string{"application_name": "partnerd", "timezone": "UTC"}

// sessionSettings apply to every session. jit is off because our statements are short: compiling one costs more than it
// saves.
var sessionSettings = map[string]string{
	"lock_timeout": fmt.Sprint(LockTimeout.Milliseconds()), "idle_in_transaction_session_timeout": "30000",
	"jit": "off",
}

// pooledSessions is the number of direct connections that the queue uses beside the pooler.
const pooledSessions = 4

// pooled returns the configuration of connections to a pooler. A server session is ours for one transaction only, so no
// statement is prepared in it. PgBouncer accepts few client parameters.
func pooled(direct *pgxpool.Config, pooler string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(pooler)
	if err != nil {
		return nil, fmt.Errorf("read the pooler's URL: %w", err)
	}
	cfg.MaxConns = direct.MaxConns
	cfg.ConnConfig.Tracer = direct.ConnConfig.Tracer
	maps.Copy(cfg.ConnConfig.RuntimeParams, clientSettings)
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	return cfg, nil
}

// keepSessions opens the direct sessions beside the pooler.
func (db *DB) keepSessions(ctx context.Context, direct *pgxpool.Config) error {
	if err := db.checkSettings(ctx); err != nil {
		return err
	}
	notice(direct)
	leaving := leave(direct)
	sessions, err := pgxpool.NewWithConfig(ctx, direct)
	if err != nil {
		return fmt.Errorf("make a pool of sessions: %w", err)
	}
	leaving.Store(sessions)
	db.sessions = sessions
	return nil
}

// checkSettings fails if sessions lack the settings that [Open] asks for. Without a lock timeout, one blocked session
// stops all others.
func (db *DB) checkSettings(ctx context.Context) error {
	for name, want := range sessionSettings {
		var is string
		if err := db.pool.QueryRow(ctx, "SELECT setting FROM pg_settings WHERE name = $1", name).Scan(&is); err != nil {
			return fmt.Errorf("connect to the database through the pooler: %w", err)
		}
		if is != want {
			return fmt.Errorf("sessions behind the pooler have %s = %s and not %s: let it set that, in PgBouncer by "+
				"connect_query = '%s' of the database", name, is, want, SessionQuery())
		}
	}
	return nil
}

// SessionQuery returns the query that a pooler must send at the start of a server session.
func SessionQuery() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(sessionSettings)) {
		all = append(all, "SET "+name+" = "+sessionSettings[name])
	}
	return strings.Join(all, "; ")
}

// clockEvery is how often the database is asked for the time. Machines drift by less than a millisecond in that time.
const clockEvery = 5 * time.Second

// follow keeps the clock close to the database's. While the database does not respond, the clock continues by the local
// elapsed time.
func (db *DB) follow(ctx context.Context, remote *clock.Remote, log *slog.Logger) {
	for poll.Pause(ctx, clockEvery) {
		asking, cancel := context.WithTimeout(ctx, clockEvery)
		change, by, err := db.ask(asking, remote)
		cancel()
		if err != nil {
			continue // users of the database notice the outage themselves
		}
		switch change {
		case clock.Steady:
		case clock.Doubted:
			log.Error("the database's clock was set; going on without it until it agrees with this machine's, is "+
				"back, or has stayed",
				"by", by.String(), "for", clock.Settled.String())
		case clock.Believed:
			log.Warn("the database's clock was set, and is followed: what is due by it is done now", "by", by.String())
		case clock.Returned:
			log.Warn("the database's clock is back where it was; nothing was done by it meanwhile")
		}
	}
}

// ClockAhead returns how far the database's clock was ahead of this machine's at the last reading. It returns 0 if
// another clock is used.
func (db *DB) ClockAhead() time.Duration {
	if db.remote == nil {
		return 0
	}
	return db.remote.Ahead()
}

func (db *DB) ask(ctx context.Context, remote *clock.Remote) (clock.Change, time.Duration, error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return clock.Steady, 0, plainly(err)
	}
	defer conn.Release()
	return remote.Ask(func() (time.Time, error) {
		r := conn.Conn().PgConn().ExecParams(ctx, clockSQL, nil, nil, nil, nil).Read()
		if r.Err != nil {
			return time.Time{}, r.Err
		}
		us, err := strconv.ParseInt(string(r.Rows[0][0]), 10, 64)
		return time.UnixMicro(us), err
	})
}

const clockSQL = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

// open creates the pool and its handles. Connections are opened on demand.
func open(ctx context.Context, cfg *pgxpool.Config, clk clock.Clock, ids id.Minter) (*DB, error) {
	notice(cfg)
	cfg.AfterConnect = func(_ context.Context, c *pgx.Conn) error {
		c.TypeMap().RegisterType(&pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID,
			Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}})
		return nil
	}
	leaving := leave(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("make a pool of connections: %w", err)
	}
	leaving.Store(pool)
	db := pipeline.Open(pool, plainly)
	g, err := gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: pipeline.Pool{ConnPool: db}}), &gorm.Config{
		SkipDefaultTransaction: true,
		TranslateError:         false, // [IsUnique] names the constraint, which the translated error omits
		Logger:                 logger.Discard,
		NowFunc:                clk.Now,
		QueryFields:            true, // a later migration may add a column while this program runs
		DisableAutomaticPing:   true,
	})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open gorm: %w", err)
	}
	return &DB{pool: pool, sessions: pool, sql: db, gorm: g, clock: clk, ids: ids}, nil
}

// byIndexAlone makes a statement's plan depend on its text and the indexes, not on statistics. Each step is a lookup,
// and each plan is made once and kept.
var byIndexAlone = map[string]string{
	"plan_cache_mode": "force_generic_plan",
	"enable_seqscan":  "off", "enable_bitmapscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
	"enable_sort": "off", "enable_material": "off",
}

// ByIndex opens a separate pool of conns connections for the few statements that a queue repeats all the time. Their
// tables grow from nothing to millions of rows and back within minutes, faster than statistics follow. A plan based on
// old statistics would scan them whole. Plans of this pool do not depend on statistics and are made once per
// connection.
func (db *DB) ByIndex(ctx context.Context, conns int) (*DB, error) {
	cfg := db.sessions.Config()
	cfg.MaxConns = int32(conns)
	maps.Copy(cfg.ConnConfig.RuntimeParams, byIndexAlone)
	return open(ctx, cfg, db.clock, db.ids)
}

// Close closes all connections.
func (db *DB) Close() {
	if db.stop != nil {
		db.stop()
	}
	db.sql.Close()
	db.pool.Close()
	db.sessions.Close()
}

// Ping reports whether the database responds.
func (db *DB) Ping(ctx context.Context) error { return plainly(db.pool.Ping(ctx)) }

// Clock returns the clock that transactions read.
func (db *DB) Clock() clock.Clock { return db.clock }

// Pool returns a pool of connections that each have their own session, for work that cannot run in a transaction, such
// as LISTEN.
func (db *DB) Pool() *pgxpool.Pool { return db.sessions }

// Tx is a transaction or, from [DB.Read], a handle whose statements commit one by one. A function that joins a
// transaction takes it as its second parameter.
type Tx struct {
	Now   time.Time // fixed for the whole transaction; UTC, microseconds
	gorm  *gorm.DB
	conn  *sql.Conn
	queue *pipeline.Queue // deferred statements; nil outside a transaction
	ids   id.Minter
	after *[]func()
}

// Gorm returns the GORM handle, for store files.
func (tx Tx) Gorm(ctx context.Context) *gorm.DB { return tx.gorm.WithContext(ctx) }

// NewID generates an ID with one of the prefixes of package id.
func (tx Tx) NewID(prefix string) string { return tx.ids.New(prefix) }

// NewSecret generates a secret of 256 bits.
func (tx Tx) NewSecret(prefix string) string { return tx.ids.Secret(prefix) }

// AfterCommit runs f once the transaction has committed. Use it to wake a worker of this process, never to do the work
// itself. Outside a transaction f runs immediately.
func (tx Tx) AfterCommit(f func()) {
	if tx.after == nil {
		f()
		return
	}
	*tx.after = append(*tx.after, f)
}

// InTx runs f in a read-committed transaction and commits if f returns nil. It is the only way to start a transaction
// that writes. After a serialization failure or a deadlock it runs f again from the start, so f must have no effect
// outside the database. If the context is [Resting] on a premise, it commits only while that premise holds.
func (db *DB) InTx(ctx context.Context, f func(tx Tx) error) error {
	return db.tries(ctx, "begin", func(tx Tx) error {
		first, last := premisesOf(ctx, tx.Now)
		rest(tx.queue, first)
		tx.queue.Opened()
		err := f(tx)
		if err == nil && !tx.queue.Unused() {
			rest(tx.queue, last)
		}
		return err
	})
}

// Snapshot is [DB.InTx] for a read-only f: all its statements see one state of all tables. Use it when results of
// several statements must agree. Between two statements of InTx, other transactions commit.
func (db *DB) Snapshot(ctx context.Context, f func(tx Tx) error) error {
	return db.tries(ctx, "begin isolation level repeatable read read only", f)
}

func (db *DB) tries(ctx context.Context, begin string, f func(tx Tx) error) error {
	for try := 1; ; try++ {
		after, err := db.try(ctx, begin, f)
		if err == nil {
			for _, f := range after {
				f()
			}
			return nil
		}
		if try == maxTries || !retryable(err) || ctx.Err() != nil {
			return err
		}
	}
}

// try runs f in a transaction once and returns the functions to call after its commit.
func (db *DB) try(ctx context.Context, begin string, f func(tx Tx) error) (after []func(), err error) {
	c, err := db.sql.Conn(pipeline.Unwatched(ctx))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	tx := Tx{Now: clock.Truncate(db.clock.Now()), gorm: db.gorm.Session(&gorm.Session{NewDB: true, Context: ctx}),
		conn: c, ids: db.ids, after: &after}
	tx.gorm.Statement.ConnPool = pipeline.Pool{ConnPool: c}
	if err := pipeline.On(c, func(c *pipeline.Conn) error { tx.queue = c.Start(begin); return nil }); err != nil {
		return nil, err
	}
	defer func() { _ = pipeline.On(c, func(c *pipeline.Conn) error { c.End(); return nil }) }()
	err = f(tx)
	if failed := tx.queue.Failed(); failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	return after, pipeline.On(c, func(c *pipeline.Conn) error { return c.Commit(ctx) })
}

// Read returns a handle for single statements that need no common snapshot.
func (db *DB) Read() Tx {
	return Tx{Now: clock.Truncate(db.clock.Now()), gorm: db.gorm, ids: db.ids}
}

func retryable(err error) bool {
	c := sqlState(err)
	return c == "40001" || c == "40P01"
}

// IsUnique reports whether err is a violation of the named unique constraint or index ("" for any).
func IsUnique(err error, constraint string) bool { return isViolation(err, "23505", constraint) }

// IsCheck reports whether err is a violation of the named check constraint ("" for any).
func IsCheck(err error, constraint string) bool { return isViolation(err, "23514", constraint) }

// IsForeignKey reports whether err is a violation of the named foreign key ("" for any).
func IsForeignKey(err error, constraint string) bool { return isViolation(err, "23503", constraint) }

// IsLockTimeout reports whether a row lock was not obtained within [LockTimeout].
func IsLockTimeout(err error) bool { return sqlState(err) == "55P03" }

// IsNotFound reports whether a query for one row found none.
func IsNotFound(err error) bool {
	return errors.Is(err, gorm.ErrRecordNotFound) || errors.Is(err, sql.ErrNoRows)
}

func isViolation(err error, state, constraint string) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == state && (constraint == "" || e.ConstraintName == constraint)
}

func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
