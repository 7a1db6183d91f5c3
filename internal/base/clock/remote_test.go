package clock

import (
	"testing"
	"time"
)

// TestAClockThatIsSetIsDoubted checks that a remote clock which is wrong for less than a minute is ignored. A step that
// lasts, or that this machine's clock confirms, is followed.
func TestAClockThatIsSetIsDoubted(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	const hours = 2 * time.Hour
	type look struct {
		after time.Duration // since the start
		off   time.Duration // error of the remote clock
		want  Change
		now   time.Duration // error of Remote
	}
	for name, c := range map[string]struct {
		machine time.Duration // step of this machine's clock after the first reading
		looks   []look
	}{
		"it drifts": {0, []look{{5 * time.Second, time.Second, Steady, time.Second},
			{10 * time.Second, -20 * time.Second, Steady, -20 * time.Second}}},
		"for a while": {0, []look{{5 * time.Second, hours, Doubted, 0},
			{10 * time.Second, hours, Steady, 0}, {20 * time.Second, 0, Returned, 0}}},
		"back for a while": {0, []look{{5 * time.Second, -hours, Doubted, 0},
			{20 * time.Second, 0, Returned, 0}}},
		"for good": {0, []look{{5 * time.Second, hours, Doubted, 0},
			{64 * time.Second, hours, Steady, 0}, {65 * time.Second, hours, Believed, hours},
			{70 * time.Second, hours, Steady, hours}}},
		"again and again": {0, []look{{5 * time.Second, hours, Doubted, 0},
			{60 * time.Second, 2 * hours, Doubted, 0}, {70 * time.Second, 2 * hours, Steady, 0},
			{120 * time.Second, 2 * hours, Believed, 2 * hours}}},
		"both are set":            {hours, []look{{5 * time.Second, hours, Believed, hours}}},
		"this machine's is set":   {hours, []look{{5 * time.Second, 0, Steady, 0}}},
		"this machine was asleep": {hours, []look{{5 * time.Second, hours, Believed, hours}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			passed, set := start, time.Duration(0)
			r := NewRemote(func() time.Time { return passed.Add(set) })
			r.passed = func() time.Time { return passed }
			r.last.Store(&reading{told: start.Add(-time.Hour), at: passed, passed: passed})
			ask := func(off time.Duration) (Change, time.Duration) {
				change, _, err := r.Ask(func() (time.Time, error) { return passed.Add(off), nil })
				if err != nil {
					t.Fatal(err)
				}
				return change, r.Now().Sub(passed)
			}
			if change, off := ask(0); change != Steady || off != 0 {
				t.Fatalf("the first look: %d, off by %s", change, off)
			}
			for _, l := range c.looks {
				passed, set = start.Add(l.after), c.machine
				change, off := ask(l.off)
				if c.machine != 0 && change == Steady {
					off = l.now // measured by a clock that was set
				}
				if change != l.want || off != l.now {
					t.Errorf("after %s: %d, off by %s; want %d, %s", l.after, change, off, l.want, l.now)
				}
				if want := l.off - set; r.Ahead() != want {
					t.Errorf("after %s: ahead by %s, want %s", l.after, r.Ahead(), want)
				}
			}
		})
	}
}

// TestTheFirstLookIsBelieved checks that a clock which is wrong from the start is known to be: the first reading is
// trusted and reported.
func TestTheFirstLookIsBelieved(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	r := NewRemote(func() time.Time { return now })
	change, _, err := r.Ask(func() (time.Time, error) { return now.Add(time.Hour), nil })
	if err != nil || change != Steady || !r.Now().Equal(now.Add(time.Hour)) || r.Ahead() != time.Hour {
		t.Errorf("%d, %s, ahead by %s, %v", change, r.Now(), r.Ahead(), err)
	}
}
