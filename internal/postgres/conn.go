package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// openSQL opens database/sql on the pool. What waits in a transaction, its BEGIN among it, goes to the database with the next statement.
func openSQL(pool *pgxpool.Pool) *sql.DB {
	db := sql.OpenDB(connector{stdlib.GetPoolConnector(pool)})
	db.SetMaxIdleConns(0) // the pool keeps them
	return db
}

type connector struct{ driver.Connector }

// Connect implements [driver.Connector].
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	std, ok := inner.(*stdlib.Conn)
	if !ok {
		return nil, fmt.Errorf("the database driver is %T", inner)
	}
	return &conn{Conn: std}, nil
}

// conn is pgx's connection of database/sql with transactions that cost no round trip of their own to begin.
type conn struct {
	*stdlib.Conn
	line *line // of its last transaction; nil before the first
}

// BeginTx implements [driver.ConnBeginTx].
func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if o != (driver.TxOptions{}) {
		return c.Conn.BeginTx(ctx, o)
	}
	c.line = &line{waiting: []waiting{{query: "begin", check: Called("begin")}}}
	return &transaction{ctx, c}, nil
}

// ExecContext implements [driver.ExecerContext]. A text without arguments may be several statements, which can't be prepared: it goes
// alone.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if len(args) == 0 {
		if err := c.line.flush(ctx, c.Conn.Conn()); err != nil {
			return nil, err
		}
	}
	if !c.line.holds() {
		return c.Conn.ExecContext(ctx, query, args)
	}
	results, err := c.line.send(ctx, c.Conn.Conn(), query, values(args))
	if err != nil {
		return nil, err
	}
	tag, err := results.Exec()
	if closed := results.Close(); err == nil {
		err = closed
	}
	return driver.RowsAffected(tag.RowsAffected()), err
}

// QueryContext implements [driver.QueryerContext].
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if !c.line.holds() {
		return c.Conn.QueryContext(ctx, query, args)
	}
	results, err := c.line.send(ctx, c.Conn.Conn(), query, values(args))
	if err != nil {
		return nil, err
	}
	list, err := results.Query()
	r := &rows{Rows: list, results: results, types: c.Conn.Conn().TypeMap(), ahead: true}
	if r.more = err == nil && list.Next(); !r.more { // the columns are known only now
		list.Close()
		if err = list.Err(); err != nil {
			results.Close()
			return nil, err
		}
	}
	return r, nil
}

func values(named []driver.NamedValue) []any {
	list := make([]any, len(named))
	for i, v := range named {
		list[i] = v.Value
	}
	return list
}

// transaction is one that begins with its first statement.
type transaction struct {
	ctx  context.Context
	conn *conn
}

// Commit implements [driver.Tx]: with what waits where only its errors matter. A transaction without a statement was never begun.
func (t *transaction) Commit() error {
	l, c := t.conn.line, t.conn.Conn.Conn()
	if l.unused() {
		return nil
	}
	err := l.commit(t.ctx, c)
	if err != nil {
		_ = t.Rollback() // it has an error to tell already
	}
	return err
}

func (l *line) commit(ctx context.Context, c *pgx.Conn) error {
	if l.counted() {
		if err := l.flush(ctx, c); err != nil {
			return err
		}
	}
	var tag pgconn.CommandTag
	var err error
	if l.holds() {
		results, failed := l.send(ctx, c, "commit", nil)
		if failed != nil {
			return failed
		}
		tag, err = results.Exec()
		if closed := results.Close(); err == nil {
			err = closed
		}
	} else {
		tag, err = c.Exec(ctx, "commit")
	}
	if err == nil && tag.String() == "ROLLBACK" { // what the server makes of it after a statement that failed
		return pgx.ErrTxCommitRollback
	}
	return err
}

// rollbackWithin bounds the end of a transaction whose context may have ended. A connection on which it fails is closed.
const rollbackWithin = 5 * time.Second

// Rollback implements [driver.Tx].
func (t *transaction) Rollback() error {
	c := t.conn.Conn.Conn()
	if c.IsClosed() || c.PgConn().TxStatus() == 'I' {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackWithin)
	defer cancel()
	if _, err := c.Exec(ctx, "rollback"); err != nil {
		_ = c.Close(ctx)
		return err
	}
	return nil
}

// rows are those of a statement that took along what waited, with the values that pgx's own have
// (only the text of a time of day or of a network may be another one of the same value).
type rows struct {
	pgx.Rows
	results pgx.BatchResults
	types   *pgtype.Map
	ahead   bool // the first row was asked for,
	more    bool // and this came of it
}

// Columns implements [driver.Rows].
func (r *rows) Columns() []string {
	fields := r.FieldDescriptions()
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return names
}

// Close implements [driver.Rows].
func (r *rows) Close() error {
	r.Rows.Close()
	return r.results.Close()
}

// Next implements [driver.Rows].
func (r *rows) Next(dest []driver.Value) error {
	more := r.more
	if !r.ahead {
		more = r.Rows.Next()
	}
	r.ahead = false
	if !more {
		if err := r.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	fields := r.FieldDescriptions()
	for i, raw := range r.RawValues() {
		var err error
		if dest[i], err = value(r.types, &fields[i], raw); err != nil {
			return fmt.Errorf("column %s: %w", fields[i].Name, err)
		}
	}
	return nil
}

// year2000 is what Postgres counts from, in microseconds of Unix.
const year2000 = 946_684_800_000_000

// value decodes one of a row. The types that most columns have are read here: a plan made for each column of each row costs more.
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
