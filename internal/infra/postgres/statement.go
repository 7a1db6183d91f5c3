package postgres

import (
	"context"
	"database/sql"
	"fmt"
)

// Reason says why a statement is SQL text instead of being built by GORM.
type Reason string

// The possible reasons. A test lists every statement under its reason.
const (
	Claim Reason = "claim" // takes rows of a queue with SKIP LOCKED, in the statement that changes them
	// reads or writes several tables in one statement: one effect, one snapshot, one round trip
	Atomic  Reason = "atomic"
	Batch   Reason = "batch"   // moves many rows as arrays of values, or inserts what it selects
	Report  Reason = "report"  // unions, windows, lateral joins or aggregates over several tables
	Hot     Reason = "hot"     // is on a benchmarked path where the builder costs more than it is worth
	Backend Reason = "backend" // addresses the server itself: locks, notifications, its clock, its catalog
)

// Statement is SQL text with the placeholders $1, $2 ….
type Statement struct{ text string }

// SQL declares a statement that GORM does not build, and why; a test reads the reason in the source. Call it for
// package variables only: caller input never becomes part of the text.
func SQL(_ Reason, text string) Statement { return Statement{text} }

// String returns the text, to explain its plan or to build another statement from it.
func (s Statement) String() string { return s.text }

// Exec runs a statement and returns the number of rows it changed.
func (tx Tx) Exec(ctx context.Context, s Statement, args ...any) (int, error) {
	return rowsOf(tx.gorm.Statement.ConnPool.ExecContext(ctx, s.text, args...))
}

func rowsOf(r sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	return int(n), err
}

// QueryRow runs a statement that returns at most one row; see [IsNotFound].
func (tx Tx) QueryRow(ctx context.Context, s Statement, args ...any) *sql.Row {
	return tx.gorm.Statement.ConnPool.QueryRowContext(ctx, s.text, args...)
}

// Rows runs a statement and calls scan for each row.
func (tx Tx) Rows(ctx context.Context, s Statement, scan func(*sql.Rows) error, args ...any) error {
	rows, err := tx.gorm.Statement.ConnPool.QueryContext(ctx, s.text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// One is [Query] for a statement that returns at most one row. found reports whether there was one.
func One[T any](ctx context.Context, tx Tx, s Statement, args ...any) (row T, found bool, err error) {
	list, err := Query[T](ctx, tx, s, args...)
	if err != nil || len(list) == 0 {
		return row, false, err
	}
	return list[0], true, nil
}

// Unhurried is a common table expression for a statement that commits by itself. It makes the commit wait neither for
// the disk nor for a standby. A crash shortly afterwards may undo the commit, so use it only where that is acceptable,
// such as for presence. Any later commit that is confirmed as durable makes this one durable too, because the WAL is
// written in order.
const Unhurried = "unhurried AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))"

var lockSQL = SQL(Backend, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")

// Lock waits until no other transaction holds the name, and holds it until this transaction ends. It is for cases
// without a row to lock.
func (tx Tx) Lock(ctx context.Context, name string) error {
	if _, err := tx.Exec(ctx, lockSQL, name); err != nil {
		return fmt.Errorf("lock %s: %w", name, err)
	}
	return nil
}

// Query runs a statement and maps its rows to T by column name, as GORM does for a model.
func Query[T any](ctx context.Context, tx Tx, s Statement, args ...any) (list []T, err error) {
	rows, err := tx.gorm.Statement.ConnPool.QueryContext(ctx, s.text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if rows.Next() {
		if err := tx.Gorm(ctx).ScanRows(rows, &list); err != nil { // reads all remaining rows
			return nil, fmt.Errorf("read rows: %w", err)
		}
	}
	return list, rows.Err()
}
