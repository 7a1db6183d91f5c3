package dbtest

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/base/clock"
	"partnerd/migrations"
)

func mustServer(t *testing.T) *server {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exists(t *testing.T, s *server, database string) (found bool) {
	t.Helper()
	err := s.admin.QueryRow(context.Background(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)",
		database).Scan(&found)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestEveryTestHasItsOwnMigratedDatabaseWhichEndsWithIt(t *testing.T) {
	t.Parallel()
	s := mustServer(t)
	var name string
	t.Run("inner", func(t *testing.T) {
		at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		one, two := NewWithClock(t, clock.NewManual(at)), New(t)
		if got := one.Read().Now; !got.Equal(at) {
			t.Errorf("transactions read %v, not the test's clock", got)
		}
		ctx := t.Context()
		if _, err := Owner(t, one).Pool().Exec(ctx, "CREATE TABLE only_here (x int)"); err != nil {
			t.Fatal(err)
		}
		var here, applications bool
		err := two.Pool().
			QueryRow(ctx, "SELECT to_regclass('only_here') IS NOT NULL, to_regclass('applications') IS NOT NULL").
			Scan(&here, &applications)
		if err != nil || here || !applications {
			t.Errorf("second database: sees the first's table %v, is migrated %v (%v)", here, applications, err)
		}
		if err := one.Pool().QueryRow(ctx, "SELECT current_database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
		if !exists(t, s, name) {
			t.Errorf("%s not found", name)
		}
	})
	if exists(t, s, name) {
		t.Errorf("%s survives its test", name)
	}
}

// TestOnlyDatabasesOfDeadRunsAreDropped checks that a killed run releases its locks, and that a live one keeps all its
// databases.
func TestOnlyDatabasesOfDeadRunsAreDropped(t *testing.T) {
	t.Parallel()
	s := mustServer(t)
	ctx := t.Context()
	other, err := connect(ctx, s.base, migrations.FS)
	if err != nil {
		t.Fatal(err)
	}
	defer other.admin.Close()
	left, err := other.create(ctx, other.template)
	if err != nil {
		t.Fatal(err)
	}
	mine, err := s.create(ctx, s.template)
	if err != nil {
		t.Fatal(err)
	}
	defer s.drop(context.Background(), mine)

	if err := s.dropLeftovers(ctx); err != nil {
		t.Fatal(err)
	}
	if !exists(t, s, left) || !exists(t, s, mine) {
		t.Fatal("database of a live run was dropped")
	}
	if err := other.locks.Close(ctx); err != nil {
		t.Fatal(err)
	}
	dropped := func() bool {
		if err := s.dropLeftovers(ctx); err != nil {
			t.Fatal(err)
		}
		return !exists(t, s, left)
	}
	// The server notices the end of a session a moment later.
	for deadline := time.After(30 * time.Second); !dropped(); {
		select {
		case <-deadline:
			t.Fatal("database of a dead run stays")
		default:
		}
	}
	if !exists(t, s, mine) || !exists(t, s, s.template) {
		t.Error("database or template of a live run was dropped")
	}
}

func TestTemplateFollowsTheMigrations(t *testing.T) {
	t.Parallel()
	name := func(content string) string {
		n, err := templateName(fstest.MapFS{"00001_a.sql": {Data: []byte(content)}})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if one, again := name("SELECT 1"), name("SELECT 1"); one == name("SELECT 2") || one != again {
		t.Error("template's name does not tell its migrations")
	}
	if !strings.HasPrefix(name(""), templatePrefix) {
		t.Errorf("name %s", name(""))
	}
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	for _, base := range []string{
		"postgres://u:p%40ss@h:5433/old?sslmode=disable",
		"postgresql://u:p%40ss@h:5433?sslmode=disable&dbname=old",
		"host=h port=5433 user=u password=p@ss dbname=old sslmode=disable",
	} {
		cfg, err := pgx.ParseConfig(withDatabase(base, "new"))
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Database != "new" || cfg.Host != "h" || cfg.Port != 5433 || cfg.User != "u" || cfg.Password != "p@ss" {
			t.Errorf("%s became %+v", base, cfg.Config)
		}
	}
}
