package ratelimit

import "time"

// Decision tells what a bucket says of one request.
type Decision struct {
	Allowed    bool
	Limit      int           // requests a minute, which is also the largest burst
	Remaining  int           // requests that would be allowed right now, after this one
	Reset      time.Time     // when the bucket will be full again
	RetryAfter time.Duration // 0 when allowed; else until the next request is allowed
}

// decide is the generic cell rate algorithm. full is the theoretical arrival time: the instant at which the bucket is
// full again (the zero time for a new one). It returns the decision and the new arrival time.
func decide(full, now time.Time, perMinute int) (Decision, time.Time) {
	interval := time.Minute / time.Duration(perMinute)
	burst := interval * time.Duration(perMinute)
	if full.Before(now) {
		full = now
	}
	next := full.Add(interval)
	if wait := next.Sub(now) - burst; wait > 0 {
		return Decision{Limit: perMinute, Reset: full, RetryAfter: wait}, full
	}
	return Decision{Allowed: true, Limit: perMinute, Remaining: remaining(next, now, interval, burst), Reset: next}, next
}

// peek is [decide] for no request at all: the state of the bucket as it stands.
func peek(full, now time.Time, perMinute int) Decision {
	interval := time.Minute / time.Duration(perMinute)
	burst := interval * time.Duration(perMinute)
	if full.Before(now) {
		full = now
	}
	return Decision{Allowed: full.Add(interval).Sub(now) <= burst, Limit: perMinute, Remaining: remaining(full, now, interval, burst), Reset: full}
}

func remaining(full, now time.Time, interval, burst time.Duration) int {
	return int((burst - full.Sub(now)) / interval)
}
