package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"partnerd/internal/infra/postgres"
)

// anyRow reads the values of one row as the driver returns them.
func anyRow(rows *sql.Rows, err error) ([]any, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	list, to := make([]any, len(columns)), make([]any, len(columns))
	for i := range list {
		to[i] = &list[i]
	}
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
	}
	return list, rows.Err()
}

var everyTypeSQL = postgres.SQL(postgres.Backend, `SELECT true AS a, false, (-7)::smallint, (-70000)::int, (-7000000000)::bigint, 1.5::real, -2.25::float8, 12.340::numeric,
	'words'::text, 'words'::varchar(9), 'w'::"char", '\x00ff'::bytea, ''::bytea, ''::text, '{"a": [1]}'::json, '{"a": [1]}'::jsonb,
	'2026-02-03 04:05:06.000007+00'::timestamptz, '1969-12-31 23:59:59.999999+00'::timestamptz, '0044-03-15 00:00:00+00 BC'::timestamptz,
	'2026-02-03 04:05:06'::timestamp, '2026-02-03'::date, '90 minutes'::interval,
	'6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid, ARRAY['a', 'b"c', NULL]::text[], ARRAY[1, 2]::bigint[], '{}'::int[], '10.0.0.0/8'::cidr,
	4711::oid, 'pg_class'::regclass, pg_advisory_xact_lock(1), 'infinity'::timestamptz, NULL::text, NULL::timestamptz, NULL::bigint[]`)

