package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/gorm"
)

// openSQL opens database/sql for GORM, which wants its rows, on the pool. Its connections are handles that hold one of
// the pool only for a statement or a transaction.
func openSQL(pool *pgxpool.Pool) *sql.DB {
	db := sql.OpenDB(connector{pool})
	db.SetMaxIdleConns(int(pool.Config().MaxConns))
	return db
}

type connector struct{ pool *pgxpool.Pool }

// Connect implements [driver.Connector].
func (c connector) Connect(context.Context) (driver.Conn, error) { return &conn{pool: c.pool}, nil }

// Driver implements [driver.Connector].
func (connector) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// watched is a context that database/sql does not watch, because pgx does: it would have a goroutine do so for each
// statement.
type watched struct{ context.Context }

// Done implements [context.Context].
func (watched) Done() <-chan struct{} { return nil }

// own is the context of the caller.
func own(ctx context.Context) context.Context {
	if w, ok := ctx.(watched); ok {
		return w.Context
	}
	return ctx
}

// quiet is a connection of database/sql that watches no contexts.
type quiet struct{ gorm.ConnPool }

// ExecContext implements [gorm.ConnPool].
func (q quiet) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return q.ConnPool.ExecContext(watched{ctx}, query, args...)
}

// QueryContext implements [gorm.ConnPool].
func (q quiet) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return q.ConnPool.QueryContext(watched{ctx}, query, args...)
}

// QueryRowContext implements [gorm.ConnPool].
func (q quiet) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return q.ConnPool.QueryRowContext(watched{ctx}, query, args...)
}

// conn is a connection of database/sql. What waits in a transaction, its BEGIN among it, goes to the database with the
// next statement.
type conn struct {
	pool *pgxpool.Pool
	held *pgxpool.Conn // from the first statement of a transaction to its end
	line *line         // of the transaction; nil outside one
}

var errOnlyInTx = errors.New("a transaction is begun by InTx, and statements are prepared by pgx")

// Prepare implements [driver.Conn].
func (*conn) Prepare(string) (driver.Stmt, error) { return nil, errOnlyInTx }

// Begin implements [driver.Conn].
func (*conn) Begin() (driver.Tx, error) { return nil, errOnlyInTx }

// Close implements [driver.Conn]. A panic in [Tx.Pgx] has database/sql close the connection before [DB.InTx] can end
// its transaction.
func (c *conn) Close() error {
	c.end()
	return nil
}

// CheckNamedValue implements [driver.NamedValueChecker]: pgx takes values as they are.
func (*conn) CheckNamedValue(*driver.NamedValue) error { return nil }

// ExecContext implements [driver.ExecerContext]. A text without arguments may be several statements, which can't be
// prepared: in a transaction it goes alone.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	ctx = own(ctx)
	if c.line == nil {
		tag, err := c.pool.Exec(ctx, query, values(args)...)
		return driver.RowsAffected(tag.RowsAffected()), unsent(plainly(err))
	}
	to, err := c.hold(ctx)
	if err == nil && len(args) == 0 {
		err = c.line.flush(ctx, to)
	}
	if err != nil {
		return nil, err
	}
	var tag pgconn.CommandTag
	if c.line.holds() {
		tag, err = c.line.exec(ctx, to, query, values(args))
	} else {
		tag, err = to.Exec(ctx, query, values(args)...)
	}
	return driver.RowsAffected(tag.RowsAffected()), err
}

