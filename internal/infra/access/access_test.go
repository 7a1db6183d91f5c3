package access

import (
	"context"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newLog returns a database with the clients cli_a, cli_b and the applications app_1, app_2.
func newLog(t *testing.T) (*postgres.DB, *clock.Manual) {
	t.Helper()
	c := clock.NewManual(noon)
	db := dbtest.NewWithClock(t, c)
	for _, statement := range []string{
		`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ('cli_a', 'a@x.example', 'A', 'h', $1, $1), ('cli_b', 'b@x.example', 'B', 'h', $1, $1)`,
		`INSERT INTO applications (id, name, secret_hash, redirect_uris, scopes, created_at, updated_at) VALUES
			('app_1', 'One', '\x00', '{https://x.example/}', '{profile:read}', $1, $1), ('app_2', 'Two', '\x00', '{https://x.example/}', '{profile:read}', $1, $1)`,
	} {
		if _, err := db.Pool().Exec(t.Context(), statement, noon); err != nil {
			t.Fatal(err)
		}
	}
	return db, c
}

func of(t *testing.T, l *Log, clientID string) []Count {
	t.Helper()
	out, err := l.Of(t.Context(), l.db.Read(), clientID, noon.AddDate(-2, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func flush(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestProcessesCountTogether runs several processes at the same time, each with all its goroutines. Nothing is lost or
// counted twice.
func TestProcessesCountTogether(t *testing.T) {
	t.Parallel()
	db, _ := newLog(t)
	logs := []*Log{New(db), New(db), New(db)}
	var wg sync.WaitGroup
	for _, l := range logs {
		for range 4 {
			wg.Go(func() {
				for i := range 250 {
					l.Count("cli_a", "app_1", Wallet, noon.Add(time.Duration(i)*time.Second))
					l.Count("cli_b", "app_2", Notes, noon)
					if i%50 == 0 {
						if err := l.Flush(t.Context()); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
	}
	wg.Wait()
	for _, l := range logs {
		flush(t, l)
		flush(t, l) // written counts are not written again
	}
	got := of(t, logs[0], "cli_a")
	want := Count{"app_1", Wallet, noon.Truncate(24 * time.Hour), 3000, noon.Add(249 * time.Second)}
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := of(t, logs[0], "cli_b"); len(got) != 1 || got[0].Uses != 3000 {
		t.Errorf("got %+v", got)
	}
}

func TestDaysAndCategoriesAreApartAndOldDaysGo(t *testing.T) {
	t.Parallel()
	db, c := newLog(t)
	l := New(db)
	l.Count("cli_a", "app_1", Profile, noon)
	l.Count("cli_a", "app_1", Profile, noon.Add(11*time.Hour+59*time.Minute))
	l.Count("cli_a", "app_1", Profile, noon.Add(12*time.Hour))
	l.Count("cli_a", "app_1", Consultations, noon)
	l.Count("cli_a", "app_2", Profile, noon)
	flush(t, l)
	got := of(t, l, "cli_a")
	if len(got) != 4 || got[0].Uses != 1 || !got[0].Day.Equal(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)) ||
		got[2].Uses != 2 {
		t.Fatalf("got %+v", got)
	}
	c.Advance(time.Date(2027, 4, 1, 23, 0, 0, 0, time.UTC).Sub(c.Now()))
	if n, err := l.Purge(t.Context()); n != 0 || err != nil {
		t.Errorf("purged %d %v within 13 months", n, err)
	}
	c.Advance(time.Date(2027, 4, 2, 0, 0, 0, 0, time.UTC).Sub(c.Now()))
	if n, err := l.Purge(t.Context()); n != 3 || err != nil {
		t.Errorf("purged %d %v, want the first day", n, err)
	}
}

func TestWhatCannotBeWrittenStaysCounted(t *testing.T) {
	t.Parallel()
	db, _ := newLog(t)
	l := New(db)
	l.Count("cli_a", "app_1", Profile, noon)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Flush(ended); err == nil {
		t.Fatal("written without a database")
	}
	l.Count("cli_a", "app_1", Profile, noon)
	flush(t, l)
	if got := of(t, l, "cli_a"); len(got) != 1 || got[0].Uses != 2 {
		t.Errorf("got %+v", got)
	}
}

// TestNothingComesBackAfterAnErasure checks that a count being written waits for an erasure and is dropped. The other
// clients of the statement keep theirs.
func TestNothingComesBackAfterAnErasure(t *testing.T) {
	t.Parallel()
	db, _ := newLog(t)
	l := New(db)
	l.Count("cli_a", "app_1", Profile, noon)
	flush(t, l)
	l.Count("cli_a", "app_1", Profile, noon)
	l.Count("cli_b", "app_1", Profile, noon)
	written := make(chan error, 1)
	err := db.InTx(t.Context(), func(tx postgres.Tx) error {
		for _, statement := range []string{`SELECT 1 FROM clients WHERE id = 'cli_a' FOR UPDATE`,
			`UPDATE clients SET erased_at = now(), disabled_at = now(), password_hash = '' WHERE id = 'cli_a'`} {
			if err := dbtest.Exec(t.Context(), tx, statement); err != nil {
				return err
			}
		}
		go func() { written <- l.Flush(context.WithoutCancel(t.Context())) }()
		dbtest.AwaitWaiters(t, db, 1)
		return l.Erase(t.Context(), tx, "cli_a")
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if a, b := of(t, l, "cli_a"), of(t, l, "cli_b"); len(a) != 0 || len(b) != 1 {
		t.Errorf("erased %+v, other %+v", a, b)
	}
}

func TestAUseAllocatesNothing(t *testing.T) {
	l := New(nil)
	if n := testing.AllocsPerRun(1000, func() { l.Count("cli_a", "app_1", Profile, noon) }); n != 0 {
		t.Errorf("%v allocations a use", n)
	}
}

func BenchmarkCount(b *testing.B) {
	l := New(nil)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Count("cli_a", "app_1", Profile, noon)
		}
	})
}
