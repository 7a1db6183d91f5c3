package deployment

import (
	"context"
	"database/sql"
	"errors"

	"partnerd/internal/postgres"
)

// lock makes those who record wait for each other until they commit.
func lock(ctx context.Context, tx postgres.Tx) error {
	_, err := tx.SQL().ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtext('deployment'))`)
	return err
}

func read(ctx context.Context, tx postgres.Tx) (k Known, err error) {
	var table, filled bool
	err = tx.SQL().QueryRowContext(ctx, `SELECT to_regclass('deployment') IS NOT NULL,
		to_regclass('ledger_transactions') IS NOT NULL AND to_regclass('lawyers') IS NOT NULL`).Scan(&table, &filled)
	if err != nil {
		return k, err
	}
	if table {
		err := tx.SQL().QueryRowContext(ctx, `SELECT environment, coalesce(base_url, '') FROM deployment`).Scan(&k.Environment, &k.BaseURL)
		if !errors.Is(err, sql.ErrNoRows) {
			k.Recorded = err == nil
			return k, err
		}
	}
	if !filled {
		return k, nil
	}
	var sandbox, live bool
	err = tx.SQL().QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM applications WHERE id LIKE 'app\_test\_%')
			OR EXISTS (SELECT FROM clients WHERE id LIKE 'cli\_test\_%') OR EXISTS (SELECT FROM lawyers WHERE simulated OR id LIKE 'law\_test\_%'),
		EXISTS (SELECT FROM applications WHERE id NOT LIKE 'app\_test\_%')
			OR EXISTS (SELECT FROM clients WHERE id NOT LIKE 'cli\_test\_%') OR EXISTS (SELECT FROM lawyers WHERE id NOT LIKE 'law\_test\_%')`).
		Scan(&sandbox, &live)
	switch {
	case sandbox && live:
		k.Mixed = true
	case sandbox:
		k.Environment = Sandbox
	case live:
		k.Environment = Live
	}
	return k, err
}

// write keeps the environment that a row has. An empty address is none.
func write(ctx context.Context, tx postgres.Tx, environment, baseURL string) error {
	_, err := tx.SQL().ExecContext(ctx, `INSERT INTO deployment (environment, base_url, created_at) VALUES ($1, NULLIF($2, ''), $3)
		ON CONFLICT (single) DO UPDATE SET base_url = excluded.base_url`, environment, baseURL, tx.Now)
	return err
}
