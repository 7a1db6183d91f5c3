package dbtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"partnerd/migrations"
)

// leave has the owner change a test's database, then recycles it.
func leave(t *testing.T, s *server, statements ...string) (used, name string, err error) {
	t.Helper()
	ctx := t.Context()
	if used, err = s.create(ctx, s.template); err != nil {
		t.Fatal(err)
	}
	if s.freshOnce(ctx, used) != nil {
		t.Fatal("cannot look at a new database")
	}
	if err := s.as(ctx, used, func(c *pgx.Conn) error {
		for _, sql := range statements {
			if _, err := c.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	name, err = s.recycle(ctx, used)
	atEnd(t, func(ctx context.Context) error { return s.drop(ctx, name) })
	return used, name, err
}

func TestARecycledDatabaseHoldsWhatANewOneDoes(t *testing.T) {
	t.Parallel()
	s := mustServer(t)
	ctx := t.Context()
	used, name, err := leave(t, s,
		"DELETE FROM languages",
		"UPDATE database_marks SET count = 7",
		"INSERT INTO database_marks VALUES ('other', 1, now())",
		"INSERT INTO database_losses VALUES ('other', 1, now(), now(), now())",
		"SELECT setval(seqrelid, 4711) FROM pg_sequence",
	)
	if err != nil {
		t.Fatal(err)
	}
	if exists(t, s, used) {
		t.Error("the database can still be reached by the name that a test knows")
	}
	var held string
	if err := s.as(ctx, name, func(c *pgx.Conn) error {
		if _, err := c.Exec(ctx, seedsSQL); err != nil {
			return err
		}
		return c.QueryRow(ctx, "SELECT pg_temp.seeds()").Scan(&held)
	}); err != nil {
		t.Fatal(err)
	}
	if held != s.seeds {
		t.Errorf("it holds\n%s\nand not\n%s", held, s.seeds)
	}
}

func TestADatabaseWhoseTablesChangedIsNotRecycled(t *testing.T) {
	t.Parallel()
	s := mustServer(t)
	for _, change := range []string{
		"CREATE TABLE only_here (x int)",
		"ALTER TABLE postings DISABLE TRIGGER ALL",
		"ALTER TABLE clients ALTER COLUMN created_at DROP NOT NULL",
		"GRANT TRUNCATE ON clients TO " + programRole,
		"REVOKE SELECT ON clients FROM " + programRole,
		"ANALYZE clients",
		"CREATE INDEX ON clients (created_at)",
		"DROP TABLE database_losses",
		"CREATE OR REPLACE FUNCTION partitions() RETURNS TABLE (parent text, name text, begins timestamptz, ends timestamptz, filled boolean) LANGUAGE sql AS $$ SELECT '', '', now(), now(), true $$",
		"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = ''1MB''', current_database()); END $$",
		"ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO " + programRole,
	} {
		if _, _, err := leave(t, s, change); err == nil {
			t.Errorf("is taken for new after %s", change)
		}
	}
}

func TestADatabaseServesOneTestAfterAnother(t *testing.T) {
	t.Parallel()
	s, err := connect(t.Context(), mustServer(t).base, migrations.FS)
	if err != nil {
		t.Fatal(err)
	}
	defer s.admin.Close()
	defer s.locks.Close(context.Background())
	names := map[string]bool{}
	for use := range maxUses + 1 {
		db, err := s.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if names[db.name] {
			t.Fatalf("two tests know a database as %s", db.name)
		}
		names[db.name] = true
		if want := use % maxUses; db.uses != want {
			t.Fatalf("use %d is of a database that was used %d times, not %d", use, db.uses, want)
		}
		if err := s.give(t.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.drop(t.Context(), s.idle[0].name); err != nil {
		t.Fatal(err)
	}
}

func TestAnUnusedDatabaseNeverHadARow(t *testing.T) {
	t.Parallel()
	pages := func(t *testing.T) (n int) {
		t.Helper()
		db := New(t)
		if err := db.Pool().QueryRow(t.Context(), "SELECT pg_relation_size('rate_buckets')").Scan(&n); err != nil {
			t.Fatal(err)
		}
		const row = "INSERT INTO rate_buckets (key, full_at) VALUES ('k', now())"
		if _, err := Owner(t, db).Pool().Exec(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 3 {
		t.Run("any", func(t *testing.T) { pages(t) })
		t.Run("unused", func(t *testing.T) {
			Unused(t)
			if n := pages(t); n != 0 {
				t.Errorf("a table has %d bytes", n)
			}
		})
	}
}
