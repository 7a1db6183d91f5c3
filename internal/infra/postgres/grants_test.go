package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
	"partnerd/migrations"
)

// TestEveryTableHasItsGrants checks that migrations.Grants has a line for every table and none for a dropped one.
func TestEveryTableHasItsGrants(t *testing.T) {
	t.Parallel()
	rows, err := dbtest.New(t).Pool().Query(t.Context(), `SELECT n.nspname || '.' || c.relname, c.relkind::text
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'S') AND NOT c.relispartition AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
		UNION ALL SELECT n.nspname || '.' || p.proname, 'f' FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'public' AND p.prosecdef`)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	var name, kind string
	if _, err := pgx.ForEachRow(rows, []any{&name, &kind},
		func() error { kinds[name] = kind; return nil }); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, g := range migrations.Grants {
		if kinds[g.Table] == "" || listed[g.Table] {
			t.Errorf("%s: there is no such table, or a line before", g.Table)
		}
		listed[g.Table] = true
	}
	for name, kind := range kinds {
		if kind != "S" && !listed[name] {
			t.Errorf("%s has no line in migrations/grants.go: what may the program do with it?", name)
		}
	}
}

// TestTheProgramIsRefused lists what the program's role must not be able to do, whatever statement is injected.
func TestTheProgramIsRefused(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	var owner string
	if err := dbtest.Owner(t, db).Pool().QueryRow(t.Context(), "SELECT quote_ident(current_user)").
		Scan(&owner); err != nil {
		t.Fatal(err)
	}
	statements := []string{
		"SELECT note_sealed FROM notes", "SELECT * FROM notes", "SELECT notes FROM notes",
		"UPDATE notes SET preview_sealed = note_sealed", "UPDATE notes SET corrected_at = now() RETURNING note_sealed",
		"DELETE FROM notes", "COPY notes TO STDOUT", "COPY notes (note_sealed) TO STDOUT",
		"ALTER TABLE ledger_transactions DISABLE TRIGGER USER", "DROP TRIGGER postings_append_only ON postings",
		"DROP TABLE postings", "CREATE TABLE mine (x int)", "CREATE TABLE river.mine (x int)", "CREATE SCHEMA mine",
		"CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"CREATE OR REPLACE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'",
		"ALTER TABLE postings OWNER TO CURRENT_USER", "CREATE INDEX ON postings (amount_cents)",
		"COPY clients TO PROGRAM 'cat'", "COPY clients FROM PROGRAM 'id'", "COPY clients TO '/tmp/clients'",
		"SELECT pg_read_file('PG_VERSION')", "SET ROLE " + owner, "SET SESSION AUTHORIZATION " + owner,
		"SET session_replication_role = replica", "ALTER SYSTEM SET fsync = off", "CREATE ROLE mine",
		"CREATE DATABASE mine", "UPDATE deployment SET environment = 'live'", "DELETE FROM deployment",
		"SELECT add_partition('postings', '2026-01-05Z')", "SELECT drop_partitions('postings', now())",
		"SELECT add_partition('api_requests', '2026-01-05 00:00:01Z')",
		"ALTER TABLE api_requests_first RENAME TO mine", "DROP TABLE api_requests_first",
		"DELETE FROM api_requests_first", "UPDATE goose_db_version SET version_id = 0",
		"INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, true)",
	}
	for _, table := range []string{"ledger_transactions", "postings", "ledger_checks", "audit_entries",
		"consultation_evidence", "consultation_withdrawals", "payment_notices", "call_events", "webhook_notices"} {
		statements = append(statements, "DELETE FROM "+table, "SELECT FROM "+table+" FOR UPDATE")
		var column string
		if err := db.Pool().QueryRow(t.Context(),
			"SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum = 1",
			table).Scan(&column); err != nil {
			t.Fatal(err)
		}
		statements = append(statements, fmt.Sprintf("UPDATE %s SET %s = DEFAULT", table, column))
	}
	for _, g := range migrations.Grants {
		if !strings.HasSuffix(g.Table, "_seq") && g.Privileges != "EXECUTE" {
			statements = append(statements, "TRUNCATE "+g.Table)
		}
	}
	for _, s := range statements {
		_, err := db.Pool().Exec(t.Context(), s)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: %v", s, err)
		}
	}
	if owns, err := db.OwnsTables(t.Context()); err != nil || owns {
		t.Errorf("it owns the tables: %t, %v", owns, err)
	}
	if owns, err := dbtest.Owner(t, db).OwnsTables(t.Context()); err != nil || !owns {
		t.Errorf("the owner owns the tables: %t, %v", owns, err)
	}
}

// TestGrantsAreMended checks that extra privileges are revoked, missing ones are granted, and the rest stays as it is.
func TestGrantsAreMended(t *testing.T) {
	t.Parallel()
	program := dbtest.URL(t)
	owner := dbtest.OwnerURL(t, program)
	conn, err := pgx.Connect(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	cfg, err := pgx.ParseConfig(program)
	if err != nil {
		t.Fatal(err)
	}
	role := pgx.Identifier{cfg.User}.Sanitize()
	state := func() (all string) {
		err := conn.QueryRow(t.Context(), `SELECT string_agg(concat_ws(' ', c.relname, c.relacl::text, t.attname, t.attacl::text), ',' ORDER BY c.relname, t.attname)
			FROM pg_class c LEFT JOIN pg_attribute t ON t.attrelid = c.oid AND t.attacl IS NOT NULL
			WHERE c.relnamespace IN ('public'::regnamespace, 'river'::regnamespace)`).Scan(&all)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := state()
	for _, change := range []string{
		"", "GRANT DELETE, TRUNCATE ON ledger_transactions TO " + role,
		"GRANT UPDATE (amount_cents) ON postings TO " + role, "GRANT SELECT (note_sealed) ON notes TO " + role,
		"GRANT SELECT ON notes TO " + role, "REVOKE INSERT ON clients FROM " + role,
		"REVOKE USAGE ON SCHEMA river FROM " + role, "REVOKE USAGE ON river.river_job_id_seq FROM " + role,
		"GRANT CREATE ON SCHEMA public TO " + role,
	} {
		if _, err := conn.Exec(t.Context(), change); err != nil {
			t.Fatalf("%s: %v", change, err)
		}
		errs := make(chan error)
		for range 4 {
			go func() { errs <- postgres.Grant(context.WithoutCancel(t.Context()), owner, program) }()
		}
		for range 4 {
			if err := <-errs; err != nil {
				t.Errorf("%s: %v", change, err)
			}
		}
		var finds, makes bool
		err := conn.QueryRow(t.Context(),
			"SELECT has_schema_privilege($1, 'river', 'USAGE'), has_schema_privilege($1, 'public', 'CREATE')",
			cfg.User).Scan(&finds, &makes)
		if err != nil || !finds || makes {
			t.Errorf("%s: finds tables %t, makes tables %t, %v", change, finds, makes, err)
		}
		if after := state(); after != before && !slices.Equal(sortedACL(after), sortedACL(before)) {
			t.Errorf("%s: now %s\nwas %s", change, after, before)
		}
	}
	if err := postgres.Grant(t.Context(), owner, owner); err != nil {
		t.Errorf("one role for both: %v", err)
	}
}

// sortedACL ignores the order in which privileges were granted.
func sortedACL(state string) []string {
	all := strings.FieldsFunc(state, func(r rune) bool { return strings.ContainsRune("{},", r) })
	slices.Sort(all)
	return all
}
