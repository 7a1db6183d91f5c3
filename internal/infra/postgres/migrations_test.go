package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

// widen is a migration that needs an exclusive lock on the clients table.
var widen = fstest.MapFS{"99001_widen.sql": {Data: []byte("-- +goose Up\nALTER TABLE clients ADD COLUMN widened boolean;\n-- +goose Down\nALTER TABLE clients DROP COLUMN widened;\n")}}

// reading locks the clients table as a long report does, until end is called.
func reading(t *testing.T, url string) (end func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE clients IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
			t.Error(err)
		}
	}
}

// TestAMigrationThatWaitsLetsOthersPass checks that statements queued behind a waiting migration run long before its
// lock is free. The migration completes once the lock is free.
func TestAMigrationThatWaitsLetsOthersPass(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	m := postgres.Migrations{URL: dbtest.OwnerURL(t, url), FS: widen, Lock: 100 * time.Millisecond, Tries: 100_000,
		Pause: time.Millisecond}
	end := reading(t, url)
	done := make(chan error, 1)
	go func() {
		_, err := m.Up(t.Context())
		done <- err
	}()

	db, err := pgx.Connect(t.Context(), m.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	for waits, deadline := false, time.Now().Add(time.Minute); !waits; {
		err := db.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'clients'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted)`).Scan(&waits)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the migration does not wait: %v", err)
		}
	}
	for range 20 {
		if _, err := db.Exec(t.Context(), `SELECT FROM clients`); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-done:
		t.Fatalf("the migration ended while the table was held: %v", err)
	default:
	}
	end()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `SELECT widened FROM clients`); err != nil {
		t.Error(err)
	}
}

// TestAMigrationGivesUp checks that a migration that never gets its locks gives up, says why, and leaves nothing
// behind.
func TestAMigrationGivesUp(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	end := reading(t, url)
	m := postgres.Migrations{URL: dbtest.OwnerURL(t, url), FS: widen, Lock: 50 * time.Millisecond, Tries: 3,
		Pause: time.Millisecond}
	before, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Up(t.Context()); !postgres.IsLockTimeout(err) ||
		!strings.Contains(err.Error(), "long transactions") {
		t.Errorf("%v", err)
	}
	after, err := m.Status(t.Context())
	if err != nil || after.Version != before.Version {
		t.Errorf("schema %d, was %d: %v", after.Version, before.Version, err)
	}
	end()
	if _, err := m.Up(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestASchemaThatIsNewer checks that a program starts on a newer schema that is still compatible. It neither migrates
// it nor undoes migrations that it does not know.
func TestASchemaThatIsNewer(t *testing.T) {
	t.Parallel()
	owner := dbtest.OwnerURL(t, dbtest.URL(t))
	newer := fstest.MapFS{"99001_newer.sql": {
		Data: []byte("-- +goose Up\nCREATE TABLE newer ();\n-- +goose Down\nDROP TABLE newer;\n"),
	}}
	if _, err := (postgres.Migrations{URL: owner, FS: newer}).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	ours := postgres.Migrations{URL: owner}
	s, err := ours.Status(t.Context())
	if last := s.Migrations[len(s.Migrations)-1]; err != nil || s.Version != 99001 || !s.Newer() ||
		last.Version != 99001 || last.Name != "" || last.AppliedAt == nil {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := ours.Up(t.Context()); err != nil {
		t.Errorf("beside a newer program that only added: %v", err)
	}
	if _, err := ours.Down(t.Context()); err == nil || !strings.Contains(err.Error(), "newer program") {
		t.Errorf("undoing what is not known: %v", err)
	}

	contract := fstest.MapFS{"99001_newer.sql": newer["99001_newer.sql"], "99002_contract.sql": {Data: []byte(
		"-- +goose Up\nCREATE OR REPLACE FUNCTION schema_compatible_from() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 99001';\n-- +goose Down\nSELECT 1;\n")}}
	if _, err := (postgres.Migrations{URL: owner, FS: contract}).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	var refused postgres.NewerSchemaError
	if err := postgres.Migrate(t.Context(), owner); !errors.As(err, &refused) ||
		refused != (postgres.NewerSchemaError{Version: 99002, CompatibleFrom: 99001, Known: s.Known}) {
		t.Errorf("%v", err)
	}
}

// TestOneMigrationDownAndUp checks that one migration is undone at a time, and applied again.
func TestOneMigrationDownAndUp(t *testing.T) {
	t.Parallel()
	m := postgres.Migrations{URL: dbtest.OwnerURL(t, dbtest.URL(t))}
	s, err := m.Status(t.Context())
	if err != nil || s.Version != s.Known || s.Newer() || s.Check() != nil || s.CompatibleFrom == 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	left, err := m.Down(t.Context())
	if err != nil || left != s.Known-1 {
		t.Errorf("schema %d is left: %v", left, err)
	}
	if s, err = m.Status(t.Context()); err != nil || s.Version != left ||
		s.Migrations[len(s.Migrations)-1].AppliedAt != nil {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := m.Up(t.Context()); err != nil {
		t.Error(err)
	}
}
