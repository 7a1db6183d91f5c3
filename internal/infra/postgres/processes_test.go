package postgres_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

func openAt(t *testing.T, url string, machine func() time.Time) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, postgres.Options{Test: true, Machine: machine})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// TestTimeIsTheDatabases checks that a process on a machine with a wrong clock uses the same time as the others. That
// time is the database's, and the process is never ahead of it.
func TestTimeIsTheDatabases(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	for _, wrong := range []time.Duration{0, 15 * time.Second, -time.Hour} {
		db := openAt(t, url, func() time.Time { return time.Now().Add(wrong) })
		for range 50 {
			now := db.Read().Now
			var told time.Time
			if err := db.Pool().QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&told); err != nil {
				t.Fatal(err)
			}
			if now.After(told) || told.Sub(now) > 5*time.Second {
				t.Fatalf("with a machine that is wrong by %s it is %s, and later in the database %s", wrong, now, told)
			}
		}
	}
}

// TestAnotherTakesOverFromWhoeverIsAlone checks that only one process runs. If its session ends silently, another takes
// over immediately and the first one is notified.
func TestAnotherTakesOverFromWhoeverIsAlone(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	type turn struct {
		who  int
		over context.Context
	}
	turns := make(chan turn, 10)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for who := range 3 {
		db := openAt(t, url, nil)
		all.Go(func() {
			db.Alone(ctx, "test", slog.New(slog.DiscardHandler), func(ctx context.Context) {
				turns <- turn{who, ctx}
				<-ctx.Done()
			})
		})
	}
	db := openAt(t, url, nil)
	next := func() turn {
		select {
		case n := <-turns:
			return n
		case <-time.After(20 * time.Second):
			t.Fatal("nobody takes over")
			return turn{}
		}
	}
	first := next()
	select {
	case second := <-turns:
		t.Fatalf("%d runs beside %d", second.who, first.who)
	case <-time.After(time.Second):
	}
	_, err := db.Pool().Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	if err != nil {
		t.Fatal(err)
	}
	next()
	select {
	case <-first.over.Done():
	case <-time.After(20 * time.Second):
		t.Error("the first was not told")
	}
	stop()
	all.Wait()
}

// TestWhoeverEndsMakesRoomAtOnce checks that a process told to stop yields immediately and finishes its work alongside
// its successor.
func TestWhoeverEndsMakesRoomAtOnce(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	log := slog.New(slog.DiscardHandler)
	began, finish := make(chan int, 2), make(chan struct{})
	var all sync.WaitGroup
	alone := func(ctx context.Context, who int) {
		db := openAt(t, url, nil)
		all.Go(func() {
			db.Alone(ctx, "test", log, func(context.Context) {
				began <- who
				<-finish
			})
		})
	}
	wait := func(want int, within time.Duration) {
		t.Helper()
		select {
		case who := <-began:
			if who != want {
				t.Errorf("%d has begun, want %d", who, want)
			}
		case <-time.After(within):
			t.Errorf("%d does not begin", want)
		}
	}
	first, endFirst := context.WithCancel(t.Context())
	second, endSecond := context.WithCancel(t.Context())
	alone(first, 1)
	wait(1, 20*time.Second)
	alone(second, 2)
	endFirst()
	wait(2, 3*time.Second) // the server would end the first session only after five seconds
	endSecond()
	close(finish)
	all.Wait()
}

// TestWordsReachTheOthers checks that words arrive at other processes, even after the listener's connection has ended.
// A process does not hear itself.
func TestWordsReachTheOthers(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	log := slog.New(slog.DiscardHandler)
	a, b := openAt(t, url, nil), openAt(t, url, nil)
	from, to := a.Channel("test", log), b.Channel("test", log)
	heard := make(chan string, 5000)
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	all.Go(func() { to.Listen(ctx, func(w string) { heard <- w }) })
	all.Go(func() { from.Tell(ctx) })
	all.Go(func() { to.Tell(ctx) })
	wait := func(want ...string) {
		t.Helper()
		for len(want) > 0 {
			select {
			case w := <-heard:
				if w == "own" {
					t.Error("it heard itself")
				}
				want = slices.DeleteFunc(want, func(x string) bool { return x == w })
			case <-time.After(20 * time.Second):
				t.Fatalf("not heard: %d words", len(want))
			}
		}
	}
	wait("")
	to.Send("own")
	var many []string
	for i := range 400 { // more than fits in one NOTIFY
		many = append(many, "w"+time.Duration(i).String()+"_0123456789012345678901234567890")
	}
	for _, w := range many {
		from.Send(w)
	}
	wait(many...)
	if _, err := a.Pool().Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN%'`); err != nil {
		t.Fatal(err)
	}
	wait("") // it is listening again
	from.Send("after")
	wait("after")
	stop()
	all.Wait()
}
