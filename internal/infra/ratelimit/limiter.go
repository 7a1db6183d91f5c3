package ratelimit

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"partnerd/internal/base/clock"
)

const (
	shards     = 32
	perShard   = 8 << 10
	maxBuckets = shards * perShard
	lookedAt   = 16 // buckets to choose from when one must be forgotten
)

// Limiter keeps one bucket per key. The buckets are in this process, at most maxBuckets of them. With [NewShared] they
// are in the server of all processes while it is available. A full bucket is forgotten. Limiter is safe for concurrent
// use.
type Limiter struct {
	seed   maphash.Seed
	shards [shards]shard
	shared *shared // nil: this process counts separately
}

// Bucket is what a request is counted against. Its limit is [PerMinute].
type Bucket struct {
	Key       string
	PerMinute int
}

type shard struct {
	mu      sync.Mutex
	full    map[string]time.Time
	sweptAt time.Time
}

// New returns a limiter of this process with every bucket full.
func New() *Limiter {
	l := &Limiter{seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].full = map[string]time.Time{}
	}
	return l
}

// Allow takes one request from the bucket of key, which holds perMinute (at least 1) and refills evenly.
func (l *Limiter) Allow(ctx context.Context, key string, perMinute int, now time.Time) Decision {
	return l.AllowEach(ctx, now, Bucket{key, perMinute})[0]
}

// AllowEach applies [Limiter.Allow] to each bucket in turn until one refuses, in one round trip to the server. It
// returns the decisions of the buckets asked: at least one, and only the last may be a refusal.
func (l *Limiter) AllowEach(ctx context.Context, now time.Time, buckets ...Bucket) []Decision {
	now = clock.Truncate(now)
	said := make([]Decision, 0, len(buckets))
	if before, ok := l.shared.take(ctx, now, buckets); ok {
		for i, full := range before {
			d, _ := decide(full, now, PerMinute(buckets[i].PerMinute))
			said = append(said, d)
		}
		return said
	}
	for _, b := range buckets {
		d := l.allow(b, now)
		if said = append(said, d); !d.Allowed {
			break
		}
	}
	return said
}

func (l *Limiter) allow(b Bucket, now time.Time) Decision {
	s := l.shard(b.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now)
	d, full := decide(s.full[b.Key], now, PerMinute(b.PerMinute))
	s.makeRoom(b.Key)
	s.full[b.Key] = full
	return d
}

// Return gives one request back to the bucket of key, when what was counted proved harmless.
func (l *Limiter) Return(ctx context.Context, key string, perMinute int) {
	if l.shared.putBack(ctx, key, PerMinute(perMinute)) {
		return
	}
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if full, ok := s.full[key]; ok {
		s.full[key] = full.Add(-PerMinute(perMinute).Interval)
	}
}

// Peek returns the state of the bucket of key and takes nothing.
func (l *Limiter) Peek(ctx context.Context, key string, perMinute int, now time.Time) Decision {
	now = clock.Truncate(now)
	if full, ok := l.shared.look(ctx, key); ok {
		return peek(full, now, PerMinute(perMinute))
	}
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return peek(s.full[key], now, PerMinute(perMinute))
}

func (l *Limiter) shard(key string) *shard {
	return &l.shards[maphash.String(l.seed, key)%uint64(len(l.shards))]
}

// makeRoom forgets a bucket if a new one would exceed the bound: of some sampled buckets, the one that is full again
// first. A caller with that many keys gets more requests but cannot exhaust our memory. No exhausted bucket is reset.
func (s *shard) makeRoom(key string) {
	if _, known := s.full[key]; known || len(s.full) < perShard {
		return
	}
	looked, forget, first := 0, "", time.Time{}
	for other, full := range s.full { // iteration starts at a random bucket
		if looked == 0 || full.Before(first) {
			forget, first = other, full
		}
		if looked++; looked == lookedAt {
			break
		}
	}
	delete(s.full, forget)
}

// sweep forgets full buckets once a minute, so memory is bounded by the keys seen in the last two minutes.
func (s *shard) sweep(now time.Time) {
	if now.Sub(s.sweptAt) < time.Minute {
		return
	}
	s.sweptAt = now
	for k, full := range s.full {
		if !full.After(now) {
			delete(s.full, k)
		}
	}
}
