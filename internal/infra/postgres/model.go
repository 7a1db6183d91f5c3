package postgres

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// ForUpdate locks the selected rows until the transaction ends.
var ForUpdate = clause.Locking{Strength: clause.LockingStrengthUpdate}

// ForNoKeyUpdate is like [ForUpdate] but lets others insert rows that reference the locked ones.
var ForNoKeyUpdate = clause.Locking{Strength: "NO KEY UPDATE"}

// SkipLocked is [ForUpdate] that skips rows locked by others.
var SkipLocked = clause.Locking{Strength: clause.LockingStrengthUpdate, Options: clause.LockingOptionsSkipLocked}

// Names returns the columns of a model.
func Names[T any]() []string { return slices.Clone(parsed[T]().DBNames) }

// Columns returns a select list of a model's columns, except those named, each prefixed with "alias.".
func Columns[T any](alias string, except ...string) string {
	var list []string
	for _, name := range Names[T]() {
		if !slices.Contains(except, name) {
			list = append(list, alias+"."+name)
		}
	}
	return strings.Join(list, ", ")
}

// Returning makes an update or an insert return the columns of a model. Because it names them, a prepared statement
// still works after a migration adds a column while this program runs.
func Returning[T any]() clause.Returning {
	var r clause.Returning
	for _, name := range Names[T]() {
		r.Columns = append(r.Columns, clause.Column{Name: name})
	}
	return r
}

// Updatable returns the columns of a model that an update may write: all but the primary key and those tagged
// <-:create.
func Updatable[T any]() []string {
	var list []string
	for _, f := range parsed[T]().Fields {
		if f.Updatable && !f.PrimaryKey {
			list = append(list, f.DBName)
		}
	}
	return list
}

// Assign returns the SET list of an update that assigns to columns, in order, the parameters from $first on.
func Assign(columns []string, first int) string {
	list := make([]string, len(columns))
	for i, name := range columns {
		list[i] = fmt.Sprintf("%s = $%d", name, first+i)
	}
	return strings.Join(list, ", ")
}

// Values returns the stored values of columns of a row, as statement parameters.
func Values[T any](ctx context.Context, row *T, columns ...string) ([]any, error) {
	s := parsed[T]()
	list := make([]any, len(columns))
	for i, name := range columns {
		var err error
		if list[i], err = written(ctx, s.FieldsByDBName[name], reflect.ValueOf(row)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Records encodes columns of several rows as JSON for jsonb_populate_recordset. The columns must not be binary.
func Records[T any](ctx context.Context, rows []T, columns ...string) (string, error) {
	records := make([]map[string]any, len(rows))
	for i := range rows {
		values, err := Values(ctx, &rows[i], columns...)
		if err != nil {
			return "", err
		}
		record := make(map[string]any, len(columns))
		for at, name := range columns {
			record[name] = values[at]
		}
		records[i] = record
	}
	text, err := json.Marshal(records)
	return string(text), err
}

var models sync.Map

func parsed[T any]() *schema.Schema {
	s, err := schema.Parse(new(T), &models, schema.NamingStrategy{})
	if err != nil {
		panic(fmt.Sprintf("postgres: model %T: %v", *new(T), err)) // programming error
	}
	return s
}

// Purge deletes up to limit rows of T's table that match where, the first ones by order. It skips rows locked by others
// and returns the number deleted.
func Purge[T any](ctx context.Context, tx Tx, limit int, order, where string, args ...any) (int, error) {
	some := tx.Gorm(ctx).Model(new(T)).Clauses(SkipLocked).Select("ctid").Where(where, args...).Order(order).
		Limit(limit)
	r := tx.Gorm(ctx).Where("ctid = ANY(ARRAY(?))", some).Delete(new(T))
	return int(r.RowsAffected), r.Error
}

// Array is an array of texts in a column (text[]) or an argument, as in "id = ANY(?)". An empty one is '{}', not NULL.
type Array[T ~string] []T

// Value implements [driver.Valuer].
func (a Array[T]) Value() (driver.Value, error) {
	quoted := make([]string, len(a))
	for i, s := range a {
		quoted[i] = `"` + escaped.Replace(string(s)) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}", nil
}

var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// Scan implements [sql.Scanner].
func (a *Array[T]) Scan(src any) error {
	var texts []string
	switch src := src.(type) {
	case nil:
		*a = nil
		return nil
	case string:
		var simple bool
		if texts, simple = unquoted(src); simple {
			break
		}
		if err := arrays.Scan(pgtype.TextArrayOID, pgtype.TextFormatCode, []byte(src), &texts); err != nil {
			return err
		}
	default:
		return fmt.Errorf("an array of texts cannot be read from %T", src)
	}
	*a = make(Array[T], len(texts))
	for i, s := range texts {
		(*a)[i] = T(s)
	}
	return nil
}

// unquoted parses an array with no quoted or NULL element. Most arrays are like that, and every API call reads the
// scopes.
func unquoted(s string) (texts []string, ok bool) {
	if len(s) < 2 || s[0] != '{' || s[len(s)-1] != '}' {
		return nil, false
	}
	s = s[1 : len(s)-1]
	if s == "" {
		return nil, true
	}
	return strings.Split(s, ","), !strings.ContainsAny(s, `{}"\`) && !strings.Contains(s, "NULL")
}

var arrays = pgtype.NewMap() // used only to scan: encoding would write to it, and it is shared by goroutines

// The tag serializer:zeronull stores the zero value of a text, number, bool or time as NULL.
func init() { schema.RegisterSerializer("zeronull", zeroNull{}) }

type zeroNull struct{}

// Scan implements [schema.SerializerInterface].
func (zeroNull) Scan(ctx context.Context, field *schema.Field, dst reflect.Value, value any) error {
	into := field.ReflectValueOf(ctx, dst)
	if value == nil {
		into.SetZero()
		return nil
	}
	v := reflect.ValueOf(value)
	if b, ok := value.([]byte); ok {
		v = reflect.ValueOf(string(b))
	}
	if !convertible(v.Type(), into.Type()) {
		return fmt.Errorf("column %s: %T cannot be kept in %s", field.DBName, value, into.Type())
	}
	into.Set(v.Convert(into.Type()))
	return nil
}

func convertible(from, to reflect.Type) bool {
	return from.ConvertibleTo(to) && (from.Kind() == reflect.String) == (to.Kind() == reflect.String)
}

// Value implements [schema.SerializerValuerInterface].
func (zeroNull) Value(_ context.Context, _ *schema.Field, _ reflect.Value, value any) (any, error) {
	v := reflect.ValueOf(value)
	if !v.IsValid() {
		return nil, nil
	}
	return zeroIsNull(v)
}

func zeroIsNull(v reflect.Value) (any, error) {
	if v.IsZero() {
		return nil, nil
	}
	switch v.Kind() {
	case reflect.String:
		return v.String(), nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Bool:
		return v.Bool(), nil
	}
	if t, ok := v.Interface().(time.Time); ok {
		return t, nil
	}
	return nil, fmt.Errorf("%s has no NULL", v.Type())
}
