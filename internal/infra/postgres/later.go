package postgres

import (
	"gorm.io/gorm"

	"partnerd/internal/infra/postgres/pipeline"
)

// Check handles the outcome of a deferred write once it has been sent to the database.
type Check = pipeline.Check

// Called returns a check that only wraps an error, naming the write as what. A write that is last in a transaction and
// has this check is sent with the commit.
func Called(what string) Check { return pipeline.Called(what) }

// Counted returns a check that receives the number of rows changed or returned, or the write's error.
func Counted(check func(rows int, err error) error) Check { return pipeline.Counted(check) }

// Later returns a handle of the same transaction whose writes are deferred. They are sent together, in order and in one
// round trip, with the next statement of the transaction or before it commits.
//
// Use it for a write whose outcome does not affect what the transaction does next. Such a write returns no error and
// reports no changed rows; check receives the outcome later. If check returns an error, [DB.InTx] returns it and the
// transaction is rolled back.
//
// A statement that returns rows (INSERT … RETURNING by GORM) is not deferred. Outside a transaction nothing is
// deferred: the write returns what check returns.
func (tx Tx) Later(check Check) Tx {
	pool := tx.gorm.Statement.ConnPool
	// passing a context makes GORM copy the statement
	tx.gorm = tx.gorm.Session(&gorm.Session{NewDB: true, Context: tx.gorm.Statement.Context})
	tx.gorm.Statement.ConnPool = pipeline.Deferred(pool, tx.queue, check)
	return tx
}
