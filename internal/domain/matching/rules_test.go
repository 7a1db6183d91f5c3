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
		{"nobody online", 0, 0, Waits{Accept: d(time.Second), Engaged: d(time.Minute), Ahead: 3}, none},
		{"idle, nothing seen", 2, 1, Waits{}, 15},
		{"idle, quick acceptances", 2, 1, Waits{Accept: d(1200 * time.Millisecond)}, 5},
		{"idle, slow acceptances, rounded up", 2, 1, Waits{Accept: d(11100 * time.Millisecond), Engaged: d(time.Hour)},
			12},
		{"idle, whoever waits has refused them", 2, 1, Waits{Accept: d(9 * time.Second), Ahead: 1, Oldest: time.Hour},
			9},
		{"all busy, nothing seen", 3, 0, Waits{}, 465}, // 15 + 1.5 * 900/3
		{"all busy, nobody waits", 10, 0, Waits{Accept: d(10 * time.Second), Engaged: d(10 * time.Minute)}, 100},
		{"all busy, two wait", 10, 0, Waits{Accept: d(10 * time.Second), Engaged: d(10 * time.Minute), Ahead: 2}, 220},
		{"all busy, one waits longer than turns take", 10, 0,
			Waits{Accept: d(10 * time.Second), Engaged: d(10 * time.Minute), Ahead: 1, Oldest: 11 * time.Minute,
				Last: time.Minute}, 660},
		{"all busy, the last one waited longer still", 10, 0,
			Waits{Accept: d(10 * time.Second), Engaged: d(10 * time.Minute), Oldest: 11 * time.Minute,
				Last: 12 * time.Minute}, 720},
		{"never zero", 1000, 0, Waits{Accept: d(0), Engaged: d(time.Second)}, 5},
		{"never more than the search", 2, 0, Waits{Ahead: 4}, 1800},
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
