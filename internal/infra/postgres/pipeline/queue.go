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

// Check handles the outcome of a deferred write once it has been sent to the database.
type Check struct {
	what string
	rows func(rows int, err error) error // nil: only an error matters
}

// Called returns a check that only wraps an error, naming the write as what. A write that is last in a transaction and
// has this check is sent with the commit.
func Called(what string) Check { return Check{what: what} }

// Counted returns a check that receives the number of rows changed or returned, or the write's error.
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

// Deferred returns the pool of a handle whose writes are deferred in queue, that of its transaction. Outside a
// transaction queue is nil: writes are sent immediately and return what check returns.
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

// Queue holds the deferred statements of a transaction, starting with the one that begins it.
type Queue struct {
	waiting []statement
	opening int   // number of waiting statements that precede the transaction's own first one
	failed  error // the first failure, with which the transaction ends
}

// statement is a deferred statement.
type statement struct {
	query string
	args  []any
	check Check
}

// Add defers a statement. check receives its outcome once it has been sent to the database.
func (q *Queue) Add(query string, args []any, check Check) {
	q.waiting = append(q.waiting, statement{query, args, check})
}

// Opened marks the statements waiting now as those that precede the transaction's own first one.
func (q *Queue) Opened() { q.opening = len(q.waiting) }

// Failed returns the error with which the transaction ends, or nil so far.
func (q *Queue) Failed() error { return q.failed }

// holds reports whether statements are deferred, or the transaction has failed.
func (q *Queue) holds() bool { return q != nil && (len(q.waiting) > 0 || q.failed != nil) }

// Unused reports whether the transaction has not begun and only its opening statements are waiting.
func (q *Queue) Unused() bool {
	return q.opening > 0 && len(q.waiting) == q.opening && strings.HasPrefix(q.waiting[0].query, "begin")
}

// counted reports whether an outcome must be checked before the transaction may commit.
func (q *Queue) counted() bool {
	return slices.ContainsFunc(q.waiting, func(w statement) bool { return w.check.rows != nil })
}

// Flush sends the deferred statements and checks their outcomes.
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

// send sends the deferred statements and then query, unless it is empty, in one round trip. It checks the outcomes of
// the deferred ones: the first that fails, or is rejected by its check, ends the transaction. The caller reads the
// result of query.
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

// exec is send for a query of which only the command tag is needed.
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

// commit sends the deferred statements together with the commit, if only their errors matter.
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
	if err == nil && tag.String() == "ROLLBACK" { // the server's response to COMMIT after a failed statement
		return pgx.ErrTxCommitRollback
	}
	return err
}
