package app

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"

	"partnerd/internal/app/config"
	"partnerd/internal/domain/operator"
	"partnerd/internal/infra/postgres"
)

// Schema reads the schema of the deployment's database. It changes nothing, except that it starts a private cluster, as
// every command does.
func Schema(ctx context.Context, cfg config.Config, log *slog.Logger) (s postgres.Schema, err error) {
	if err := cfg.Check(); err != nil {
		return s, err
	}
	err = cfg.WithDatabase(ctx, log, func(owner, _ string) error {
		s, err = postgres.Migrations{URL: owner}.Status(ctx)
		return err
	})
	return s, err
}

// UndoMigration undoes the newest migration, which must have this version, and returns the version that remains. The
// audit entry is written first, because the migration is a separate transaction.
func UndoMigration(ctx context.Context, cfg config.Config, log *slog.Logger, by operator.Act,
	version int64,
) (left int64, err error) {
	if err := cfg.Check(); err != nil {
		return 0, err
	}
	err = cfg.WithDatabase(ctx, log, func(owner, program string) error {
		m := postgres.Migrations{URL: owner}
		s, err := m.Status(ctx)
		switch {
		case err != nil:
			return err
		case s.Version != version:
			return fmt.Errorf("the latest migration is %d, not %d", s.Version, version)
		case s.Newer():
			return fmt.Errorf("migration %d can be rolled back only by the newer version that applied it; this version knows schema %d",
				s.Version, s.Known)
		}
		db, err := postgres.Open(ctx, program, postgres.Options{MaxConns: 2, Test: cfg.Sandbox()})
		if err != nil {
			return err
		}
		defer db.Close()
		err = db.InTx(ctx, func(tx postgres.Tx) error {
			return by.Record(ctx, tx, "migrations.down", strconv.FormatInt(version, 10), nil)
		})
		if err != nil {
			return err
		}
		left, err = m.Down(ctx)
		return err
	})
	return left, err
}