// QueryContext implements [driver.QueryerContext].
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	ctx = own(ctx)
	if c.line == nil {
		held, err := c.pool.Acquire(ctx)
		if err != nil {
			return nil, unsent(plainly(err))
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
	to, err := c.hold(ctx)
	if err != nil {
		return nil, err
	}
	if !c.line.holds() {
		list, err := to.Query(ctx, query, values(args)...)
		return newRows(list, err, to)
	}
	results, err := c.line.send(ctx, to, query, values(args))
	if err != nil {
		return nil, err
	}
	list, err := results.Query()
	r, err := newRows(list, err, to)
	if err != nil {
		results.Close()
		return nil, err
	}
	r.release = func() { results.Close() } // has the error of the rows at most
	return r, nil
}

// unsent has database/sql try another connection when the server was not given the statement.
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

// hold gives the connection of the transaction, which it keeps.
func (c *conn) hold(ctx context.Context) (*pgx.Conn, error) {
	if c.held == nil {
		held, err := c.pool.Acquire(ctx)
		if err != nil {
			c.line.failed = plainly(err)
			return nil, c.line.failed
		}
		c.held = held
	}
	return c.held.Conn(), nil
}

// begin has the next statement begin a transaction by this query.
func (c *conn) begin(query string) *line {
	c.line = &line{waiting: []waiting{{query: query, check: Called("begin")}}, opening: 1}
	return c.line
}

// commit commits: with what waits where only its errors matter. A transaction without a statement was never begun.
func (c *conn) commit(ctx context.Context) error {
	if c.line.unused() {
		return nil
	}
	to, err := c.hold(ctx)
	if err != nil {
		return err
	}
	return c.line.commit(ctx, to)
}

// rollbackWithin bounds the end of a transaction whose context may have ended. A connection on which it fails is
// closed.
const rollbackWithin = 5 * time.Second

// end rolls back what was not committed and gives the connection back.
func (c *conn) end() {
	c.line = nil
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

// onConn runs f on the connection below c.
func onConn(c *sql.Conn, f func(*conn) error) error {
	var inner error
	err := c.Raw(func(driver any) error {
		inner = f(driver.(*conn))
		return nil // an error here would make database/sql discard the connection
	})
	if err != nil {
		return err
	}
	return inner
}

// rows are what a statement returns, with the values that pgx's connections of database/sql have
// (only the text of a time of day or of a network may be another one of the same value).
type rows struct {
	list    pgx.Rows
	fields  []pgconn.FieldDescription
	types   *pgtype.Map
	ahead   bool   // the first row was asked for,
	more    bool   // and this came of it
	release func() // gives back what the rows were read from; nil when it is held further
}

// newRows asks for the first row: the columns, and most errors, are known only then. What describes the columns is the
// connection's, and another statement's as soon as there are no more rows.
func newRows(list pgx.Rows, err error, of *pgx.Conn) (*rows, error) {
	if err != nil {
		return nil, err
	}
	r := &rows{list: list, types: of.TypeMap(), ahead: true}
	r.more = list.Next()
	if err := list.Err(); err != nil {
		list.Close()
		return nil, err
	}
	r.fields = slices.Clone(list.FieldDescriptions())
	return r, nil
}

// Columns implements [driver.Rows].
func (r *rows) Columns() []string {
	names := make([]string, len(r.fields))
	for i, f := range r.fields {
		names[i] = f.Name
	}
	return names
}

// Close implements [driver.Rows].
func (r *rows) Close() error {
	r.list.Close()
	if r.release != nil {
		r.release()
		r.release = nil
	}
	return r.list.Err()
}

// Next implements [driver.Rows].
func (r *rows) Next(dest []driver.Value) error {
	more := r.more
	if !r.ahead {
		more = r.list.Next()
	}
	r.ahead = false
	if !more {
		if err := r.list.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	for i, raw := range r.list.RawValues() {
		var err error
		if dest[i], err = value(r.types, &r.fields[i], raw); err != nil {
			return fmt.Errorf("column %s: %w", r.fields[i].Name, err)
		}
	}
	return nil
}

// year2000 is what Postgres counts from, in microseconds of Unix.
const year2000 = 946_684_800_000_000

// value decodes one of a row. The types that most columns have are read here: a plan made for each column of each row
// costs more.
func value(types *pgtype.Map, f *pgconn.FieldDescription, raw []byte) (driver.Value, error) {
	if raw == nil {
		return nil, nil
	}
	isJSON := f.DataTypeOID == pgtype.JSONOID || f.DataTypeOID == pgtype.JSONBOID
	if f.Format == pgtype.TextFormatCode {
		if isJSON {
			return append([]byte{}, raw...), nil
		}
		if f.DataTypeOID != pgtype.ByteaOID {
			return string(raw), nil
		}
	} else {
		switch {
		case f.DataTypeOID == pgtype.BoolOID && len(raw) == 1:
			return raw[0] == 1, nil
		case f.DataTypeOID == pgtype.Int2OID && len(raw) == 2:
			return int64(int16(binary.BigEndian.Uint16(raw))), nil
		case f.DataTypeOID == pgtype.Int4OID && len(raw) == 4:
			return int64(int32(binary.BigEndian.Uint32(raw))), nil
		case f.DataTypeOID == pgtype.Int8OID && len(raw) == 8:
			return int64(binary.BigEndian.Uint64(raw)), nil
		case f.DataTypeOID == pgtype.TimestamptzOID && len(raw) == 8:
			if us := int64(binary.BigEndian.Uint64(raw)); us != math.MaxInt64 && us != math.MinInt64 { // infinity
				return time.UnixMicro(us + year2000).UTC(), nil
			}
		case f.DataTypeOID == pgtype.ByteaOID:
			return append([]byte{}, raw...), nil
		}
	}
	t, ok := types.TypeForOID(f.DataTypeOID)
	if !ok {
		return nil, fmt.Errorf("a value of type %d in format %d", f.DataTypeOID, f.Format)
	}
	if _, ok := t.Codec.(*pgtype.ArrayCodec); ok {
		list, err := t.Codec.DecodeValue(types, f.DataTypeOID, f.Format, raw)
		if err != nil {
			return nil, err
		}
		text, err := types.Encode(f.DataTypeOID, pgtype.TextFormatCode, list, nil)
		return string(text), err
	}
	return t.Codec.DecodeDatabaseSQLValue(types, f.DataTypeOID, f.Format, raw)
}
