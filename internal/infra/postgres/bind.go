package postgres

import (
	"context"
	"database/sql/driver"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm/schema"
)

// Insert returns the beginning of an INSERT for a model's table, up to the source of its rows. Each column is written
// as the expression that values gives for it. A column that values omits is written as rest followed by its name: "@"
// for a parameter of [Bind], "new." for a column of the source. If rest is empty, values must contain every column.
func Insert[T schema.Tabler](rest string, values map[string]string) string {
	columns := Names[T]()
	list := make([]string, len(columns))
	for i, name := range columns {
		value, given := values[name]
		switch {
		case given:
			list[i] = value
		case rest != "":
			list[i] = rest + name
		default:
			panic("postgres: a statement lacks " + name) // programming error
		}
	}
	var row T
	for name := range values {
		if !slices.Contains(columns, name) {
			panic("postgres: a statement writes " + name + ", which is no column of " + row.TableName())
		}
	}
	return "INSERT INTO " + row.TableName() + " (" + strings.Join(columns, ", ") +
		") SELECT " + strings.Join(list, ", ")
}

// Bound is a statement whose parameters are fields of a T.
type Bound[T any] struct {
	Statement
	fields []*schema.Field
}

var parameter = regexp.MustCompile(`@[A-Za-z]\w*`)

// Bind replaces each @name in a statement with a numbered, typed parameter. The name is that of a column or a field of
// T. Call it for package variables only, so that [Bound.Args] merely reads the fields.
func Bind[T any](s Statement) Bound[T] {
	var b Bound[T]
	b.text = parameter.ReplaceAllStringFunc(s.text, func(at string) string {
		f := parsed[T]().LookUpField(at[1:])
		if f == nil || types[f.DataType] == "" {
			panic(fmt.Sprintf("postgres: %s is no parameter that %T has", at, *new(T))) // programming error
		}
		i := slices.Index(b.fields, f)
		if i < 0 {
			i = len(b.fields)
			b.fields = append(b.fields, f)
		}
		return "CAST($" + strconv.Itoa(i+1) + " AS " + types[f.DataType] + ")"
	})
	return b
}

var types = map[schema.DataType]string{
	schema.Bool: "boolean", schema.Int: "bigint", schema.String: "text", schema.Time: "timestamptz",
	schema.Bytes: "bytea",
	"bytea":      "bytea", // declared by id.Digest
}

// Args returns the statement's arguments, taken from row.
func (b Bound[T]) Args(ctx context.Context, row *T) ([]any, error) {
	list := make([]any, len(b.fields))
	for i, f := range b.fields {
		var err error
		if list[i], err = written(ctx, f, reflect.ValueOf(row)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// written returns the value that is stored for a field of a row. It avoids [reflect.Value.Interface] for the frequent
// kinds, because that would copy each value to the heap.
func written(ctx context.Context, f *schema.Field, row reflect.Value) (value any, err error) {
	v := f.ReflectValueOf(ctx, row)
	_, zeroNull := f.Serializer.(zeroNull)
	switch kind := v.Kind(); {
	case zeroNull:
		value, err = zeroIsNull(v)
	case f.Serializer != nil || v.Type().Implements(valuer):
		value, _ = f.ValueOf(ctx, row)
		value, err = value.(driver.Valuer).Value()
	case kind == reflect.String:
		return v.String(), nil
	case v.CanInt():
		return v.Int(), nil
	case kind == reflect.Bool:
		return v.Bool(), nil
	default:
		return v.Interface(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("write column %s: %w", f.DBName, err)
	}
	return value, nil
}

var valuer = reflect.TypeFor[driver.Valuer]()

// Unnest returns the source of a statement whose rows of T are passed by [Arrays], as the parameters from $first on.
func Unnest[T any](alias string, first int) string {
	var arrays, names []string
	for i, f := range parsed[T]().Fields {
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", first+i, types[f.DataType]))
		names = append(names, f.DBName)
	}
	return "unnest(" + strings.Join(arrays, ", ") + ") AS " + alias + " (" + strings.Join(names, ", ") + ")"
}

// Arrays returns, for each column of T, its values in all rows.
func Arrays[T any](ctx context.Context, rows []T) ([]any, error) {
	fields := parsed[T]().Fields
	list := make([]any, len(fields))
	for i, f := range fields {
		switch {
		case f.DataType == schema.String && f.Serializer != nil:
			list[i] = gather(ctx, f, rows, orNull)
		case f.DataType == schema.String:
			list[i] = gather(ctx, f, rows, reflect.Value.String)
		case f.DataType == schema.Int:
			list[i] = gather(ctx, f, rows, reflect.Value.Int)
		case f.DataType == schema.Bytes:
			list[i] = gather(ctx, f, rows, reflect.Value.Bytes)
		default:
			return nil, fmt.Errorf("column %s cannot be given as an array", f.DBName)
		}
	}
	return list, nil
}

func gather[T, V any](ctx context.Context, f *schema.Field, rows []T, value func(reflect.Value) V) []V {
	list := make([]V, len(rows))
	for i := range rows {
		list[i] = value(f.ReflectValueOf(ctx, reflect.ValueOf(&rows[i])))
	}
	return list
}

// orNull returns the text, or nil (NULL) if it is empty.
func orNull(v reflect.Value) *string {
	if v.IsZero() {
		return nil
	}
	return v.Addr().Convert(reflect.TypeFor[*string]()).Interface().(*string)
}