// TestValuesAreTheSame checks that values equal those of pgx's own connections: for a single statement, in a
// transaction, and with deferred writes before it.
func TestValuesAreTheSame(t *testing.T) {
	t.Parallel()
	db, s := words(t)
	ctx, query := t.Context(), everyTypeSQL.String()
	reference := stdlib.OpenDBFromPool(db.Pool())
	defer reference.Close()
	want, err := anyRow(reference.QueryContext(ctx, query))
	if err != nil {
		t.Fatal(err)
	}
	s.trips = nil
	got := map[string][]any{}
	if got["alone"], err = anyRow(db.Read().Gorm(ctx).Statement.ConnPool.QueryContext(ctx, query)); err != nil {
		t.Fatal(err)
	}
	if err := db.InTx(ctx, func(tx postgres.Tx) (err error) {
		pool := tx.Gorm(ctx).Statement.ConnPool
		if got["with what waits"], err = anyRow(pool.QueryContext(ctx, query)); err != nil {
			return err
		}
		got["in a transaction"], err = anyRow(pool.QueryContext(ctx, query))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"select", "begin+select", "select", "commit"}; !slices.Equal(s.trips, want) {
		t.Errorf("round trips %q, want %q", s.trips, want)
	}
	for how, list := range got {
		for i := range want {
			if wanted, ok := want[i].(time.Time); ok {
				if is, ok := list[i].(time.Time); ok && is.Equal(wanted) && is.Location() == time.UTC {
					continue
				}
			}
			if !reflect.DeepEqual(list[i], want[i]) {
				t.Errorf("column %d %s: %T %v, want %T %v", i, how, list[i], list[i], want[i], want[i])
			}
		}
	}
}

// TestColumnsAreThoseOfTheStatement also covers a statement without rows while others run.
func TestColumnsAreThoseOfTheStatement(t *testing.T) {
	t.Parallel()
	db, _ := words(t)
	ctx := t.Context()
	pool := db.Read().Gorm(ctx).Statement.ConnPool
	empty, err := pool.QueryContext(ctx, readWord.String(), "nobody")
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	for range 3 {
		if list, err := anyRow(pool.QueryContext(ctx, "SELECT $1::text AS other, now()", "a")); err != nil ||
			len(list) != 2 {
			t.Fatalf("%v, %v", list, err)
		}
	}
	if names, err := empty.Columns(); err != nil || !slices.Equal(names, []string{"word"}) {
		t.Errorf("columns %q, %v", names, err)
	}
	if empty.Next() || empty.Err() != nil {
		t.Errorf("a row, or %v", empty.Err())
	}
}

// TestATransactionCostsNoTripToBegin also checks that deferred writes which only report errors need no extra round trip
// to commit.
func TestATransactionCostsNoTripToBegin(t *testing.T) {
	t.Parallel()
	db, s := words(t)
	ctx := t.Context()
	for _, c := range []struct {
		what string
		f    func(tx postgres.Tx) error
		want []string
		rows int
	}{
		{"nothing", func(postgres.Tx) error { return nil }, nil, 0},
		{"writes that wait", func(tx postgres.Tx) error {
			_, _ = tx.Later(postgres.Called("a")).Exec(ctx, insertWord, "a", "one")
			return second(tx.Later(postgres.Called("b")).Exec(ctx, insertWord, "b", "one"))
		}, []string{"begin+insert+insert+commit"}, 2},
		{"a write whose rows are counted", func(tx postgres.Tx) error {
			return second(tx.Later(postgres.Counted(plain)).Exec(ctx, changeWord, "a", "two"))
		}, []string{"begin+update", "commit"}, 2},
		{"a write", func(tx postgres.Tx) error { return second(tx.Exec(ctx, insertWord, "c", "one")) },
			[]string{"begin+insert", "commit"}, 3},
		{"a reading, then a write that waits", func(tx postgres.Tx) error {
			if err := tx.QueryRow(ctx, readWord, "a").Scan(new(string)); err != nil {
				return err
			}
			return second(tx.Later(postgres.Called("d")).Exec(ctx, insertWord, "d", "one"))
		}, []string{"begin+select", "insert+commit"}, 4},
		{"several statements in one text", func(tx postgres.Tx) error {
			return second(tx.Exec(ctx, postgres.SQL(postgres.Backend,
				"INSERT INTO words (id, word) VALUES ('e', ''); DELETE FROM words WHERE id = 'd'")))
		}, []string{"begin", "insert", "commit"}, 4},
		{"a reading without rows", func(tx postgres.Tx) error {
			if err := tx.QueryRow(ctx, readWord, "nobody").Scan(new(string)); !postgres.IsNotFound(err) {
				return errors.New("a row was found")
			}
			return nil
		}, []string{"begin+select", "commit"}, 4},
	} {
		if err := db.InTx(ctx, func(postgres.Tx) error { return nil }); err != nil { // opens a connection
			t.Fatal(err)
		}
		s.trips = nil
		if err := db.InTx(ctx, c.f); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if !slices.Equal(s.trips, c.want) {
			t.Errorf("%s: round trips %q, want %q", c.what, s.trips, c.want)
		}
		if n := count(t, db); n != c.rows {
			t.Errorf("%s: %d words, want %d", c.what, n, c.rows)
		}
	}
}

// TestWhatFailsWithTheCommitIsUndone also checks that the connection remains usable.
func TestWhatFailsWithTheCommitIsUndone(t *testing.T) {
	t.Parallel()
	db, s := words(t)
	ctx := t.Context()
	exec := func(text string) {
		t.Helper()
		if _, err := db.Read().Exec(ctx, postgres.SQL(postgres.Backend, text)); err != nil {
			t.Fatal(err)
		}
	}
	exec("ALTER TABLE words ADD CONSTRAINT words_once UNIQUE (word) DEFERRABLE INITIALLY DEFERRED")
	var backend int
	pid := postgres.SQL(postgres.Backend, "SELECT pg_backend_pid()")
	if err := db.Read().QueryRow(ctx, pid).Scan(&backend); err != nil {
		t.Fatal(err)
	}
	insert := func(tx postgres.Tx, id, word string) {
		_, _ = tx.Later(postgres.Called("insert "+id)).Exec(ctx, insertWord, id, word)
	}
	other := errors.New("other")
	for what, c := range map[string]struct {
		f       func(tx postgres.Tx) error
		is      func(error) bool
		message string
	}{
		"the commit": {func(tx postgres.Tx) error {
			insert(tx, "a", "same")
			insert(tx, "b", "same")
			return nil
		}, func(err error) bool { return postgres.IsUnique(err, "words_once") }, ""},
		"the commit alone": {func(tx postgres.Tx) error {
			insert(tx, "a", "same")
			return second(tx.Exec(ctx, insertWord, "b", "same"))
		}, func(err error) bool { return postgres.IsUnique(err, "words_once") }, ""},
		"a write before it": {func(tx postgres.Tx) error {
			insert(tx, "a", "one")
			insert(tx, "a", "two")
			return nil
		}, func(err error) bool { return postgres.IsUnique(err, "words_pkey") }, "insert a: "},
		"the first statement": {func(tx postgres.Tx) error {
			return second(tx.Exec(ctx, postgres.SQL(postgres.Backend, "SELECT 1/0")))
		}, func(err error) bool { return err != nil }, ""},
		"an error that was not looked at": {func(tx postgres.Tx) error {
			_ = second(tx.Exec(ctx, postgres.SQL(postgres.Backend, "SELECT 1/0")))
			return nil
		}, func(err error) bool { return err != nil }, ""},
		"an error that was not looked at, and then a write": {func(tx postgres.Tx) error {
			_ = second(tx.Exec(ctx, postgres.SQL(postgres.Backend, "SELECT 1/0")))
			insert(tx, "a", "one")
			return nil
		}, func(err error) bool { return err != nil }, "insert a: "},
		"given up before a statement": {func(tx postgres.Tx) error {
			insert(tx, "a", "one")
			return other
		}, func(err error) bool { return errors.Is(err, other) }, ""},
	} {
		s.trips = nil
		err := db.InTx(ctx, c.f)
		if !c.is(err) || len(c.message) > 0 && (err == nil || err.Error()[:len(c.message)] != c.message) {
			t.Errorf("%s: %v", what, err)
		}
		if n := count(t, db); n != 0 {
			t.Errorf("%s: %d words", what, n)
		}
		var is int
		if err := db.Read().QueryRow(ctx, pid).Scan(&is); err != nil || is != backend {
			t.Errorf("%s: then a connection of %d and not %d, %v (trips %q)", what, is, backend, err, s.trips)
		}
	}
}

// TestATransactionEndsWithItsContext also covers deferred writes, and checks that nothing is left behind.
func TestATransactionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	db, _ := words(t)
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		err := db.InTx(ctx, func(tx postgres.Tx) error {
			if _, err := tx.Exec(ctx, insertWord, "a", "one"); err != nil {
				return err
			}
			_, _ = tx.Later(postgres.Called("b")).Exec(ctx, insertWord, "b", "one")
			go cancel()
			_ = tx.QueryRow(ctx, readWord, "a").Scan(new(string))
			<-ctx.Done()
			return second(tx.Later(postgres.Called("c")).Exec(ctx, insertWord, "c", "one"))
		})
		if err == nil {
			t.Fatal("a transaction commits after its context has ended")
		}
	}
	if n := count(t, db); n != 0 {
		t.Errorf("%d words", n)
	}
}

