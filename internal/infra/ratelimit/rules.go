package ratelimit

import "time"

// Quota is the size of a bucket: it holds Burst requests and regains one every Interval.
type Quota struct {
	Burst    int
	Interval time.Duration
}

// PerMinute returns the quota of n requests per minute (1 to ten million), which may all come in one burst. Interval is
// truncated to microseconds, the precision of every kind of bucket.
func PerMinute(n int) Quota {
	return Quota{Burst: n, Interval: (time.Minute / time.Duration(n)).Truncate(time.Microsecond)}
}

func (q Quota) period() time.Duration { return q.Interval * time.Duration(q.Burst) }

// Decision is the outcome for one request.
type Decision struct {
	Allowed    bool
	Limit      int           // largest burst
	Remaining  int           // further requests that would be allowed right now
	Reset      time.Time     // when the bucket is full again
	RetryAfter time.Duration // until the next request is allowed; 0 if this one is
}

// decide implements the generic cell rate algorithm. full is the theoretical arrival time: when the bucket is full
// again (the zero time for a new bucket). decide returns the decision and the new arrival time.
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

// peek is [decide] without a request: it returns the current state of the bucket.
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
