package dbtest

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm/schema"

	"partnerd/internal/infra/postgres"
)

type column struct {
	kind     string
	nullable bool
}

// Models compares models with the tables of the migrated schema. Each model must have exactly the table's columns, by
// explicit name, with types that hold all values.
func Models(t *testing.T, models ...any) {
	t.Helper()
	db := Owner(t, New(t))
	for _, model := range models {
		s, err := schema.Parse(model, &sync.Map{}, schema.NamingStrategy{})
		if err != nil {
			t.Errorf("%T: %v", model, err)
			continue
		}
		if _, named := model.(schema.Tabler); !named {
			t.Errorf("%T does not name its table", model)
		}
		for _, fault := range compare(s, tableColumns(t, db, s.Table)) {
			t.Errorf("%T: %s", model, fault)
		}
	}
}

func tableColumns(t *testing.T, db *postgres.DB, table string) map[string]column {
	t.Helper()
	if !strings.Contains(table, ".") {
		table = "public." + table
	}
	rows, err := db.Pool().Query(t.Context(),
		`SELECT column_name, data_type, is_nullable = 'YES' FROM information_schema.columns
		WHERE table_schema || '.' || table_name = $1`, table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := map[string]column{}
	for rows.Next() {
		var name string
		var c column
		if err := rows.Scan(&name, &c.kind, &c.nullable); err != nil {
			t.Fatal(err)
		}
		all[name] = c
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// compare returns the differences between a model and its table.
func compare(s *schema.Schema, table map[string]column) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if len(table) == 0 {
		return []string{"there is no table " + s.Table}
	}
	for name := range table {
		if s.FieldsByDBName[name] == nil {
			fault("column %s is missing", name)
		}
	}
	for _, f := range s.Fields {
		if f.Tag.Get("gorm") == "-" {
			continue
		}
		if f.DBName == "" {
			fault("field %s is no column", f.Name)
			continue
		}
		if f.TagSettings["COLUMN"] != f.DBName {
			fault("field %s does not name its column", f.Name)
		}
		c, ok := table[f.DBName]
		switch {
		case !ok:
			fault("table %s has no column %s", s.Table, f.DBName)
			continue
		case !holds(c.kind, f):
			fault("field %s is a %s, column %s a %s", f.Name, f.FieldType, f.DBName, c.kind)
		case c.nullable != nullable(f) && f.FieldType.Kind() != reflect.Slice:
			fault("field %s: %s, column %s: nullable %t", f.Name, f.FieldType, f.DBName, c.nullable)
		}
		if f.AutoCreateTime != 0 || f.AutoUpdateTime != 0 {
			fault("field %s is set by GORM's clock and not by the transaction's: say autoCreateTime:false, "+
				"autoUpdateTime:false", f.Name)
		}
	}
	return faults
}

func nullable(f *schema.Field) bool {
	return f.FieldType.Kind() == reflect.Pointer || f.TagSettings["SERIALIZER"] == "zeronull"
}

var (
	timeType  = reflect.TypeFor[time.Time]()
	valuer    = reflect.TypeFor[driver.Valuer]()
	bytesType = reflect.TypeFor[[]byte]()
)

// holds reports whether the field holds every value of the column's type, and vice versa.
func holds(kind string, f *schema.Field) bool {
	t := f.FieldType
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch kind {
	case "text":
		return t.Kind() == reflect.String
	case "boolean":
		return t.Kind() == reflect.Bool
	case "bigint":
		return t.Kind() == reflect.Int64 || t.Kind() == reflect.Int
	case "integer":
		return t.Kind() == reflect.Int32 || t.Kind() == reflect.Int
	case "bytea":
		return t.ConvertibleTo(bytesType) || isDigest(t)
	case "json", "jsonb":
		return f.TagSettings["SERIALIZER"] == "json" || t.ConvertibleTo(bytesType)
	case "timestamp with time zone", "date":
		return t == timeType
	case "ARRAY":
		return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String && t.Implements(valuer)
	case "double precision":
		return t.Kind() == reflect.Float64
	}
	return false
}

// isDigest reports whether a type is an array of bytes that implements driver.Valuer.
func isDigest(t reflect.Type) bool {
	return t.Kind() == reflect.Array && t.Elem().Kind() == reflect.Uint8 && t.Implements(valuer)
}
