package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/riverqueue/river/rivermigrate"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/poll"
	"partnerd/migrations"
)

// A migration that waits for a lock blocks every statement queued behind it. It therefore gives up before those reach
// [LockTimeout], lets them pass, and tries again, for about two minutes.
const (
	migrationLock  = 2 * time.Second
	migrationTries = 30
	migrationPause = 2 * time.Second
)

// Migrations migrates one database. Zero fields mean the program's defaults; tests set them.
type Migrations struct {
	URL   string        // connects as the owner of the tables
	FS    fs.FS         // numbered goose migrations
	Lock  time.Duration // how long a statement waits for a lock
	Tries int           // attempts per migration that does not get its locks
	Pause time.Duration // between two attempts
	Log   *slog.Logger  // receives each applied migration; nil for none
}

// NewerSchemaError rejects a program that is too old for the database's schema.
type NewerSchemaError struct{ Version, CompatibleFrom, Known int64 }

// Error implements error.
func (e NewerSchemaError) Error() string {
	return fmt.Sprintf("the database has schema %d, for programs that know schema %d or a later one, and this "+
		"program knows schema %d: run the newer program; nothing was changed",
		e.Version, e.CompatibleFrom, e.Known)
}

// Schema describes the state of a database's schema.
type Schema struct {
	Version        int64       `json:"version"`        // 0 for a database without a schema
	Known          int64       `json:"known"`          // newest version that this program has
	CompatibleFrom int64       `json:"compatibleFrom"` // oldest version that a program must know to start on it
	Migrations     []Migration `json:"migrations"`     // in order; those of a newer program have no name
}

// Migration is one migration and when it was applied.
type Migration struct {
	Version   int64      `json:"version"`
	Name      string     `json:"name,omitempty"`
	AppliedAt *time.Time `json:"appliedAt"` // nil if it is pending
}

// Pending returns the number of migrations that are yet to run.
func (s Schema) Pending() (n int) {
	for _, m := range s.Migrations {
		if m.AppliedAt == nil {
			n++
		}
	}
	return n
}

// Newer reports whether a newer program has migrated the database.
func (s Schema) Newer() bool { return s.Version > s.Known }

// Check rejects a schema that this program cannot start on. A newer schema is accepted if it removes nothing that this
// program uses. Programs of two versions can thus serve side by side during a rollout, including those that start
// during it. A running program is never stopped.
func (s Schema) Check() error {
	if s.Newer() && s.CompatibleFrom > s.Known {
		return NewerSchemaError{Version: s.Version, CompatibleFrom: s.CompatibleFrom, Known: s.Known}
	}
	return nil
}

// Status reads the schema of the database. It changes nothing.
func (m Migrations) Status(ctx context.Context) (s Schema, err error) {
	p, done, err := m.provider()
	if err != nil {
		return s, err
	}
	defer done()
	conn, err := pgx.Connect(ctx, m.URL)
	if err != nil {
		return s, fmt.Errorf("connect to the database: %w", plainly(err))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	applied, err := appliedAt(ctx, conn)
	if err != nil {
		return s, fmt.Errorf("read the schema's version: %w", err)
	}
	for _, source := range p.ListSources() {
		s.Migrations = append(s.Migrations, Migration{Version: source.Version, Name: nameOf(source.Path)})
		s.Known = source.Version
	}
	for version, at := range applied {
		s.Version = max(s.Version, version)
		i := slices.IndexFunc(s.Migrations, func(m Migration) bool { return m.Version == version })
		if i < 0 {
			i = len(s.Migrations)
			s.Migrations = append(s.Migrations, Migration{Version: version})
		}
		s.Migrations[i].AppliedAt = &at
	}
	slices.SortFunc(s.Migrations, func(a, b Migration) int { return cmp.Compare(a.Version, b.Version) })
	var has bool
	if err := conn.QueryRow(ctx, `SELECT to_regprocedure('schema_compatible_from()') IS NOT NULL`).
		Scan(&has); err != nil {
		return s, fmt.Errorf("read the schema's version: %w", err)
	}
	if has {
		if err := conn.QueryRow(ctx, `SELECT schema_compatible_from()`).Scan(&s.CompatibleFrom); err != nil {
			return s, fmt.Errorf("read what the schema is compatible with: %w", err)
		}
	}
	return s, nil
}

// appliedAt returns the time at which each applied migration ran.
func appliedAt(ctx context.Context, conn *pgx.Conn) (map[int64]time.Time, error) {
	all := map[int64]time.Time{}
	var has bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&has); err != nil || !has {
		return all, err
	}
	rows, err := conn.Query(ctx, `SELECT version_id, tstamp FROM goose_db_version WHERE is_applied AND version_id > 0`)
	if err != nil {
		return nil, err
	}
	var version int64
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&version, &at}, func() error {
		all[version] = at
		return nil
	})
	return all, err
}

