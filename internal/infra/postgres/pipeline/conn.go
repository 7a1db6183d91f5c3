package pipeline

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/gorm"
)

// Open opens database/sql on the pool. Its connections are handles that hold a pool connection only for a statement or
// a transaction. cause rewords the error of a failed connection attempt.
func Open(pool *pgxpool.Pool, cause func(error) error) *sql.DB {
	db := sql.OpenDB(connector{pool, cause})
	db.SetMaxIdleConns(int(pool.Config().MaxConns))
	return db
}

type connector struct {
	pool  *pgxpool.Pool
	cause func(error) error
}

// Connect implements [driver.Connector].
func (c connector) Connect(context.Context) (driver.Conn, error) {
	return &Conn{pool: c.pool, cause: c.cause}, nil
}

// Driver implements [driver.Connector].
func (connector) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// unwatched is a context that appears to database/sql never to end.
type unwatched struct{ context.Context }

// Unwatched keeps database/sql from watching ctx, which would cost a goroutine per statement. pgx watches ctx anyway.
func Unwatched(ctx context.Context) context.Context { return unwatched{ctx} }

// Done implements [context.Context].
func (unwatched) Done() <-chan struct{} { return nil }

// callers returns the context that was passed to [Unwatched].
func callers(ctx context.Context) context.Context {
	if w, ok := ctx.(unwatched); ok {
		return w.Context
	}
	return ctx
}

// Pool is a database/sql pool or connection as GORM uses it: all contexts are [Unwatched].
type Pool struct{ gorm.ConnPool }

// ExecContext implements [gorm.ConnPool].
func (p Pool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return p.ConnPool.ExecContext(unwatched{ctx}, query, args...)
}

// QueryContext implements [gorm.ConnPool].
func (p Pool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return p.ConnPool.QueryContext(unwatched{ctx}, query, args...)
}

// QueryRowContext implements [gorm.ConnPool].
func (p Pool) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return p.ConnPool.QueryRowContext(unwatched{ctx}, query, args...)
}

// Conn is a connection of database/sql. Deferred statements of a transaction, including its BEGIN, are sent with the
// next statement.
type Conn struct {
	pool  *pgxpool.Pool
	cause func(error) error
	held  *pgxpool.Conn // from the first statement of a transaction to its end
	queue *Queue        // of the transaction; nil outside one
}

var errOnlyInTx = errors.New("a transaction is begun by Start, and statements are prepared by pgx")

// Prepare implements [driver.Conn].
func (*Conn) Prepare(string) (driver.Stmt, error) { return nil, errOnlyInTx }

// Begin implements [driver.Conn].
func (*Conn) Begin() (driver.Tx, error) { return nil, errOnlyInTx }

// Close implements [driver.Conn]. If f of [On] panics, database/sql closes the connection before the caller can end its
// transaction.
func (c *Conn) Close() error {
	c.End()
	return nil
}

// CheckNamedValue implements [driver.NamedValueChecker]. It accepts every value: pgx converts them.
func (*Conn) CheckNamedValue(*driver.NamedValue) error { return nil }

// ExecContext implements [driver.ExecerContext]. A query without arguments may contain several statements, which cannot
// be prepared: within a transaction it is sent alone.
func (c *Conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	ctx = callers(ctx)
	if c.queue == nil {
		tag, err := c.pool.Exec(ctx, query, values(args)...)
		return driver.RowsAffected(tag.RowsAffected()), unsent(c.cause(err))
	}
	to, err := c.Acquire(ctx)
	if err == nil && len(args) == 0 {
		err = c.queue.Flush(ctx, to)
	}
	if err != nil {
		return nil, err
	}
	var tag pgconn.CommandTag
	if c.queue.holds() {
		tag, err = c.queue.exec(ctx, to, query, values(args))
	} else {
		tag, err = to.Exec(ctx, query, values(args)...)
	}
	return driver.RowsAffected(tag.RowsAffected()), err
}

// QueryContext implements [driver.QueryerContext].
func (c *Conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	ctx = callers(ctx)
	if c.queue == nil {
		held, err := c.pool.Acquire(ctx)
		if err != nil {
			return nil, unsent(c.cause(err))
		}
		list, err := held.Query(ctx, query, values(args)...)
		r, err := newRows(list, err, held.Conn())
		if err != nil {
			held.Release()
			return nil, unsent(err)
		}
		r.release = held.Release
		return r, nil
	}
	to, err := c.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if !c.queue.holds() {
		list, err := to.Query(ctx, query, values(args)...)
		return newRows(list, err, to)
	}
	results, err := c.queue.send(ctx, to, query, values(args))
	if err != nil {
		return nil, err
	}
	list, err := results.Query()
	r, err := newRows(list, err, to)
	if err != nil {
		results.Close()
		return nil, err
	}
	r.release = func() { results.Close() } // returns at most the error of the rows
	return r, nil
}

// unsent makes database/sql try another connection if the server never received the statement.
func unsent(err error) error {
	if err != nil && pgconn.SafeToRetry(err) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded) {
		return driver.ErrBadConn
	}
	return err
}

func values(named []driver.NamedValue) []any {
	list := make([]any, len(named))
	for i, v := range named {
		list[i] = v.Value
	}
	return list
}

// Acquire returns the connection of the transaction, which keeps it.
func (c *Conn) Acquire(ctx context.Context) (*pgx.Conn, error) {
	if c.held == nil {
		held, err := c.pool.Acquire(ctx)
		if err != nil {
			c.queue.failed = c.cause(err)
			return nil, c.queue.failed
		}
		c.held = held
	}
	return c.held.Conn(), nil
}

// Start makes the next statement begin a transaction with query.
func (c *Conn) Start(query string) *Queue {
	c.queue = &Queue{waiting: []statement{{query: query, check: Called("begin")}}, opening: 1}
	return c.queue
}

// Commit commits, together with deferred statements that need only an error check. A transaction without a statement
// was never begun.
func (c *Conn) Commit(ctx context.Context) error {
	if c.queue.Unused() {
		return nil
	}
	to, err := c.Acquire(ctx)
	if err != nil {
		return err
	}
	return c.queue.commit(ctx, to)
}

// rollbackWithin bounds the rollback of a transaction whose context may have ended. If the rollback fails, the
// connection is closed.
const rollbackWithin = 5 * time.Second

// End rolls back an uncommitted transaction and returns the connection to the pool.
func (c *Conn) End() {
	c.queue = nil
	if c.held == nil {
		return
	}
	if to := c.held.Conn(); !to.IsClosed() && to.PgConn().TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackWithin)
		if _, err := to.Exec(ctx, "rollback"); err != nil {
			_ = to.Close(ctx)
		}
		cancel()
	}
	c.held.Release()
	c.held = nil
}

// On runs f on the driver connection of c.
func On(c *sql.Conn, f func(*Conn) error) error {
	var inner error
	err := c.Raw(func(driver any) error {
		inner = f(driver.(*Conn))
		return nil // an error here could make database/sql discard the connection
	})
	if err != nil {
		return err
	}
	return inner
}
