package dbtest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// maxUses is the number of tests that a database serves. Deleted rows stay in its files, so it cannot serve
// indefinitely.
const maxUses = 25

var (
	//go:embed recycle.sql
	recycleSQL string
	//go:embed seeds.sql
	seedsSQL string
	//go:embed state.sql
	stateSQL string
)

// idle is a database that no test uses, in the state of a new one.
type idle struct {
	name string
	uses int
}

// take returns a fresh database: one that an earlier test of this program left, emptied, or else a copy of the
// template. Its name is new, so a straggler of an earlier test cannot reach it.
func (s *server) take(ctx context.Context) (idle, error) {
	s.mu.Lock()
	if n := len(s.idle); n > 0 {
		db := s.idle[n-1]
		s.idle = s.idle[:n-1]
		s.mu.Unlock()
		return db, nil
	}
	s.mu.Unlock()
	return s.copyOf(ctx)
}

// copyOf returns a copy of the template.
func (s *server) copyOf(ctx context.Context) (idle, error) {
	name, err := s.create(ctx, s.template)
	if err != nil {
		return idle{}, err
	}
	return idle{name: name}, s.freshOnce(ctx, name)
}

// freshOnce records the state of the first copy of the template, before a test uses it.
func (s *server) freshOnce(ctx context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fresh != "" {
		return nil
	}
	return s.as(ctx, name, func(c *pgx.Conn) error {
		var fresh string
		if err := c.QueryRow(ctx, stateSQL).Scan(&fresh); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, seedsSQL); err != nil {
			return err
		}
		if err := c.QueryRow(ctx, "SELECT pg_temp.seeds()").Scan(&s.seeds); err != nil {
			return err
		}
		s.fresh = fresh
		return nil
	})
}

// give returns a database to the pool. After it is emptied, its state must equal that of a copy of the template.
// Otherwise it is dropped, because a test may have changed its tables.
func (s *server) give(ctx context.Context, db idle) error {
	if db.uses+1 < maxUses {
		if name, err := s.recycle(ctx, db.name); err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.idle = append(s.idle, idle{name: name, uses: db.uses + 1})
			return nil
		} else if name != "" {
			db.name = name
		}
	}
	return s.drop(ctx, db.name)
}

// recycle empties a database and renames it. After an error, name is the database's new name, or empty if it was not
// renamed.
func (s *server) recycle(ctx context.Context, used string) (name string, err error) {
	const end = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE datname = $1"
	if _, err := s.admin.Exec(ctx, end, used); err != nil {
		return "", fmt.Errorf("end the sessions of %s: %w", used, err)
	}
	name = s.name()
	if err := s.exec(ctx, "ALTER DATABASE "+quote(used)+" RENAME TO "+quote(name)); err != nil {
		return "", err
	}
	return name, s.as(ctx, name, func(c *pgx.Conn) error {
		var state string
		if _, err := c.Exec(ctx, recycleSQL); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, s.seeds); err != nil {
			return err
		}
		if err := c.QueryRow(ctx, stateSQL).Scan(&state); err != nil {
			return err
		}
		if state != s.fresh {
			return errors.New("it is not as new when it is emptied")
		}
		return nil
	})
}

// as connects to a database as the owner of its tables and calls do with that connection.
func (s *server) as(ctx context.Context, database string, do func(c *pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, s.ownerURL(database))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", database, err)
	}
	defer c.Close(ctx)
	if err := do(c); err != nil {
		return fmt.Errorf("look at %s: %w", database, err)
	}
	return nil
}