// Up migrates the database to the newest schema, each migration in its own transaction, and returns the schema that it
// found. It returns a [NewerSchemaError] if [Schema.Check] rejects the schema. A newer schema that the check accepts is
// left as it is.
func (m Migrations) Up(ctx context.Context) (found Schema, err error) {
	if found, err = m.Status(ctx); err != nil {
		return found, err
	}
	if err := found.Check(); err != nil || found.Newer() {
		return found, err
	}
	begun, applied := clock.System{}.Now(), 0
	err = m.patiently(ctx, "migrate the database", func(p *goose.Provider) error {
		for {
			one, err := p.UpByOne(ctx)
			if errors.Is(err, goose.ErrNoNextVersion) {
				return nil
			}
			if err != nil {
				return err
			}
			applied++
			m.log().Info("migration applied", "migration", one.Source.Version, "name", nameOf(one.Source.Path),
				"duration", one.Duration.Round(time.Millisecond).String())
		}
	})
	if err != nil {
		return found, err
	}
	err = m.patiently(ctx, "migrate the queue",
		func(*goose.Provider) error { return migrateQueue(ctx, m.URL, rivermigrate.DirectionUp) })
	if err == nil && applied > 0 {
		m.log().Info("the database is migrated", "from", found.Version, "to", found.Known, "migrations", applied,
			"duration", clock.System{}.Now().Sub(begun).Round(time.Millisecond).String())
	}
	return found, err
}

func (m Migrations) log() *slog.Logger { return cmp.Or(m.Log, slog.New(slog.DiscardHandler)) }

// nameOf returns the name in a migration's file name.
func nameOf(path string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(path, ".sql"), "_")
	return name
}

// Down undoes the newest migration, which this program must have, and returns the version that remains.
func (m Migrations) Down(ctx context.Context) (version int64, err error) {
	s, err := m.Status(ctx)
	switch {
	case err != nil:
		return 0, err
	case s.Newer():
		return s.Version, fmt.Errorf("migration %d is of a newer program, which alone can undo it; this one "+
			"knows schema %d", s.Version, s.Known)
	case s.Version == 0:
		return 0, errors.New("there is no migration to undo")
	}
	err = m.patiently(ctx, fmt.Sprintf("undo migration %d", s.Version), func(p *goose.Provider) error {
		_, err := p.DownTo(ctx, s.Version-1) // an explicit version: of two concurrent calls, the second finds it done
		return err
	})
	if err != nil {
		return s.Version, err
	}
	s, err = m.Status(ctx)
	return s.Version, err
}

// patiently runs do again after a lock timeout, a deadlock or a serialization failure.
func (m Migrations) patiently(ctx context.Context, what string, do func(*goose.Provider) error) error {
	p, done, err := m.provider()
	if err != nil {
		return err
	}
	defer done()
	tries, pause := cmp.Or(m.Tries, migrationTries), cmp.Or(m.Pause, migrationPause)
	for try := 1; ; try++ {
		err := do(p)
		switch {
		case err == nil:
			return nil
		case !IsLockTimeout(err) && !retryable(err):
			return fmt.Errorf("%s: %w", what, err)
		case try == tries:
			return fmt.Errorf("%s: somebody held a lock that it needs, all of %d times: look for long transactions "+
				"(pg_stat_activity), and try again; what was not done left nothing behind: %w", what, tries, err)
		case !poll.Pause(ctx, pause):
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
}

func (m Migrations) provider() (*goose.Provider, func(), error) {
	cfg, err := pgx.ParseConfig(m.URL)
	if err != nil {
		return nil, nil, fmt.Errorf("read database URL: %w", err)
	}
	cfg.RuntimeParams["lock_timeout"] = fmt.Sprint(cmp.Or(m.Lock, migrationLock).Milliseconds())
	db := sql.OpenDB(stdlib.GetConnector(*cfg))
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		db.Close()
		return nil, nil, fmt.Errorf("make migration lock: %w", err)
	}
	from := m.FS
	if from == nil {
		from = migrations.FS
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, from, goose.WithSessionLocker(locker))
	if err != nil {
		db.Close()
		return nil, nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, func() { db.Close() }, nil
}
