package pipeline

import (
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// rows are the rows that a statement returns. Their values equal those of pgx's database/sql driver. Only the text of a
// time of day or of a network may differ in form.
type rows struct {
	list    pgx.Rows
	fields  []pgconn.FieldDescription
	types   *pgtype.Map
	ahead   bool   // the first row has been requested
	more    bool   // whether there was a first row
	release func() // releases the source of the rows; nil if something else holds it
}

// newRows requests the first row, because the columns and most errors are known only then. The column descriptions
// belong to the connection. They are copied, because another statement overwrites them once the rows have been read.
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

// year2000 is the epoch of Postgres, in microseconds of Unix time.
const year2000 = 946_684_800_000_000

// value decodes one value of a row. It decodes the most frequent types itself, because planning each column of each row
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
