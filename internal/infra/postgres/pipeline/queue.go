package pipeline

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

// Deferred returns the pool of a handle whose writes wait in the queue of its transaction. Outside a transaction, where
// queue is nil, they go at once, and return what the check returns.
func Deferred(pool gorm.ConnPool, queue *Queue, check Check) gorm.ConnPool {
	if d, ok := pool.(deferred); ok {
		pool = d.ConnPool
	}
	return deferred{ConnPool: pool, queue: queue, check: check}
}

type deferred struct {
	gorm.ConnPool
	queue *Queue
	check Check
}

// ExecContext implements [gorm.ConnPool].
func (d deferred) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if d.queue == nil {
		result, err := d.ConnPool.ExecContext(ctx, query, args...)
		var n int64
		if err == nil {
			n, err = result.RowsAffected()
		}
		return driver.RowsAffected(0), d.check.outcome(int(n), err)
	}
	d.queue.Add(query, slices.Clone(args), d.check)
	return driver.RowsAffected(0), nil
}

// Queue is what waits in a transaction, the statement that begins it first.
type Queue struct {
	waiting []statement
	opening int   // how many of those come before the first statement of the transaction's own
	failed  error // the first, with which the transaction ends
}

// statement is one that waits.
type statement struct {
	query string
	args  []any
	check Check
}

// Add has a statement wait, and its outcome checked when it has gone to the database.
func (q *Queue) Add(query string, args []any, check Check) {
	q.waiting = append(q.waiting, statement{query, args, check})
}

// Opened says that what waits now comes before the first statement of the transaction's own.
func (q *Queue) Opened() { q.opening = len(q.waiting) }

// Failed is the error with which the transaction ends; nil while there is none.
func (q *Queue) Failed() error { return q.failed }

// holds tells whether a statement has something to take along, or to fail with.
func (q *Queue) holds() bool { return q != nil && (len(q.waiting) > 0 || q.failed != nil) }

// Unused tells whether the transaction has not begun and nothing waits but its beginning.
func (q *Queue) Unused() bool {
	return q.opening > 0 && len(q.waiting) == q.opening && strings.HasPrefix(q.waiting[0].query, "begin")
}

// counted tells whether it must be seen what came of something before the transaction may commit.
func (q *Queue) counted() bool {
	return slices.ContainsFunc(q.waiting, func(w statement) bool { return w.check.rows != nil })
}

// Flush sends what waits and checks what came of it.
func (q *Queue) Flush(ctx context.Context, c *pgx.Conn) error {
	if !q.holds() {
		return nil
	}
	results, err := q.send(ctx, c, "", nil)
	if err != nil {
		return err
	}
	q.failed = results.Close()
	return q.failed
}

// send gives what waits and, unless it is empty, query to the database in one round trip. It checks what came of what
// waited: the first that fails, or whose outcome its check refuses, ends the transaction. What came of query is the
// caller's to read.
func (q *Queue) send(ctx context.Context, c *pgx.Conn, query string, args []any) (pgx.BatchResults, error) {
	if q.failed != nil {
		return nil, q.failed
	}
	list := q.waiting
	q.waiting = nil
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
		if q.failed = w.check.outcome(int(tag.RowsAffected()), err); q.failed != nil {
			results.Close()
			return nil, q.failed
		}
	}
	return results, nil
}

// exec is send for a query of which only the command's tag is wanted.
func (q *Queue) exec(ctx context.Context, c *pgx.Conn, query string, args []any) (pgconn.CommandTag, error) {
	results, err := q.send(ctx, c, query, args)
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
func (q *Queue) commit(ctx context.Context, c *pgx.Conn) error {
	if q.counted() {
		if err := q.Flush(ctx, c); err != nil {
			return err
		}
	}
	var tag pgconn.CommandTag
	var err error
	if q.holds() {
		tag, err = q.exec(ctx, c, "commit", nil)
	} else {
		tag, err = c.Exec(ctx, "commit")
	}
	if err == nil && tag.String() == "ROLLBACK" { // what the server makes of it after a statement that failed
		return pgx.ErrTxCommitRollback
	}
	return err
}
