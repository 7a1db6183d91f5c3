package postgres

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Postgres error codes that are used in more than one place.
const (
	readOnly           = "25006" // read_only_sql_transaction
	tooManyConnections = "53300" // too_many_connections
)

// passing lists the transient codes and two-character classes: the same statement may succeed later, on this server or
// on another one. TestEveryStateOfAnOutageIsUnavailable lists every code that an outage, a failover or a server limit
// can cause. It also lists the codes that are ours to fix.
var passing = []string{
	"08",    // the connection broke; PgBouncer uses it for its own errors as well
	"25006", // the server is read-only: a standby, or a demoted primary
	"25P03", // the server ended a session that was idle within a transaction
	"25P04", // the transaction exceeded the server's time limit
	"28",    // the role may not connect, for example while its password is being replaced
	"3D000", // the database does not exist, for example while it is being restored
	"40001", // another transaction won, or a standby applied a change to what was read; [DB.InTx] has already retried
	"40003", // the server does not know whether the statement completed
	"40P01", // deadlock; [DB.InTx] has already retried
	"53",    // disk, memory or connections are exhausted
	"55006", // the database is in use, for example while it is being copied or dropped
	"57014", // an operator or a server limit cancelled the statement
	"57P01", // the server is stopping, or the session was terminated
	"57P02", // another session crashed
	"57P03", // the server is starting, or is a standby that is not ready
	"57P04", // the database was dropped
	"57P05", // the session was idle for longer than the server allows
	"58000", // the server's machine failed
	"58030", // its disk failed
}

// IsUnavailable reports whether err is transient: the same statement may succeed later. The database is unreachable,
// starting, stopping, read-only, out of connections, or out of disk or memory.
func IsUnavailable(err error) bool {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return true
	}
	if state := sqlState(err); state != "" {
		return slices.ContainsFunc(passing, func(p string) bool { return strings.HasPrefix(state, p) })
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		pgconn.SafeToRetry(err)
}

// IsAway reports whether the database itself is unreachable, read-only or full, in the sense of [IsUnavailable]. Other
// broken connections do not count, because they may lead elsewhere.
func IsAway(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || sqlState(err) != "" && IsUnavailable(err)
}

// IsFull reports whether the server accepts no more connections.
func IsFull(err error) bool { return sqlState(err) == tooManyConnections }

// leave makes a pool abandon a read-only server. It ends the connection whose write was rejected and all others,
// because a demoted primary still serves reads from its old state.
func leave(cfg *pgxpool.Config) (of *atomic.Pointer[pgxpool.Pool]) {
	of = &atomic.Pointer[pgxpool.Pool]{}
	before := cfg.ConnConfig.OnPgError
	cfg.ConnConfig.OnPgError = func(c *pgconn.PgConn, e *pgconn.PgError) bool {
		if e.Code != readOnly {
			return before(c, e)
		}
		if pool := of.Load(); pool != nil {
			pool.Reset()
		}
		return false
	}
	return of
}

// unreachable is a [pgconn.ConnectError] with a more helpful message: server errors come first. It omits the attempts
// that were made only because sslmode is "prefer".
type unreachable struct{ *pgconn.ConnectError }

// Error implements error.
func (u unreachable) Error() string {
	var said, others []string
	for _, err := range each(u.ConnectError.Unwrap()) {
		text := err.Error()
		var e *pgconn.PgError
		switch {
		case errors.As(err, &e):
			said = append(said, e.Error()+" at "+strings.TrimSuffix(text, ": server error: "+e.Error()))
		case !strings.HasSuffix(text, "tls error: server refused TLS connection"):
			others = append(others, text)
		}
	}
	causes := slices.Concat(said, others)
	if len(causes) == 0 {
		return u.ConnectError.Error()
	}
	return strings.Join(causes, "; ") + " (user=" + u.Config.User + " database=" + u.Config.Database + ")"
}

// Unwrap returns the original error.
func (u unreachable) Unwrap() error { return u.ConnectError }

// each returns the errors joined in err.
func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// plainly makes a connection error begin with its cause.
func plainly(err error) error {
	if connect, ok := err.(*pgconn.ConnectError); ok { //nolint:errorlint // what wraps it has words of its own
		return unreachable{connect}
	}
	return err
}
