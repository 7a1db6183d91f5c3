package ratelimit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestBurstThenEvenRefill(t *testing.T) {
	t.Parallel()
	l := New()
	for i := range 60 {
		d := l.Allow(t.Context(), "k", 60, start)
		if !d.Allowed || d.Remaining != 59-i || d.Limit != 60 {
			t.Fatalf("request %d: %+v", i, d)
		}
	}
	refused := l.Allow(t.Context(), "k", 60, start)
	if refused.Allowed || refused.Remaining != 0 || refused.RetryAfter != time.Second ||
		!refused.Reset.Equal(start.Add(time.Minute)) {
		t.Fatalf("at the limit: %+v", refused)
	}
	if d := l.Allow(t.Context(), "k", 60, start.Add(refused.RetryAfter-time.Millisecond)); d.Allowed {
		t.Error("allowed before Retry-After")
	}
	if d := l.Allow(t.Context(), "k", 60, start.Add(refused.RetryAfter)); !d.Allowed || d.Remaining != 0 {
		t.Errorf("after Retry-After: %+v", d)
	}
	if d := l.Peek(t.Context(), "k", 60, start.Add(time.Hour)); d.Remaining != 60 || !d.Allowed {
		t.Errorf("after an hour: %+v", d)
	}
}

func TestARefusalCostsNothing(t *testing.T) {
	t.Parallel()
	l := New()
	l.Allow(t.Context(), "k", 1, start)
	for range 100 {
		l.Allow(t.Context(), "k", 1, start)
	}
	if d := l.Allow(t.Context(), "k", 1, start.Add(time.Minute)); !d.Allowed {
		t.Errorf("refusals pushed the bucket back: %+v", d)
	}
}

func TestAReturnedRequestWasNeverCounted(t *testing.T) {
	t.Parallel()
	l := New()
	for range 10 {
		if !l.Allow(t.Context(), "k", 2, start).Allowed {
			t.Fatal("refused although everything was returned")
		}
		l.Return(t.Context(), "k", 2)
	}
	l.Return(t.Context(), "unknown", 2)
	if d := l.Peek(t.Context(), "k", 2, start); d.Remaining != 2 {
		t.Errorf("after all: %+v", d)
	}
}

func TestParallelRequestsNeverExceedTheLimit(t *testing.T) {
	t.Parallel()
	l := New()
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 100 {
				if l.Allow(t.Context(), "k", 600, start).Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if allowed.Load() != 600 {
		t.Errorf("%d allowed, want 600", allowed.Load())
	}
}

func TestFullBucketsAreForgotten(t *testing.T) {
	t.Parallel()
	l := New()
	for i := range 10_000 {
		l.Allow(t.Context(), fmt.Sprint(i), 600, start)
	}
	for i := range 10_000 { // touches every shard
		l.Allow(t.Context(), fmt.Sprint("x", i), 600, start.Add(2*time.Minute))
	}
	n := 0
	for i := range l.shards {
		n += len(l.shards[i].full)
	}
	if n > 10_000 {
		t.Errorf("%d buckets kept", n)
	}
}

func TestOneIPv6SubscriberIsOneAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "2001:db8:1:2:3::4": "2001:db8:1:2::/64", "": "", "x": "x",
		"::ffff:192.0.2.7": "::ffff:192.0.2.7",
	} {
		if got := Network(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}

// TestBucketsAreBounded checks that unlimited keys do not use unlimited memory, and that buckets in use keep counting.
func TestBucketsAreBounded(t *testing.T) {
	t.Parallel()
	l := New()
	for i := range maxBuckets + maxBuckets/4 {
		l.Allow(t.Context(), fmt.Sprint(i), 1, start)
	}
	n := 0
	for i := range l.shards {
		n += len(l.shards[i].full)
	}
	if n > maxBuckets || n < maxBuckets*9/10 {
		t.Errorf("%d buckets", n)
	}
	if last := fmt.Sprint(maxBuckets + maxBuckets/4 - 1); l.Allow(t.Context(), last, 1, start).Allowed {
		t.Error("the newest bucket does not count")
	}
}

// TestNobodyResetsABucketByOtherKeys checks that a caller with ever new keys, one per address, resets no exhausted
// bucket, neither their own nor another's.
func TestNobodyResetsABucketByOtherKeys(t *testing.T) {
	t.Parallel()
	l := New()
	const used = 64
	for i := range used {
		for range 10 {
			l.Allow(t.Context(), fmt.Sprint("used ", i), 10, start)
		}
	}
	for i := range maxBuckets + maxBuckets/4 {
		l.Allow(t.Context(), fmt.Sprint(i), 10, start)
	}
	for i := range used {
		if l.Allow(t.Context(), fmt.Sprint("used ", i), 10, start).Allowed {
			t.Fatalf("bucket %d is full again", i)
		}
	}
}
