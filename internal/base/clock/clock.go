// Package clock is the only place that reads the current time, so that tests and the sandbox can control it.
package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Clock returns the time in UTC, to the microsecond (the resolution of the database).
type Clock interface{ Now() time.Time }

// System is the machine's clock.
type System struct{}

// Now implements [Clock].
func (System) Now() time.Time { return Truncate(time.Now()) }

// Since returns the time that has passed on a clock since start: 0 if the clock has been set back in between.
func Since(c Clock, start time.Time) time.Duration { return max(0, c.Now().Sub(start)) }

// Truncate converts t to UTC and microseconds, so that a value read back from the database equals the one written.
func Truncate(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Step exceeds any drift between two readings of a clock: a larger difference means that the clock was set.
const Step = 30 * time.Second

// Settled is how long a clock that was set must stay consistent before [Remote] follows it.
const Settled = time.Minute

// Remote returns the time of a remote clock: its last reading plus the local time that has elapsed after it. It is safe
// for concurrent use.
//
//   - Steps of this machine's clock do not affect it.
//   - It is never ahead of the remote clock: the duration of a response is left out.
//   - If the remote clock is set by more than [Step], Remote first continues as before. Following immediately would
//     make everything due by the new time due at the same moment.
//   - It follows the remote clock once that agrees with this machine's, is back where it was, or has stayed for
//     [Settled].
type Remote struct {
	machine func() time.Time
	passed  func() time.Time // like machine, but unaffected by setting the clock
	last    atomic.Pointer[reading]
	ahead   atomic.Int64 // how far the remote clock is ahead of the machine's, in nanoseconds

	mu    sync.Mutex
	asked bool
	doubt *doubt // nil while the remote clock is trusted
}

// reading is a reading of the remote clock, with the values of machine and passed at that moment.
type reading struct{ told, at, passed time.Time }

// doubt is a step of the remote clock that is not trusted yet.
type doubt struct {
	by    time.Duration
	since time.Time // as told by passed
}

// Change is what happened to the remote clock since the previous reading.
type Change int

// The possible changes.
const (
	Steady   Change = iota // it continues, or is doubted as before
	Doubted                // it was set, and is not trusted yet
	Believed               // it was set, and is trusted from now on
	Returned               // it is back where it was
)

// NewRemote returns a clock that measures elapsed time with machine; nil means the machine's clock.
func NewRemote(machine func() time.Time) *Remote {
	if machine == nil {
		machine = time.Now
	}
	r := &Remote{machine: machine, passed: time.Now}
	now := machine()
	r.last.Store(&reading{told: now, at: now, passed: r.passed()})
	return r
}

// [Remote.Ask] reads the clock a few times and uses the fastest response, which is the most accurate. A response faster
// than nearEnough ends the attempts.
const (
	remoteAsks = 3
	nearEnough = time.Millisecond
)

// Ask sets the clock from the responses of ask, and returns by how much the remote clock was set. After an error the
// clock continues unchanged.
func (r *Remote) Ask(ask func() (time.Time, error)) (Change, time.Duration, error) {
	var best reading
	var took time.Duration
	for i := range remoteAsks {
		from := r.machine()
		told, err := ask()
		if err != nil {
			return Steady, 0, err
		}
		at := r.machine()
		if i == 0 || at.Sub(from) < took {
			best, took = reading{told, at, r.passed()}, at.Sub(from)
		}
		if took < nearEnough {
			break
		}
	}
	r.ahead.Store(int64(best.told.Sub(best.at.Round(0))))
	change, by := r.take(best)
	return change, by, nil
}

// take accepts or doubts a reading.
func (r *Remote) take(now reading) (change Change, by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last.Load()
	by = now.told.Sub(last.told) - now.passed.Sub(last.passed)
	switch {
	case !r.asked:
		r.asked = true
	case by.Abs() <= Step:
		if r.doubt != nil {
			change = Returned
		}
	case r.Ahead().Abs() <= Step:
		change = Believed
	case r.doubt == nil || (by-r.doubt.by).Abs() > Step:
		r.doubt = &doubt{by, now.passed}
		return Doubted, by
	case now.passed.Sub(r.doubt.since) < Settled:
		return Steady, by
	default:
		change = Believed
	}
	r.doubt = nil
	r.last.Store(&now)
	return change, by
}

// Ahead returns how far the remote clock was ahead of this machine's at the last reading.
func (r *Remote) Ahead() time.Duration { return time.Duration(r.ahead.Load()) }

// Now implements [Clock].
func (r *Remote) Now() time.Time {
	l := r.last.Load()
	return Truncate(l.told.Add(r.machine().Sub(l.at)))
}

// Manual is a clock that moves only when told to. It is safe for concurrent use.
type Manual struct {
	mu  sync.Mutex
	now time.Time
}

// NewManual returns a manual clock set to t.
func NewManual(t time.Time) *Manual { return &Manual{now: Truncate(t)} }

// Now implements [Clock].
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Advance moves the clock forward by d.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = Truncate(m.now.Add(d))
}
