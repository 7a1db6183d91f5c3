package postgres

import (
	"context"
	"database/sql"
	"fmt"
)

// Reason says why a statement is text and not made by GORM's builder.
type Reason string

// The reasons there are. A test lists every statement under its own.
const (
	Claim Reason = "claim" // takes rows of a queue, SKIP LOCKED, in the statement that changes them
	// reads or writes several tables in one statement: one effect, one snapshot, one round trip
	Atomic  Reason = "atomic"
	Batch   Reason = "batch"   // moves many rows by arrays of values, or inserts what it selects
	Report  Reason = "report"  // unions, windows, lateral joins or figures over several tables
	Hot     Reason = "hot"     // stands on a path that the benchmark watches, where the builder costs more than it says
	Backend Reason = "backend" // speaks to the server itself: locks, notifications, its clock, its catalog
)

// Statement is SQL with the placeholders $1, $2 ….
type Statement struct{ text string }

// SQL declares a statement that GORM's builder does not make, and why, which a test reads in the source. It is for
// variables of a package: what a caller sends never becomes part of the text.
func SQL(_ Reason, text string) Statement { return Statement{text} }

// String returns the text, to explain its plan or to build another statement on it.
func (s Statement) String() string { return s.text }

// Exec runs a statement and returns how many rows it changed.
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

// QueryRow runs a statement that returns one row at most; see [IsNotFound].
func (tx Tx) QueryRow(ctx context.Context, s Statement, args ...any) *sql.Row {
	return tx.gorm.Statement.ConnPool.QueryRowContext(ctx, s.text, args...)
}

// Rows runs a statement and hands each of its rows to scan.
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

// One is [Query] for a statement that returns one row at most, and tells whether it does.
func One[T any](ctx context.Context, tx Tx, s Statement, args ...any) (row T, found bool, err error) {
	list, err := Query[T](ctx, tx, s, args...)
	if err != nil || len(list) == 0 {
		return row, false, err
	}
	return list[0], true, nil
}

// Unhurried is a common table expression to be joined by a statement that commits by itself: its commit waits neither
// for the disk nor for a standby. A crash within the next moment may undo it, so it is only for what may be undone,
// such as who is at what. What anybody commits later and is told to be kept keeps it, too: the log is written in order.
const Unhurried = "unhurried AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))"

var lockSQL = SQL(Backend, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")

// Lock waits until no other transaction holds the name, and holds it until this one ends. It is for what has no row
// that could be locked yet.
func (tx Tx) Lock(ctx context.Context, name string) error {
	if _, err := tx.Exec(ctx, lockSQL, name); err != nil {
		return fmt.Errorf("lock %s: %w", name, err)
	}
	return nil
}

// Query runs a statement and maps its rows to T by the names of their columns, as GORM does for a model.
func Query[T any](ctx context.Context, tx Tx, s Statement, args ...any) (list []T, err error) {
	rows, err := tx.gorm.Statement.ConnPool.QueryContext(ctx, s.text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if rows.Next() {
		if err := tx.Gorm(ctx).ScanRows(rows, &list); err != nil { // goes on to the last row
			return nil, fmt.Errorf("read rows: %w", err)
		}
	}
	return list, rows.Err()
}