// TestAPanicGivesTheConnectionBack covers panics at every place in a transaction, and checks that its writes are
// undone.
func TestAPanicGivesTheConnectionBack(t *testing.T) {
	t.Parallel()
	db, _ := words(t) // allows two connections
	for where, f := range map[string]func(ctx context.Context, tx postgres.Tx){
		"in the function": func(context.Context, postgres.Tx) { panic("fault") },
		"in a library": func(ctx context.Context, tx postgres.Tx) {
			_ = tx.Pgx(ctx, func(pgx.Tx) error { panic("fault") })
		},
		"in a value": func(ctx context.Context, tx postgres.Tx) {
			_ = second(tx.Exec(ctx, changeWord, "a", faulty{}))
		},
		"while rows are read": func(ctx context.Context, tx postgres.Tx) {
			_ = tx.Rows(ctx, postgres.SQL(postgres.Backend, "SELECT generate_series(1, 100000)"),
				func(*sql.Rows) error { panic("fault") })
		},
	} {
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: no panic", where)
					}
				}()
				err := db.InTx(ctx, func(tx postgres.Tx) error {
					if _, err := tx.Exec(ctx, insertWord, "a", "one"); err != nil {
						return err
					}
					f(ctx, tx)
					return nil
				})
				t.Errorf("%s: %v", where, err)
			}()
			cancel()
		}
		if held := db.Pool().Stat().AcquiredConns(); held != 0 {
			t.Fatalf("%s: %d connections are held after all transactions have ended", where, held)
		}
		if n := count(t, db); n != 0 {
			t.Errorf("%s: %d words", where, n)
		}
	}
}

// faulty is a driver value that panics.
type faulty struct{}

// Value implements [driver.Valuer].
func (faulty) Value() (driver.Value, error) { panic("fault") }

// TestASnapshotSeesOneState checks that the second statement of a snapshot does not see a commit made after the first.
// It also checks that a snapshot writes nothing.
func TestASnapshotSeesOneState(t *testing.T) {
	t.Parallel()
	db, s := words(t)
	ctx := t.Context()
	one, err := db.Read().Exec(ctx, insertWord, "a", "before")
	if err != nil || one != 1 {
		t.Fatal(err)
	}
	s.trips = nil
	read := func(tx postgres.Tx) (word string) {
		if err := tx.QueryRow(ctx, readWord, "a").Scan(&word); err != nil {
			t.Error(err)
		}
		return word
	}
	err = db.Snapshot(ctx, func(tx postgres.Tx) error {
		first := read(tx)
		if _, err := db.Read().Exec(ctx, changeWord, "a", "after"); err != nil {
			return err
		}
		if second := read(tx); first != "before" || second != first {
			t.Errorf("it read %q, then %q", first, second)
		}
		return nil
	})
	if err != nil || read(db.Read()) != "after" {
		t.Errorf("afterwards: %v", err)
	}
	if want := []string{"begin+select", "update", "select", "commit", "select"}; !slices.Equal(s.trips, want) {
		t.Errorf("round trips %q, want %q", s.trips, want)
	}
	err = db.Snapshot(ctx, func(tx postgres.Tx) error {
		_, err := tx.Exec(ctx, changeWord, "a", "written")
		return err
	})
	if err == nil || read(db.Read()) != "after" {
		t.Errorf("a snapshot wrote: %v", err)
	}
}
