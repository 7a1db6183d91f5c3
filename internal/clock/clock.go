// Package clock is the only place that reads the time of day, so that tests and the sandbox can choose it.
package clock

import (
	"sync"
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
