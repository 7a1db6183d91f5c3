package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/gorm"
)

// Later returns a handle of the same transaction whose writes wait and then go to the database together, in one round trip and in
// their order: before the next statement of the transaction, or before it commits. It is for a write whose outcome decides nothing of what
// the transaction does next. Such a write returns no error and changes no row; afterwards check is given how many rows it has
// changed or returned, or its error. What check returns is what [DB.InTx] returns, and the transaction is rolled back.
// What returns rows to be read (INSERT … RETURNING by GORM) does not wait. Outside a transaction nothing does: the write returns what check
// returns.
func (tx Tx) Later(check func(rows int, err error) error) Tx {
	p, ok := tx.gorm.Statement.ConnPool.(pipelined)
	if !ok {
		p = pipelined{ConnPool: tx.gorm.Statement.ConnPool, line: &line{}}
	}
	p.check = check
	return tx.on(p)
}

// Called is a check for [Tx.Later] that has only an error to look at, which it calls by what the write is.
func Called(what string) func(rows int, err error) error {
	return func(_ int, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
}

// on is the handle with another connection below.
func (tx Tx) on(p gorm.ConnPool) Tx {
	tx.gorm = tx.gorm.Session(&gorm.Session{NewDB: true, Context: tx.gorm.Statement.Context}) // a context has it copy the statement
	tx.gorm.Statement.ConnPool = p
	return tx
}

// pipelined is the connection of a transaction: what waits goes before any other statement.
type pipelined struct {
	gorm.ConnPool
	line  *line
	check func(rows int, err error) error // of writes that wait; nil when they do not
}

// ExecContext implements [gorm.ConnPool].
func (p pipelined) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	switch {
	case p.check != nil && p.line.conn == nil:
		n, err := rowsOf(p.ConnPool.ExecContext(ctx, query, args...))
		return driver.RowsAffected(0), p.check(n, err)
	case p.check != nil:
		p.line.waiting = append(p.line.waiting, waiting{query, slices.Clone(args), p.check})
		return driver.RowsAffected(0), nil
	case len(p.line.waiting) == 0:
		return p.ConnPool.ExecContext(ctx, query, args...)
	}
	var changed int // what does not wait goes with what does; its error is its caller's
	var own error
	p.line.waiting = append(p.line.waiting, waiting{query, args, func(rows int, err error) error {
		changed, own = rows, err
		return nil
	}})
	if err := p.line.flush(ctx); err != nil {
		return nil, err
	}
	return driver.RowsAffected(changed), own
}

// QueryContext implements [gorm.ConnPool].
func (p pipelined) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := p.line.flush(ctx); err != nil {
		return nil, err
	}
	return p.ConnPool.QueryContext(ctx, query, args...)
}

// QueryRowContext implements [gorm.ConnPool]. No row can be made that has an error: after one the statement runs in a transaction that
// will not commit, and InTx returns that error whatever became of this row.
func (p pipelined) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	_ = p.line.flush(ctx)
	return p.ConnPool.QueryRowContext(ctx, query, args...)
}

// line is what waits in a transaction.
type line struct {
	conn    *sql.Conn // what gorm runs on; nil outside a transaction
	waiting []waiting
	failed  error // the first, with which the transaction ends
}

type waiting struct {
	query string
	args  []any
	check func(rows int, err error) error
}

// flush sends what waits and checks what came of it.
func (l *line) flush(ctx context.Context) error {
	if l.failed != nil || len(l.waiting) == 0 {
		return l.failed
	}
	list := l.waiting
	l.waiting = nil
	l.failed = onConn(l.conn, func(c *pgx.Conn) error { return send(ctx, c, list) })
	return l.failed
}

// send has a list of statements run in one round trip. The first that fails, or whose outcome its check refuses, ends it.
func send(ctx context.Context, c *pgx.Conn, list []waiting) error {
	var b pgx.Batch
	for _, w := range list {
		b.Queue(w.query, w.args...)
	}
	results := c.SendBatch(ctx, &b)
	var failed error
	for _, w := range list {
		var tag pgconn.CommandTag
		tag, failed = results.Exec()
		if err := w.check(int(tag.RowsAffected()), failed); err != nil {
			results.Close()
			return err
		}
	}
	if err := results.Close(); failed == nil {
		return err
	}
	return nil
}

// onConn runs f on the connection below conn.
func onConn(conn *sql.Conn, f func(*pgx.Conn) error) error {
	var inner error
	err := conn.Raw(func(driver any) error {
		c, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("the database driver is %T", driver)
		}
		inner = f(c.Conn())
		return nil // an error here would make database/sql discard the connection
	})
	if err != nil {
		return err
	}
	return inner
}
