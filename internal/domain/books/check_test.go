package books

import (
	"testing"
	"time"
)

// A check is due every night at 02:00 UTC, and immediately if there never was one.
func TestChecksAreDueOnceANight(t *testing.T) {
	t.Parallel()
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 3, day, hour, minute, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		last, now time.Time
		due       bool
	}{
		"never":                      {time.Time{}, at(2, 15, 0), true},
		"this night":                 {at(2, 2, 0), at(2, 15, 0), false},
		"late this night":            {at(2, 9, 0), at(2, 15, 0), false},
		"yesterday, before the hour": {at(1, 2, 0), at(2, 1, 59), false},
		"yesterday, at the hour":     {at(1, 2, 0), at(2, 2, 0), true},
		"by hand before midnight":    {at(1, 23, 0), at(2, 2, 0), true},
		"days ago":                   {at(1, 2, 0), at(5, 1, 0), true},
		"first of a month":           {time.Date(2026, 2, 28, 2, 0, 0, 0, time.UTC), at(1, 2, 1), true},
	} {
		if got := checkDue(c.last, c.now); got != c.due {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestThreshold(t *testing.T) {
	t.Parallel()
	if NearThreshold(79_999_999) || !NearThreshold(80_000_000) {
		t.Error("the alarm is at four fifths of a million euros")
	}
}
