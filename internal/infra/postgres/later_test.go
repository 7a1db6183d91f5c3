package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

// sent records what is sent to the database, with one entry per round trip.
type sent struct{ trips []string }

func (s *sent) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.trips = append(s.trips, word(d.SQL))
	return ctx
}

func (s *sent) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	var words []string
	for _, q := range d.Batch.QueuedQueries {
		words = append(words, word(q.SQL))
	}
	s.trips = append(s.trips, strings.Join(words, "+"))
	return ctx
}

func word(sql string) string { return strings.ToLower(strings.Fields(sql)[0]) }

func (*sent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData)     {}
func (*sent) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*sent) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

type wordRow struct {
	ID   string `gorm:"column:id;primaryKey"`
	Word string `gorm:"column:word"`
}

func (wordRow) TableName() string { return "words" }

var (
	insertWord = postgres.SQL(postgres.Backend, "INSERT INTO words (id, word) VALUES ($1, $2)")
	changeWord = postgres.SQL(postgres.Backend, "UPDATE words SET word = $2 WHERE id = $1")
	readWord   = postgres.SQL(postgres.Backend, "SELECT word FROM words WHERE id = $1")
)

// words creates a table and records what is sent to its database.
func words(t *testing.T) (*postgres.DB, *sent) {
	t.Helper()
	s := &sent{}
	db, err := postgres.Open(t.Context(), dbtest.OwnerURL(t, dbtest.URL(t)), postgres.Options{MaxConns: 2, Tracer: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if _, err := db.Read().Exec(t.Context(), postgres.SQL(postgres.Backend,
		"CREATE TABLE words (id text PRIMARY KEY, word text NOT NULL)")); err != nil {
		t.Fatal(err)
	}
	return db, s
}

func count(t *testing.T, db *postgres.DB) int {
	t.Helper()
	n, err := gorm.G[wordRow](db.Read().Gorm(t.Context())).Count(t.Context(), "*")
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

func plain(_ int, err error) error { return err }

// TestWhatWaitsGoesTogether checks that deferred writes are sent in order: with the next write, before the next read,
// or before the commit. It covers SQL text and the builder.
func TestWhatWaitsGoesTogether(t *testing.T) {
	t.Parallel()
	db, s := words(t)
	ctx := t.Context()
	var changed []int
	note := func(rows int, err error) error {
		changed = append(changed, rows)
		return err
	}
	s.trips = nil
	var read string
	err := db.InTx(ctx, func(tx postgres.Tx) error {
		if n, err := tx.Later(postgres.Counted(note)).Exec(ctx, insertWord, "a", "one"); n != 0 || err != nil {
			t.Errorf("a write that waits: %d, %v", n, err)
		}
		if err := gorm.G[wordRow](tx.Later(postgres.Counted(note)).Gorm(ctx)).
			Create(ctx, &wordRow{"b", "two"}); err != nil {
			return err
		}
		if len(changed) > 0 {
			t.Error("what waits was sent")
		}
		if err := tx.QueryRow(ctx, readWord, "a").Scan(&read); err != nil {
			return err
		}
		if _, err := tx.Later(postgres.Counted(note)).Exec(ctx, changeWord, "a", "three"); err != nil {
			return err
		}
		if n, err := tx.Exec(ctx, changeWord, "b", "four"); n != 1 || err != nil {
			t.Errorf("what goes with what waits: %d, %v", n, err)
		}
		if n, err := tx.Exec(ctx, changeWord, "c", "four"); n != 0 || err != nil {
			t.Errorf("alone: %d, %v", n, err)
		}
		if _, err := gorm.G[wordRow](tx.Later(postgres.Counted(note)).Gorm(ctx)).Where("id = ?", "nobody").
			Update(ctx, "word", "five"); err != nil {
			return err
		}
		return tx.Pgx(ctx, func(lent pgx.Tx) error {
			_, err := lent.Exec(ctx, "DELETE FROM words WHERE id = 'b'")
			if _, err := tx.Later(postgres.Counted(note)).Exec(ctx, insertWord, "d", "six"); err != nil {
				return err
			}
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"begin+insert+insert+select", "update+update", "update", "update", "delete",
		"insert", "commit"}; !slices.Equal(s.trips, want) {
		t.Errorf("round trips %q, want %q", s.trips, want)
	}
	if read != "one" || !slices.Equal(changed, []int{1, 1, 1, 0, 1}) || count(t, db) != 2 {
		t.Errorf("read %q, changed %d, %d words", read, changed, count(t, db))
	}
}

// TestWhatWaitedAndFailedEndsTheTransaction checks this whatever the transaction's function returns.
func TestWhatWaitedAndFailedEndsTheTransaction(t *testing.T) {
	t.Parallel()
	db, _ := words(t)
	ctx := t.Context()
	refused := errors.New("refused")
	one := func(rows int, err error) error {
		if err == nil && rows != 1 {
			return refused
		}
		return err
	}
	other := errors.New("other")
	for name, f := range map[string]func(tx postgres.Tx) error{
		"before the commit": func(postgres.Tx) error { return nil },
		"before a reading that is not looked at": func(tx postgres.Tx) error {
			_ = tx.QueryRow(ctx, readWord, "a").Scan(new(string))
			return nil
		},
		"before a reading": func(tx postgres.Tx) error {
			if err := tx.QueryRow(ctx, readWord, "before").Scan(new(string)); err != nil {
				return other
			}
			return nil
		},
		"before rows": func(tx postgres.Tx) error {
			if _, err := gorm.G[wordRow](tx.Gorm(ctx)).Find(ctx); err != nil {
				return other
			}
			return nil
		},
		"with a write": func(tx postgres.Tx) error {
			if _, err := tx.Exec(ctx, insertWord, "more", ""); err != nil {
				return other
			}
			return nil
		},
		"before what a library does": func(tx postgres.Tx) error {
			if err := tx.Pgx(ctx, func(pgx.Tx) error { return nil }); err != nil {
				return other
			}
			return nil
		},
	} {
		err := db.InTx(ctx, func(tx postgres.Tx) error {
			if _, err := tx.Exec(ctx, insertWord, "before", ""); err != nil {
				return err
			}
			if _, err := tx.Later(postgres.Counted(one)).Exec(ctx, changeWord, "nobody", ""); err != nil {
				return err
			}
			if _, err := tx.Later(postgres.Counted(one)).Exec(ctx, insertWord, "after", ""); err != nil {
				return err
			}
			return f(tx)
		})
		if !errors.Is(err, refused) || count(t, db) != 0 {
			t.Errorf("refused %s: %v, %d words", name, err, count(t, db))
		}
		err = db.InTx(ctx, func(tx postgres.Tx) error {
			for range 2 {
				if _, err := tx.Later(postgres.Counted(plain)).Exec(ctx, insertWord, "twin", ""); err != nil {
					return err
				}
			}
			return f(tx)
		})
		if !postgres.IsUnique(err, "words_pkey") || count(t, db) != 0 {
			t.Errorf("failed %s: %v, %d words", name, err, count(t, db))
		}
	}
	err := db.InTx(ctx, func(tx postgres.Tx) error {
		if _, err := tx.Later(postgres.Counted(plain)).Exec(ctx, insertWord, "a", ""); err != nil {
			return err
		}
		return other
	})
	if !errors.Is(err, other) || count(t, db) != 0 {
		t.Errorf("given up: %v, %d words", err, count(t, db))
	}
	if tx := db.Read(); !errors.Is(second(tx.Later(postgres.Counted(one)).Exec(ctx, changeWord, "nobody", "")),
		refused) || second(tx.Later(postgres.Counted(one)).Exec(ctx, insertWord, "now", "")) != nil ||
		count(t, db) != 1 {
		t.Error("outside a transaction a write is not checked at once")
	}
}

func second(_ int, err error) error { return err }

// TestAnErrorIsItsCallers checks that a write which is not deferred returns its own error, although it is sent with
// deferred ones.
func TestAnErrorIsItsCallers(t *testing.T) {
	t.Parallel()
	db, _ := words(t)
	ctx := t.Context()
	taken := errors.New("taken")
	err := db.InTx(ctx, func(tx postgres.Tx) error {
		if _, err := tx.Later(postgres.Counted(plain)).Exec(ctx, insertWord, "a", ""); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, insertWord, "a", ""); postgres.IsUnique(err, "words_pkey") {
			return taken
		}
		return nil
	})
	if !errors.Is(err, taken) || count(t, db) != 0 {
		t.Errorf("%v, %d words", err, count(t, db))
	}
}

// TestWhatWaitsIsTriedAgain checks that a deadlock of a deferred write makes the transaction run again.
func TestWhatWaitsIsTriedAgain(t *testing.T) {
	t.Parallel()
	db, _ := words(t)
	ctx, tries := t.Context(), 0
	err := db.InTx(ctx, func(tx postgres.Tx) error {
		tries++
		_, err := tx.Later(postgres.Counted(func(_ int, err error) error {
			if tries == 1 {
				return &pgconn.PgError{Code: "40P01"}
			}
			return err
		})).Exec(ctx, insertWord, "a", "")
		return err
	})
	if err != nil || tries != 2 || count(t, db) != 1 {
		t.Errorf("%d tries: %v, %d words", tries, err, count(t, db))
	}
}
