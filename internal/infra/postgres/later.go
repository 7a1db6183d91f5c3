package postgres

import (
	"gorm.io/gorm"

	"partnerd/internal/infra/postgres/pipeline"
)

// Check is what is made of a write that waits, once it has gone to the database.
type Check = pipeline.Check

// Called is a check that has only an error to look at, which it calls by what the write is. What waits last in a
// transaction and has no other check goes to the database with the commit.
func Called(what string) Check { return pipeline.Called(what) }

// Counted is a check that is given how many rows the write has changed or returned, or its error.
func Counted(check func(rows int, err error) error) Check { return pipeline.Counted(check) }

// Later returns a handle of the same transaction whose writes wait and then go to the database together, in one round
// trip and in their order: with the next statement of the transaction, or before it commits. It is for a write whose
// outcome decides nothing of what the transaction does next. Such a write returns no error and changes no row; the
// check sees afterwards what came of it. What the check returns is what [DB.InTx] returns, and the transaction is
// rolled back.
// What returns rows to be read (INSERT … RETURNING by GORM) does not wait. Outside a transaction nothing does: the
// write returns what the check returns.
func (tx Tx) Later(check Check) Tx {
	pool := tx.gorm.Statement.ConnPool
	// a context has it copy the statement
	tx.gorm = tx.gorm.Session(&gorm.Session{NewDB: true, Context: tx.gorm.Statement.Context})
	tx.gorm.Statement.ConnPool = pipeline.Deferred(pool, tx.queue, check)
	return tx
}
