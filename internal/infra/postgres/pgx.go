package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"partnerd/internal/infra/postgres/pipeline"
)

var errOwned = errors.New("the transaction belongs to InTx")

// Pgx lends the transaction's connection to a library that needs a pgx.Tx. The library's writes commit or roll back
// with the transaction, which it cannot end itself.
func (tx Tx) Pgx(ctx context.Context, f func(pgx.Tx) error) error {
	if tx.queue == nil {
		return errors.New("Pgx needs a transaction of InTx")
	}
	return pipeline.On(tx.conn, func(c *pipeline.Conn) error {
		lent, err := c.Acquire(ctx)
		if err != nil {
			return err
		}
		if err := tx.queue.Flush(ctx, lent); err != nil {
			return err
		}
		return f(lentTx{lent})
	})
}

type lentTx struct{ conn *pgx.Conn }

func (t lentTx) Begin(context.Context) (pgx.Tx, error) { return nil, errOwned }
func (t lentTx) Commit(context.Context) error          { return errOwned }
func (t lentTx) Rollback(context.Context) error        { return errOwned }
func (t lentTx) Conn() *pgx.Conn                       { return t.conn }
func (t lentTx) LargeObjects() pgx.LargeObjects        { panic(errOwned) }
func (t lentTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	return t.conn.Prepare(ctx, name, sql)
}
func (t lentTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.conn.Exec(ctx, sql, args...)
}
func (t lentTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.conn.Query(ctx, sql, args...)
}
func (t lentTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.conn.QueryRow(ctx, sql, args...)
}
func (t lentTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return t.conn.SendBatch(ctx, b)
}
func (t lentTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string,
	src pgx.CopyFromSource,
) (int64, error) {
	return t.conn.CopyFrom(ctx, table, columns, src)
}
