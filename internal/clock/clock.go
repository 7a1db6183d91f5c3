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

// Remote tells the time of a clock elsewhere: what that said last, and what has passed here since. Steps of this machine's
// clock do not reach it, and it is never ahead of the other one: the time that an answer was under way is left out. Safe
// for concurrent use.
type Remote struct {
	machine func() time.Time
	last    atomic.Pointer[reading]
}

type reading struct{ told, at time.Time }

// NewRemote makes one that measures by machine; nil means the machine's clock.
func NewRemote(machine func() time.Time) *Remote {
	if machine == nil {
		machine = time.Now
	}
	r := &Remote{machine: machine}
	now := machine()
	r.last.Store(&reading{told: now, at: now})
	return r
}

// It asks a few times in a row, to take the quickest answer: that is the nearest to the truth. One that took less than
// nearEnough is not improved on.
const (
	remoteAsks = 3
	nearEnough = time.Millisecond
)

// Ask sets the clock by the answers of ask. After a fault it goes on as it was.
func (r *Remote) Ask(ask func() (time.Time, error)) error {
	var best reading
	var took time.Duration
	for i := range remoteAsks {
		from := r.machine()
		told, err := ask()
		if err != nil {
			return err
		}
		at := r.machine()
		if i == 0 || at.Sub(from) < took {
			best, took = reading{told, at}, at.Sub(from)
		}
		if took < nearEnough {
			break
		}
	}
	r.last.Store(&best)
	return nil
}

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
