package postgres

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// Migrate migrates the database at url to the newest schema. Several processes may call it at the same time; one of
// them does the work. It returns a [NewerSchemaError] without having changed anything. It waits for locks as
// [Migrations] does.
func Migrate(ctx context.Context, url string) error {
	_, err := Migrations{URL: url}.Up(ctx)
	return err
}

// HasSchema reports whether the database at url was ever migrated. It changes nothing.
func HasSchema(ctx context.Context, url string) (has bool, err error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return false, fmt.Errorf("read database URL: %w", err)
	}
	defer pool.Close()
	if err := pool.QueryRow(ctx, `SELECT to_regclass('ledger_transactions') IS NOT NULL`).Scan(&has); err != nil {
		return false, fmt.Errorf("look for the schema: %w", plainly(err))
	}
	return has, nil
}

// SameDatabase reports whether both URLs lead to the same database of one running server, rather than to a copy. Either
// URL may be a pooler's. It compares twice, in case the server restarts in between.
func SameDatabase(ctx context.Context, one, other string) (same bool, err error) {
	for range 2 {
		var there, here string
		if there, err = place(ctx, one); err != nil {
			return false, err
		}
		if here, err = place(ctx, other); err != nil || here == there {
			return err == nil, err
		}
	}
	return false, nil
}

// place identifies a database and its server since the server's start.
func place(ctx context.Context, url string) (at string, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", fmt.Errorf("connect to the database: %w", plainly(err))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, `SELECT extract(epoch FROM pg_postmaster_start_time())::text || ' ' || oid FROM pg_database WHERE datname = current_database()`, pgx.QueryExecModeExec).Scan(&at)
	if err != nil {
		return "", fmt.Errorf("ask which database it is: %w", err)
	}
	return at, nil
}

// MigrateDown undoes every migration. It is for tests of the migrations.
func MigrateDown(ctx context.Context, url string) error {
	p, done, err := Migrations{URL: url}.provider()
	if err != nil {
		return err
	}
	defer done()
	if err := migrateQueue(ctx, url, rivermigrate.DirectionDown); err != nil {
		return err
	}
	if _, err := p.DownTo(ctx, 0); err != nil {
		return fmt.Errorf("undo the migrations: %w", err)
	}
	return nil
}

// QueueSchema is the schema of the job queue's tables, whose migrations come with its library. Our first migration
// creates the schema.
const QueueSchema = "river"

func migrateQueue(ctx context.Context, url string, d rivermigrate.Direction) error {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("read database URL: %w", err)
	}
	cfg.ConnConfig.RuntimeParams["lock_timeout"] = fmt.Sprint(migrationLock.Milliseconds())
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("make a pool of connections: %w", err)
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: QueueSchema,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("read queue migrations: %w", err)
	}
	lock, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("migrate the queue: %w", err)
	}
	defer lock.Release()
	// If several processes start at the same time, one migrates and the others find it done. The lock ends with the
	// session.
	if _, err := lock.Exec(ctx, "SET lock_timeout = 0"); err != nil {
		return fmt.Errorf("migrate the queue: %w", err)
	}
	if _, err := lock.Exec(ctx, "SELECT pg_advisory_lock(hashtext('partnerd queue migrations'))"); err != nil {
		return fmt.Errorf("migrate the queue: %w", err)
	}
	o := &rivermigrate.MigrateOpts{}
	if d == rivermigrate.DirectionDown {
		o.TargetVersion = -1
	}
	if _, err := m.Migrate(ctx, d, o); err != nil {
		return fmt.Errorf("migrate the queue: %w", err)
	}
	return nil
}
