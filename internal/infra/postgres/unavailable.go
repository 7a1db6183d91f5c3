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

// Codes of Postgres that more than one place names.
const (
	readOnly           = "25006" // read_only_sql_transaction
	tooManyConnections = "53300" // too_many_connections
)

// passing are the codes, and the classes of two characters, of what passes: the same statement may succeed later, on
// this server or on another one. Every code that an outage, a failover or a limit of the server can bring is in the
// table of TestEveryStateOfAnOutageIsUnavailable, with those that are ours to mend.
var passing = []string{
	"08",    // the connection broke; also what PgBouncer says of itself
	"25006", // the server takes no writes: a standby, or a primary that was demoted
	"25P03", // the server ended a session that was idle within a transaction
	"25P04", // the transaction took longer than the server allows
	"28",    // the role may not connect, as while its password is replaced
	"3D000", // the database is not there, as while it is restored
	"40001", // another transaction was faster, or a standby applied what the statement read; [DB.InTx] tried again
	"40003", // the server doesn't know whether the statement was completed
	"40P01", // deadlock; [DB.InTx] tried again
	"53",    // disk, memory or connections are used up
	"55006", // the database is in use, as while it is copied or dropped
	"57014", // somebody, or a limit of the server, cancelled the statement
	"57P01", // the server stops, or somebody ended the session
	"57P02", // another session crashed
	"57P03", // the server starts, or is a standby that is not ready
	"57P04", // the database was dropped
	"57P05", // the session was idle for longer than the server allows
	"58000", // the server's machine failed
	"58030", // its disk failed
}

// IsUnavailable tells whether err says that the database could not be reached, went away, is starting or stopping,
// takes no writes or no more connections, or lacks disk or memory: the same statement may succeed later.
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

// IsAway tells whether err says that the database itself cannot be reached, takes no writes or is full, as
// [IsUnavailable] does, and not that some connection broke, which may be one to somebody else.
func IsAway(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || sqlState(err) != "" && IsUnavailable(err)
}

// IsFull tells whether the server takes no more connections.
func IsFull(err error) bool { return sqlState(err) == tooManyConnections }

// leave makes a pool leave a server that takes no writes: the connection that was told so ends, and so do the others,
// because a primary that was demoted still answers what only reads, from what it was.
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

// unreachable is a [pgconn.ConnectError] in the order that helps: what a server said comes first, and what was tried
// only because sslmode is "prefer" is left out.
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

// Unwrap gives the error that it is.
func (u unreachable) Unwrap() error { return u.ConnectError }

// each are the errors that were joined to err.
func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// plainly has an error of a connect begin with its cause.
func plainly(err error) error {
	if connect, ok := err.(*pgconn.ConnectError); ok { //nolint:errorlint // what wraps it has words of its own
		return unreachable{connect}
	}
	return err
}
