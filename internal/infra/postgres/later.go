package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
)

// Check is what is made of a write that waits, once it has gone to the database.
type Check struct {
	what string
	rows func(rows int, err error) error // nil: only an error matters
}

// Called is a check that has only an error to look at, which it calls by what the write is. What waits last in a
// transaction and has no other check goes to the database with the commit.
func Called(what string) Check { return Check{what: what} }

// Counted is a check that is given how many rows the write has changed or returned, or its error.
func Counted(check func(rows int, err error) error) Check { return Check{rows: check} }

func (c Check) outcome(rows int, err error) error {
	switch {
	case c.rows != nil:
		return c.rows(rows, err)
	case err != nil:
		return fmt.Errorf("%s: %w", c.what, err)
	}
	return nil
}

// Later returns a handle of the same transaction whose writes wait and then go to the database together, in one round
// trip and in their order: with the next statement of the transaction, or before it commits. It is for a write whose
// outcome decides nothing of what the transaction does next. Such a write returns no error and changes no row; the
// check sees afterwards what came of it. What the check returns is what [DB.InTx] returns, and the transaction is
// rolled back.
// What returns rows to be read (INSERT … RETURNING by GORM) does not wait. Outside a transaction nothing does: the
// write returns what the check returns.
func (tx Tx) Later(check Check) Tx {
	pool := tx.gorm.Statement.ConnPool
	if p, ok := pool.(patient); ok {
		pool = p.ConnPool
	}
	// a context has it copy the statement
	tx.gorm = tx.gorm.Session(&gorm.Session{NewDB: true, Context: tx.gorm.Statement.Context})
	tx.gorm.Statement.ConnPool = patient{ConnPool: pool, line: tx.line, check: check}
	return tx
}

// patient is the connection of a transaction whose writes wait.
type patient struct {
	gorm.ConnPool
	line  *line // nil outside a transaction
	check Check
}

// ExecContext implements [gorm.ConnPool].
func (p patient) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if p.line == nil {
		n, err := rowsOf(p.ConnPool.ExecContext(ctx, query, args...))
		return driver.RowsAffected(0), p.check.outcome(n, err)
	}
	p.line.waiting = append(p.line.waiting, waiting{query, slices.Clone(args), p.check})
	return driver.RowsAffected(0), nil
}

// line is what waits in a transaction, the statement that begins it first.
type line struct {
	waiting []waiting
	opening int   // how many of those come before the first statement of the transaction's own
	failed  error // the first, with which the transaction ends
}

type waiting struct {
	query string
	args  []any
	check Check
}

// holds tells whether a statement has something to take along, or to fail with.
func (l *line) holds() bool { return l != nil && (len(l.waiting) > 0 || l.failed != nil) }

// unused tells whether the transaction has not begun and nothing waits but its beginning.
func (l *line) unused() bool {
	return l.opening > 0 && len(l.waiting) == l.opening && strings.HasPrefix(l.waiting[0].query, "begin")
}

// counted tells whether it must be seen what came of something before the transaction may commit.
func (l *line) counted() bool {
	return slices.ContainsFunc(l.waiting, func(w waiting) bool { return w.check.rows != nil })
}

// flush sends what waits and checks what came of it.
func (l *line) flush(ctx context.Context, c *pgx.Conn) error {
	if !l.holds() {
		return nil
	}
	results, err := l.send(ctx, c, "", nil)
	if err != nil {
		return err
	}
	l.failed = results.Close()
	return l.failed
}

// send gives what waits and, unless it is empty, query to the database in one round trip. It checks what came of what
// waited: the first that fails, or whose outcome its check refuses, ends the transaction. What came of query is the
// caller's to read.
func (l *line) send(ctx context.Context, c *pgx.Conn, query string, args []any) (pgx.BatchResults, error) {
	if l.failed != nil {
		return nil, l.failed
	}
	list := l.waiting
	l.waiting = nil
	var b pgx.Batch
	for _, w := range list {
		b.Queue(w.query, w.args...)
	}
	if query != "" {
		b.Queue(query, args...)
	}
	results := c.SendBatch(ctx, &b)
	for _, w := range list {
		tag, err := results.Exec()
		if l.failed = w.check.outcome(int(tag.RowsAffected()), err); l.failed != nil {
			results.Close()
			return nil, l.failed
		}
	}
	return results, nil
}

// exec is send for a query of which only the command's tag is wanted.
func (l *line) exec(ctx context.Context, c *pgx.Conn, query string, args []any) (pgconn.CommandTag, error) {
	results, err := l.send(ctx, c, query, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	if closed := results.Close(); err == nil {
		err = closed
	}
	return tag, err
}

// commit sends what waits with the end of the transaction where only its errors matter.
func (l *line) commit(ctx context.Context, c *pgx.Conn) error {
	if l.counted() {
		if err := l.flush(ctx, c); err != nil {
			return err
		}
	}
	var tag pgconn.CommandTag
	var err error
	if l.holds() {
		tag, err = l.exec(ctx, c, "commit", nil)
	} else {
		tag, err = c.Exec(ctx, "commit")
	}
	if err == nil && tag.String() == "ROLLBACK" { // what the server makes of it after a statement that failed
		return pgx.ErrTxCommitRollback
	}
	return err
}
