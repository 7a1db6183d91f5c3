package bench

import (
	"slices"
	"sync"
	"time"
)

// Latencies collects durations. It is safe for concurrent use.
type Latencies struct {
	mu  sync.Mutex
	all []time.Duration
}

// Add records one duration.
func (l *Latencies) Add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, d)
}

// Count returns the number of recorded durations.
func (l *Latencies) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// Percentile returns the p-th percentile in milliseconds, or 0 if nothing was recorded.
func (l *Latencies) Percentile(p float64) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		return 0
	}
	slices.Sort(l.all)
	i := min(int(float64(len(l.all))*p/100), len(l.all)-1)
	return float64(l.all[i].Microseconds()) / 1000
}

// Rate returns how many of the recorded durations per second lie between from and to.
func (l *Latencies) Rate(from, to time.Duration) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, d := range l.all {
		if d >= from && d < to {
			n++
		}
	}
	return float64(n) / (to - from).Seconds()
}
