package matching

import (
	"testing"
	"time"
)

func TestEstimate(t *testing.T) {
	t.Parallel()
	d := func(v time.Duration) *time.Duration { return &v }
	const none = -1
	tests := []struct {
		name         string
		online, idle int
		waits        Waits
		want         int
	}{
		{"nobody online", 0, 0, Waits{MedianAccept: d(time.Second), LastEnteredWait: d(time.Minute), OldestWaiting: d(time.Minute)}, none},
		{"idle, no history", 2, 1, Waits{}, 5},
		{"idle, quick acceptances", 2, 1, Waits{MedianAccept: d(1200 * time.Millisecond)}, 5},
		{"idle, slow acceptances, rounded up", 2, 1, Waits{MedianAccept: d(11100 * time.Millisecond), OldestWaiting: d(time.Hour)}, 12},
		{"all busy, nothing known", 2, 0, Waits{}, none},
		{"all busy, nobody got through lately", 2, 0, Waits{MedianAccept: d(time.Second), OldestWaiting: d(time.Minute)}, none},
		{"all busy, the last one waited longest", 2, 0, Waits{LastEnteredWait: d(90 * time.Second), OldestWaiting: d(30 * time.Second)}, 90},
		{"all busy, somebody waits longer", 2, 0, Waits{LastEnteredWait: d(90 * time.Second), OldestWaiting: d(150 * time.Second)}, 150},
		{"all busy, nobody waits", 2, 0, Waits{LastEnteredWait: d(90 * time.Second)}, 90},
		{"never zero", 2, 0, Waits{LastEnteredWait: d(0)}, 5},
		{"never more than the search", 2, 0, Waits{LastEnteredWait: d(time.Minute), OldestWaiting: d(2 * time.Hour)}, 1800},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := coverage(tt.online, tt.idle, tt.waits)
			got := none
			if c.EstimatedWaitSeconds != nil {
				got = *c.EstimatedWaitSeconds
			}
			if got != tt.want || c.Available != (tt.online > 0) || c.LawyersOnline != tt.online {
				t.Errorf("got %d in %+v, want %d", got, c, tt.want)
			}
		})
	}
}
