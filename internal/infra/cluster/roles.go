//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
)

// EnsureDatabase creates the database, if absent, and the two roles that use it, and returns their URLs. owner owns the
// database and everything in it; program may connect. Objects owned by the superuser, as in clusters of releases with
// no other role, are transferred to the owner. Several processes may call it at the same time.
func (c *Cluster) EnsureDatabase(ctx context.Context, name string) (owner, program string, err error) {
	start, err := lockFile(ctx, c.path("start.lock"))
	if err != nil {
		return "", "", err
	}
	defer start.Close()
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return "", "", fmt.Errorf("create database %s: %w", name, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	urls := map[string]string{}
	for _, role := range []string{ownerRole, programRole} {
		password, err := c.ensureRole(ctx, conn, role)
		if err != nil {
			return "", "", fmt.Errorf("make role %s: %w", role, err)
		}
		urls[role] = c.url(c.socket, role, password, name)
	}
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).
		Scan(&exists); err != nil {
		return "", "", fmt.Errorf("look for database %s: %w", name, err)
	}
	database := pgx.Identifier{name}.Sanitize()
	if !exists {
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+database); err != nil {
			return "", "", fmt.Errorf("create database %s: %w", name, err)
		}
	}
	_, err = conn.Exec(ctx, "ALTER DATABASE "+database+" OWNER TO "+ownerRole+"; REVOKE ALL ON DATABASE "+database+
		" FROM PUBLIC; GRANT CONNECT ON DATABASE "+database+" TO "+programRole)
	if err == nil { // the program's role needs no access to the default databases
		_, err = conn.Exec(ctx, "REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC")
	}
	if err == nil {
		err = c.handOver(ctx, name)
	}
	if err != nil {
		return "", "", fmt.Errorf("hand database %s to its owner: %w", name, err)
	}
	return urls[ownerRole], urls[programRole], nil
}

// ensureRole creates a role that can only log in, with the password from its file.
func (c *Cluster) ensureRole(ctx context.Context, conn *pgx.Conn, role string) (password string, err error) {
	file := c.path("password." + strings.TrimPrefix(role, superuser+"_"))
	content, err := readPlain(file)
	password = strings.TrimSpace(string(content))
	if errors.Is(err, fs.ErrNotExist) || err == nil && password == "" {
		password = newPassword()
		err = writeSync(file, password+"\n")
	}
	if err != nil {
		return "", err
	}
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", role).
		Scan(&exists); err != nil {
		return "", err
	}
	verb := "CREATE"
	if exists {
		verb = "ALTER"
	}
	var quoted string
	if err := conn.QueryRow(ctx, "SELECT quote_literal($1)", password).Scan(&quoted); err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx,
		verb+" ROLE "+role+" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD "+quoted)
	return password, err
}

// handOver transfers all objects of the database to the owner's role. REASSIGN OWNED cannot do this, because it refuses
// initdb's superuser. Sequences of columns follow their tables.
func (c *Cluster) handOver(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, c.URL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, `DO $$
	DECLARE
		heir oid := '`+ownerRole+`'::regrole;
		what text;
	BEGIN
		FOR what IN
			SELECT format('SCHEMA %I', nspname) FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' AND nspowner <> heir
			UNION ALL
			SELECT format('%s %I.%I', CASE relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'TABLE' END, nspname, relname)
				FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
				WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' AND relkind IN ('r', 'p', 'S', 'v', 'm') AND relowner <> heir
				AND NOT (relkind = 'S' AND EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid AND refclassid = 'pg_class'::regclass AND deptype IN ('a', 'i')))
			UNION ALL
			SELECT 'ROUTINE ' || p.oid::regprocedure FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
				WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' AND proowner <> heir
			UNION ALL
			SELECT format('TYPE %I.%I', nspname, typname) FROM pg_type t JOIN pg_namespace n ON n.oid = typnamespace
				WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' AND typtype IN ('d', 'e') AND typowner <> heir
		LOOP
			EXECUTE 'ALTER ' || what || ' OWNER TO `+ownerRole+`';
		END LOOP;
	END $$`)
	return err
}
