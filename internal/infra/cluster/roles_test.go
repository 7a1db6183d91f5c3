//go:build unix

package cluster

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/infra/postgres"
)

// TestTheTablesOfASuperuserPassToTheOwner uses a cluster of a release that did everything as initdb's superuser. When
// first opened, its tables are transferred to the owner, and the program gets exactly its privileges. Concurrent opens
// all succeed.
func TestTheTablesOfASuperuserPassToTheOwner(t *testing.T) {
	t.Parallel()
	c := startCluster(t, clusterDir(t))
	query(t, c, "CREATE DATABASE partnerd")
	if err := postgres.Migrate(t.Context(), c.URL("partnerd")); err != nil {
		t.Fatal(err)
	}
	old, err := pgx.Connect(t.Context(), c.URL("partnerd"))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close(t.Context())
	for _, s := range []string{
		"INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at) VALUES ('app_1', 'CRM', '{}', '{}', '', now(), now())",
		"CREATE TYPE mood AS ENUM ('calm')", "CREATE VIEW seen AS SELECT id FROM applications", "CREATE SEQUENCE alone",
	} {
		if _, err := old.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	type opened struct {
		owner, program string
		err            error
	}
	done := make(chan opened)
	for range 3 {
		go func() {
			var o opened
			o.owner, o.program, o.err = c.EnsureDatabase(t.Context(), "partnerd")
			for _, step := range []func() error{
				func() error { return postgres.Migrate(t.Context(), o.owner) },
				func() error { return postgres.Grant(t.Context(), o.owner, o.program) },
			} {
				if o.err == nil {
					o.err = step()
				}
			}
			done <- o
		}()
	}
	var o opened
	for range 3 {
		next := <-done
		if next.err != nil || o.program != "" && next != o {
			t.Fatalf("%v; the same addresses: %t", next.err, next == o)
		}
		o = next
	}
	var left string
	err = old.QueryRow(t.Context(), `SELECT coalesce(string_agg(what, ' '), '') FROM (
			SELECT relname::text FROM pg_class WHERE relowner = current_user::regrole AND relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('public', 'river'))
			UNION ALL SELECT proname FROM pg_proc WHERE proowner = current_user::regrole AND pronamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('public', 'river'))
			UNION ALL SELECT typname FROM pg_type WHERE typowner = current_user::regrole AND typnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('public', 'river'))
			UNION ALL SELECT nspname FROM pg_namespace WHERE nspowner = current_user::regrole AND nspname IN ('public', 'river')
			UNION ALL SELECT datname FROM pg_database WHERE datdba = current_user::regrole AND datname = 'partnerd'
		) AS owned (what)`).Scan(&left)
	if err != nil || left != "" {
		t.Errorf("the superuser still owns %s (%v)", left, err)
	}
	db, err := postgres.Open(t.Context(), o.program, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var id string
	if err := db.Pool().QueryRow(t.Context(), "SELECT id FROM applications").Scan(&id); err != nil || id != "app_1" {
		t.Errorf("the program reads %q, %v", id, err)
	}
	for _, s := range []string{"DELETE FROM ledger_transactions", "CREATE TABLE mine ()", "CREATE TEMP TABLE mine ()",
		"SET ROLE partnerd_owner", "SET ROLE partnerd", "DROP DATABASE partnerd"} {
		if _, err := db.Pool().Exec(t.Context(), s); !postgres.IsForbidden(err) {
			t.Errorf("the program: %s: %v", s, err)
		}
	}
	elsewhere, err := pgx.ParseConfig(o.program)
	if err != nil {
		t.Fatal(err)
	}
	for _, elsewhere.Database = range []string{"postgres", "template1"} {
		if conn, err := pgx.ConnectConfig(t.Context(), elsewhere); !postgres.IsForbidden(err) {
			t.Errorf("the program connects to %s: %v %v", elsewhere.Database, conn, err)
		}
	}
	owner, err := postgres.Open(t.Context(), o.owner, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	for _, s := range []string{"COPY applications TO PROGRAM 'cat'", "CREATE ROLE mine", "CREATE DATABASE mine",
		"SET ROLE partnerd"} {
		if _, err := owner.Pool().Exec(t.Context(), s); !postgres.IsForbidden(err) {
			t.Errorf("the owner: %s: %v", s, err)
		}
	}
	for _, name := range []string{"password", "password.owner", "password.program"} {
		if info, err := os.Stat(c.path(name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	// A lost password is replaced.
	if err := os.Remove(c.path("password.program")); err != nil {
		t.Fatal(err)
	}
	_, program, err := c.EnsureDatabase(t.Context(), "partnerd")
	if err != nil || program == o.program {
		t.Fatalf("%v, the same address: %t", err, program == o.program)
	}
	again, err := postgres.Open(t.Context(), program, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}
