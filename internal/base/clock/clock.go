// Package clock is the only place that reads the time of day, so that tests and the sandbox can choose it.
package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Clock tells the time in UTC, to the microsecond (the resolution of the database).
type Clock interface{ Now() time.Time }

// System is the machine's clock.
type System struct{}

// Now implements [Clock].
func (System) Now() time.Time { return Truncate(time.Now()) }

// Truncate brings t to UTC and microseconds, so that a value read back from the database is equal to the one written.
func Truncate(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Step is more than any drift between two looks at a clock: somebody set it.
const Step = 30 * time.Second

// Settled is for how long a clock that was set has to stay as it is before [Remote] goes by it.
const Settled = time.Minute

// Remote tells the time of a clock elsewhere: what that said last, and what has passed here since. Steps of this
// machine's clock do not reach it, and it is never ahead of the other one: the time that an answer was under way is
// left out. When the other clock is set by more than [Step], Remote goes on as before until that clock agrees with this
// machine's, is back where it was, or has stayed for [Settled]: what is due by it would all be due at the same time.
// Safe for concurrent use.
type Remote struct {
	machine func() time.Time
	passed  func() time.Time // like machine, and nobody can set it
	last    atomic.Pointer[reading]
	ahead   atomic.Int64 // of the machine's clock, in nanoseconds

	mu    sync.Mutex
	asked bool
	doubt *doubt // nil while the other clock is believed
}

// reading is what the other clock told, and what machine and passed said then.
type reading struct{ told, at, passed time.Time }

// doubt is a step of the other clock that is not believed yet.
type doubt struct {
	by    time.Duration
	since time.Time // of passed
}

// Change is what became of the other clock since the question before.
type Change int

// The changes.
const (
	Steady   Change = iota // it goes on, or is doubted as before
	Doubted                // it was set, and is not believed yet
	Believed               // it was set, and is believed from now on
	Returned               // it is back where it was
)

// NewRemote makes one that measures by machine; nil means the machine's clock.
func NewRemote(machine func() time.Time) *Remote {
	if machine == nil {
		machine = time.Now
	}
	r := &Remote{machine: machine, passed: time.Now}
	now := machine()
	r.last.Store(&reading{told: now, at: now, passed: r.passed()})
	return r
}

// It asks a few times in a row, to take the quickest answer: that is the nearest to the truth. One that took less than
// nearEnough is not improved on.
const (
	remoteAsks = 3
	nearEnough = time.Millisecond
)

// Ask sets the clock by the answers of ask, and tells by how much the other clock was set. After a fault it goes on as
// it was.
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

// take believes a reading, or doubts it.
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

// Ahead is by how much the other clock was ahead of this machine's when it was asked last.
func (r *Remote) Ahead() time.Duration { return time.Duration(r.ahead.Load()) }

// Now implements [Clock].
func (r *Remote) Now() time.Time {
	l := r.last.Load()
	return Truncate(l.told.Add(r.machine().Sub(l.at)))
}

// Manual is a clock that moves only when told. Safe for concurrent use.
type Manual struct {
	mu  sync.Mutex
	now time.Time
}

// NewManual starts a manual clock at t.
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
