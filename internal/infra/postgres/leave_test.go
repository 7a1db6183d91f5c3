package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/infra/postgres"
)

// TestAServerThatTakesNoWritesIsLeft checks that no connection to a read-only server is kept: neither the one whose
// write was rejected nor the idle ones.
func TestAServerThatTakesNoWritesIsLeft(t *testing.T) {
	t.Parallel()
	db, _ := words(t)
	ctx := t.Context()
	pids := func() (told, other uint32) {
		t.Helper()
		held, err := db.Pool().Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Release()
		second, err := db.Pool().Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer second.Release()
		for _, c := range []*pgx.Conn{held.Conn(), second.Conn()} {
			if _, err := c.Exec(ctx, "SET default_transaction_read_only = on"); err != nil {
				t.Fatal(err)
			}
		}
		return held.Conn().PgConn().PID(), second.Conn().PgConn().PID()
	}
	write := func() error {
		return db.InTx(ctx, func(tx postgres.Tx) error {
			_, err := tx.Exec(ctx, postgres.SQL(postgres.Backend, "INSERT INTO words VALUES (gen_random_uuid(), 'a')"))
			return err
		})
	}
	one, two := pids()
	if err := write(); !postgres.IsUnavailable(err) {
		t.Errorf("written to a server that takes no writes: %v", err)
	}
	if err := write(); err != nil {
		t.Errorf("the next connection is not used: %v", err)
	}
	if three, four := pids(); three == one || three == two || four == one || four == two {
		t.Errorf("%d and %d are used again: %d, %d", one, two, three, four)
	}
}
