package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
	"partnerd/migrations"
)

var update = flag.Bool("update", false, "write migrations/schema.sql")

const golden = "../../../migrations/schema.sql"

// TestTheSchemaIsTheOneOnRecord keeps migrations/schema.sql accurate. After changing a migration, run: go test
// ./internal/infra/postgres -run TheSchema -update.
func TestTheSchemaIsTheOneOnRecord(t *testing.T) {
	t.Parallel()
	got := dump(t, dbtest.URL(t))
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the schema differs from migrations/schema.sql; run this test with -update and read the "+
			"difference:\n%s", firstDifference(got, string(want)))
	}
}

// TestMigrationsAreNumberedWithoutGaps exists because a database with a higher number refuses a lower one that is added
// later.
func TestMigrationsAreNumberedWithoutGaps(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d migrations: %v", len(files), err)
	}
	for i, name := range files {
		if want := fmt.Sprintf("%05d_", i+1); !strings.HasPrefix(name, want) {
			t.Errorf("migration %s stands where %s… belongs", name, want)
		}
	}
}

// TestMigrationsGoUpDownAndUpAgain checks that every migration can be undone and leaves nothing behind.
func TestMigrationsGoUpDownAndUpAgain(t *testing.T) {
	t.Parallel()
	url := dbtest.OwnerURL(t, dbtest.URL(t))
	before := dump(t, url)
	if err := postgres.MigrateDown(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	left := strings.TrimPrefix(dump(t, url), header)
	if tables := strings.Count(left, "CREATE TABLE"); tables != 1 || !strings.Contains(left, "goose_db_version") {
		t.Errorf("after undoing everything:\n%s", left)
	}
	if err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if after := dump(t, url); after != before {
		t.Errorf("up, down, up is not up:\n%s", firstDifference(after, before))
	}
}

const header = "-- The schema after all migrations, for readers. Written by a test; see internal/infra/postgres/migrate_test.go.\n"

// dump describes our schema in an order and form that do not depend on the Postgres version.
func dump(t *testing.T, url string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	rows, err := c.Query(t.Context(), `
		SELECT format(E'\nCREATE TABLE %s (\n%s\n)%s;', CASE n.nspname WHEN 'public' THEN '' ELSE n.nspname || '.' END || t.relname, (
			SELECT string_agg(line, E',\n' ORDER BY kind, line) FROM (
				SELECT 1 AS kind, format('    %s %s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
					CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END, coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')) AS line
				FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
				WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
				UNION ALL
				SELECT 2, format('    CONSTRAINT %s %s', conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid = t.oid AND contype <> 'n'
			) AS lines), ' PARTITION BY ' || pg_get_partkeydef(t.oid)) || coalesce((
			SELECT string_agg(E'\n' || def || ';', '' ORDER BY def) FROM (
				SELECT pg_get_indexdef(i.indexrelid) AS def FROM pg_index i
				WHERE i.indrelid = t.oid AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
				UNION ALL
				SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = t.oid AND NOT tgisinternal
			) AS more), '') AS text
		FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace
		WHERE n.nspname IN ('public', 'vault') AND t.relkind IN ('r', 'p') AND NOT t.relispartition ORDER BY n.nspname, t.relname`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return header + strings.Join(tables, "\n") + "\n"
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range x {
		if i >= len(y) || x[i] != y[i] {
			return "is:  " + x[i] + "\nwas: " + strings.Join(y[min(i, len(y)):min(i+1, len(y))], "")
		}
	}
	return "lines are missing"
}
