package postgres

import (
	"context"
	"database/sql"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // the "pgx" driver
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"partnerd/migrations"
)

// Migrate brings the database at url to the newest schema. Several processes may call it at once; one of them works.
func Migrate(ctx context.Context, url string) error {
	p, done, err := migrator(url)
	if err != nil {
		return err
	}
	defer done()
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return nil
}

// MigrateDown undoes every migration. For tests of the migrations.
func MigrateDown(ctx context.Context, url string) error {
	p, done, err := migrator(url)
	if err != nil {
		return err
	}
	defer done()
	if _, err := p.DownTo(ctx, 0); err != nil {
		return fmt.Errorf("undo the migrations: %w", err)
	}
	return nil
}

func migrator(url string) (*goose.Provider, func(), error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, nil, fmt.Errorf("read database URL: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		db.Close()
		return nil, nil, fmt.Errorf("make migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithSessionLocker(locker))
	if err != nil {
		db.Close()
		return nil, nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, func() { db.Close() }, nil
}
