package main

import (
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// The clock takes seconds, as the API does, and durations; it never goes back.
func TestTheClockTakesSecondsAndDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"60": time.Minute, "1": time.Second, "30m": 30 * time.Minute, "24h": 24 * time.Hour} {
		var d span
		if err := d.UnmarshalText([]byte(text)); err != nil || time.Duration(d) != want {
			t.Errorf("%s is %s, %v", text, time.Duration(d), err)
		}
	}
	for _, text := range []string{"", "0", "-5", "-5m", "10ms", "tomorrow", "99999999999999999999"} {
		var d span
		if err := d.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %s", text, time.Duration(d))
		}
	}
}

// What the API lists with the newest first is shown with the newest last, like events.
func TestListsHaveTheNewestLast(t *testing.T) {
	t.Parallel()
	if got := (page[int]{Items: []int{3, 2, 1}}).newestLast(); got[0] != 1 || got[2] != 3 {
		t.Errorf("%v", got)
	}
}

// A command that is misspelt leads to the one that is meant.
func TestAMisspeltCommandIsCorrected(t *testing.T) {
	t.Parallel()
	var c cli
	_, err := kong.Must(&c, kong.Vars{"version": ""}).Parse([]string{"delivries"})
	if err == nil || err.Error() != `unexpected argument delivries, did you mean "deliveries"?` {
		t.Errorf("%v", err)
	}
}
