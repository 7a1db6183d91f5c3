package ratelimit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

func TestModelsAreTheTables(t *testing.T) {
	t.Parallel()
	dbtest.Models(t, bucketRow{})
}

// TestReplicasCountTogether checks that two processes on one database together allow what one allows alone.
func TestReplicasCountTogether(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(start)
	db := dbtest.NewWithClock(t, clk)
	other, err := db.ByIndex(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	take := func(db *postgres.DB, key string) (d Decision) {
		err := db.InTx(t.Context(), func(tx postgres.Tx) (err error) {
			d, err = Take(t.Context(), tx, key, PerMinute(10))
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return d
	}
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for _, replica := range []*postgres.DB{db, other} {
		for range 3 {
			wg.Go(func() {
				for range 5 {
					if take(replica, "test app_1").Allowed {
						allowed.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	if allowed.Load() != 10 {
		t.Errorf("%d allowed, want 10", allowed.Load())
	}
	refused := take(db, "test app_1")
	if refused.Allowed || refused.RetryAfter != 6*time.Second || refused.Limit != 10 ||
		!refused.Reset.Equal(start.Add(time.Minute)) {
		t.Errorf("refused: %+v", refused)
	}
	if d := take(other, "test app_2"); !d.Allowed || d.Remaining != 9 {
		t.Errorf("another key: %+v", d)
	}
	clk.Advance(refused.RetryAfter)
	if d := take(other, "test app_1"); !d.Allowed || d.Remaining != 0 {
		t.Errorf("after Retry-After: %+v", d)
	}
}

// TestBucketsOfADayArePutBackAndForgotten checks that a returned request counts as never taken, whatever the period.
// Only full buckets are deleted.
func TestBucketsOfADayArePutBackAndForgotten(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(start)
	db := dbtest.NewWithClock(t, clk)
	quota := Quota{Burst: 2, Interval: time.Hour}
	do := func(f func(tx postgres.Tx) error) {
		t.Helper()
		if err := db.InTx(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	take := func() (d Decision) {
		do(func(tx postgres.Tx) (err error) {
			d, err = Take(t.Context(), tx, "k", quota)
			return err
		})
		return d
	}
	purge := func(want int) {
		t.Helper()
		do(func(tx postgres.Tx) error {
			n, err := Purge(t.Context(), tx)
			if n != want {
				t.Errorf("%d purged, want %d", n, want)
			}
			return err
		})
	}
	take()
	for range 5 {
		if !take().Allowed {
			t.Fatal("refused although everything but one was put back")
		}
		do(func(tx postgres.Tx) error { return PutBack(t.Context(), tx, "k", quota) })
	}
	take()
	if d := take(); d.Allowed || d.RetryAfter != time.Hour || d.Limit != 2 {
		t.Errorf("above the burst: %+v", d)
	}
	clk.Advance(2*time.Hour - time.Microsecond)
	purge(0)
	clk.Advance(time.Microsecond)
	purge(1)
	if d := take(); !d.Allowed || d.Remaining != 1 {
		t.Errorf("after the purge: %+v", d)
	}
}
