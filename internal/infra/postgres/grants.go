package postgres

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"partnerd/migrations"
)

// Grant gives the role that connects to programURL exactly the privileges that [migrations.Grants] lists for those
// tables, and revokes any other on them. The role at ownerURL owns the tables; if it is the same role, nothing is
// granted. Several processes may call it at the same time. Privileges that are already right are not touched.
func Grant(ctx context.Context, ownerURL, programURL string) error {
	role, err := roleOf(ctx, programURL)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, ownerURL)
	if err != nil {
		return fmt.Errorf("connect as the owner of the tables: %w", plainly(err))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var same bool
		err := tx.QueryRow(ctx, `SELECT current_user = $1 FROM pg_advisory_xact_lock(hashtext('partnerd grants'))`,
			role).Scan(&same)
		if err != nil || same {
			return err
		}
		if err := grant(ctx, tx, role); err != nil {
			return fmt.Errorf("grant the program's role %s its privileges: %w", role, err)
		}
		return nil
	})
}

func grant(ctx context.Context, tx pgx.Tx, role string) error {
	held, err := held(ctx, tx, role)
	if err != nil {
		return err
	}
	to := pgx.Identifier{role}.Sanitize()
	schemas := map[string]bool{}
	for _, g := range migrations.Grants {
		schema, _, _ := strings.Cut(g.Table, ".")
		schemas[schema] = true
		if slices.Equal(held[g.Table], privileges(g.Privileges)) {
			continue
		}
		kind := "TABLE "
		switch g.Privileges {
		case "USAGE":
			kind = "SEQUENCE "
		case "EXECUTE":
			kind = "FUNCTION "
		}
		if _, err := tx.Exec(ctx, "REVOKE ALL ON "+kind+g.Table+" FROM "+to+"; GRANT "+g.Privileges+" ON "+kind+g.Table+
			" TO "+to); err != nil {
			return fmt.Errorf("%s: %w", g.Table, err)
		}
	}
	for _, schema := range slices.Sorted(maps.Keys(schemas)) {
		if err := grantSchema(ctx, tx, schema, role, to); err != nil {
			return fmt.Errorf("schema %s: %w", schema, err)
		}
	}
	return nil
}

// grantSchema lets the role find tables and not create any: before Postgres 15 every role may create tables in public.
func grantSchema(ctx context.Context, tx pgx.Tx, schema, role, to string) error {
	var finds, makes bool
	err := tx.QueryRow(ctx, `SELECT has_schema_privilege($1, oid, 'USAGE'), has_schema_privilege($1, oid, 'CREATE') AND pg_has_role(nspowner, 'USAGE')
		FROM pg_namespace WHERE nspname = $2`, role, schema).Scan(&finds, &makes)
	if err == nil && !finds {
		_, err = tx.Exec(ctx, "GRANT USAGE ON SCHEMA "+schema+" TO "+to)
	}
	if err == nil && makes {
		_, err = tx.Exec(ctx, "REVOKE CREATE ON SCHEMA "+schema+" FROM PUBLIC, "+to)
	}
	return err
}

// held returns the role's own privileges on tables, sequences and functions, each as "SELECT" or "SELECT column",
// sorted.
func held(ctx context.Context, tx pgx.Tx, role string) (map[string][]string, error) {
	rows, err := tx.Query(ctx,
		`SELECT n.nspname || '.' || c.relname, array_agg(h.privilege ORDER BY h.privilege COLLATE "C")
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, LATERAL (
			SELECT a.privilege_type AS privilege, a.grantee FROM aclexplode(c.relacl) a
			UNION ALL
			SELECT a.privilege_type || ' ' || t.attname, a.grantee FROM pg_attribute t, aclexplode(t.attacl) a WHERE t.attrelid = c.oid AND t.attacl IS NOT NULL
		) h
		WHERE h.grantee = (SELECT oid FROM pg_roles WHERE rolname = $1) AND c.relkind IN ('r', 'p', 'S') GROUP BY 1
		UNION ALL
		SELECT n.nspname || '.' || p.proname, ARRAY[a.privilege_type] FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace, aclexplode(p.proacl) a
		WHERE a.grantee = (SELECT oid FROM pg_roles WHERE rolname = $1)`, role)
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	var table string
	var privileges []string
	_, err = pgx.ForEachRow(rows, []any{&table, &privileges}, func() error {
		all[table] = privileges
		return nil
	})
	return all, err
}

var privilege = regexp.MustCompile(`([A-Z]+)(?: \(([a-z_, ]+)\))?`)

// privileges returns those of a line of [migrations.Grants], in the form that held uses.
func privileges(line string) (all []string) {
	for _, p := range privilege.FindAllStringSubmatch(line, -1) {
		if p[2] == "" {
			all = append(all, p[1])
			continue
		}
		for column := range strings.SplitSeq(p[2], ", ") {
			all = append(all, p[1]+" "+column)
		}
	}
	slices.Sort(all)
	return all
}

func roleOf(ctx context.Context, url string) (role string, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", fmt.Errorf("connect to the database: %w", plainly(err))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, "SELECT current_user").Scan(&role)
	return role, err
}

// OwnsTables reports whether the role of this pool can alter the tables, as their owner or a superuser. If so, only
// triggers keep append-only tables append-only, and the role can disable them.
func (db *DB) OwnsTables(ctx context.Context) (owns bool, err error) {
	err = db.pool.QueryRow(ctx,
		`SELECT pg_has_role(relowner, 'MEMBER') FROM pg_class WHERE oid = 'ledger_transactions'::regclass`).Scan(&owns)
	if err != nil {
		return false, fmt.Errorf("ask for the owner of the tables: %w", err)
	}
	return owns, nil
}

// IsForbidden reports whether the role lacked a privilege.
func IsForbidden(err error) bool { return sqlState(err) == "42501" }
