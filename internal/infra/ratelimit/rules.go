package ratelimit

import "time"

// Quota is the size of a bucket: Burst requests, of which one comes back every Interval.
type Quota struct {
	Burst    int
	Interval time.Duration
}

// PerMinute is the quota of n requests a minute (1 to ten million), which may all come at once. It counts in
// microseconds, as all who keep buckets do.
func PerMinute(n int) Quota {
	return Quota{Burst: n, Interval: (time.Minute / time.Duration(n)).Truncate(time.Microsecond)}
}

func (q Quota) period() time.Duration { return q.Interval * time.Duration(q.Burst) }

// Decision tells what a bucket says of one request.
type Decision struct {
	Allowed    bool
	Limit      int           // the largest burst
	Remaining  int           // requests that would be allowed right now, after this one
	Reset      time.Time     // when the bucket will be full again
	RetryAfter time.Duration // 0 when allowed; else until the next request is allowed
}

// decide is the generic cell rate algorithm. full is the theoretical arrival time: the instant at which the bucket is
// full again (the zero time for a new one). It returns the decision and the new arrival time.
func decide(full, now time.Time, q Quota) (Decision, time.Time) {
	if full.Before(now) {
		full = now
	}
	next := full.Add(q.Interval)
	if wait := next.Sub(now) - q.period(); wait > 0 {
		return Decision{Limit: q.Burst, Reset: full, RetryAfter: wait}, full
	}
	return Decision{Allowed: true, Limit: q.Burst, Remaining: remaining(next, now, q), Reset: next}, next
}

// peek is [decide] for no request at all: the state of the bucket as it stands.
func peek(full, now time.Time, q Quota) Decision {
	if full.Before(now) {
		full = now
	}
	return Decision{Allowed: full.Add(q.Interval).Sub(now) <= q.period(), Limit: q.Burst,
		Remaining: remaining(full, now, q), Reset: full}
}

func remaining(full, now time.Time, q Quota) int {
	return int((q.period() - full.Sub(now)) / q.Interval)
}
