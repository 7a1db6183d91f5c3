package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
)

// TestAPeriodicJobMayTakeItsInterval checks that an hourly job is not stopped after the minute that other jobs have.
func TestAPeriodicJobMayTakeItsInterval(t *testing.T) {
	t.Parallel()
	q, err := queue.New(dbtest.New(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan time.Duration, 1)
	q.Every("hourly", time.Hour, func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	select {
	case d := <-left:
		if d < 59*time.Minute || d > time.Hour {
			t.Errorf("it is cut off after %s", d)
		}
	case <-time.After(30 * time.Second):
		t.Error("the job did not run")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("end: %v", err)
	}
}

func TestJobsShareTheFateOfTheirTransaction(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	q, err := queue.New(db, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	ran := map[int]int{}
	all := make(chan struct{})
	queue.Handle(q, "count", func(_ context.Context, n int) error {
		mu.Lock()
		defer mu.Unlock()
		if ran[n]++; n == 0 && ran[n] == 1 {
			return errors.New("the first try fails")
		}
		if len(ran) == 10 && ran[0] == 2 {
			close(all)
		}
		return nil
	})
	refused := errors.New("refused")
	for n := range 20 {
		err := db.InTx(t.Context(), func(tx postgres.Tx) error {
			if err := q.Insert(t.Context(), tx, "count", n); err != nil {
				return err
			}
			if n >= 10 {
				return refused
			}
			return nil
		})
		if n >= 10 != errors.Is(err, refused) {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	select {
	case <-all:
	case <-time.After(30 * time.Second):
		t.Error("jobs did not run")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("end: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	for n, times := range ran {
		if n >= 10 {
			t.Errorf("job %d of a rolled back transaction ran", n)
		}
		if times != 1 && n != 0 {
			t.Error(fmt.Sprint("job ", n, " ran ", times, " times"))
		}
	}
}

// TestEachJobIsToldOf checks that a text message requested right after an email does not wait for the next poll.
func TestEachJobIsToldOf(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	q, err := queue.New(db, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), `LISTEN "river.river_insert"`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for n := range 5 {
		<-time.After(2 * time.Millisecond)
		err := db.InTx(t.Context(), func(tx postgres.Tx) error { return q.Insert(t.Context(), tx, "any", n) })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Conn().WaitForNotification(ctx); err != nil {
			t.Fatalf("job %d: %v", n, err)
		}
	}
}
