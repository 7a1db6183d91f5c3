package poll_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"partnerd/internal/base/poll"
)

// TestAStepIsRepeatedAtOnceWhileThereIsMore checks that a step is otherwise repeated after a pause, a wake-up, or an
// error.
func TestAStepIsRepeatedAtOnceWhileThereIsMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var said strings.Builder
		var at []time.Duration
		start, wake := time.Now(), make(chan struct{}, 1)
		loop := poll.Loop{Name: "look", Every: time.Second, Wake: wake, Log: slog.New(slog.NewTextHandler(&said, nil))}
		err := loop.Run(ctx, func(context.Context) (bool, error) {
			at = append(at, time.Since(start))
			switch len(at) {
			case 1, 2:
				return true, nil
			case 3:
				return true, errors.New("broken")
			case 4:
				time.AfterFunc(300*time.Millisecond, func() { wake <- struct{}{} })
			case 5:
				time.AfterFunc(100*time.Millisecond, stop)
			}
			return false, nil
		})
		want := []time.Duration{0, 0, 0, time.Second, 1300 * time.Millisecond}
		if err != nil || len(at) != len(want) {
			t.Fatalf("steps at %v, want %v: %v", at, want, err)
		}
		for i := range want {
			if at[i] != want[i] {
				t.Errorf("step %d at %v, want %v", i+1, at[i], want[i])
			}
		}
		if strings.Count(said.String(), "broken") != 1 {
			t.Errorf("the log says: %s", said.String())
		}
	})
}

// TestAStepIsRepeatedWhenItSays checks that a step is repeated at its own time, and never later than the loop would. A
// step that returns a time uses one timer, not one more each time.
func TestAStepIsRepeatedWhenItSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		wake := make(chan struct{}, 1)
		var at []time.Duration
		start := time.Now()
		err := poll.Loop{Name: "look", Every: time.Second, Wake: wake, Log: slog.New(slog.DiscardHandler)}.RunTimed(ctx,
			func(context.Context) (time.Duration, error) {
				at = append(at, time.Since(start))
				switch len(at) {
				case 1:
					return 200 * time.Millisecond, nil
				case 2:
					time.AfterFunc(50*time.Millisecond, func() { wake <- struct{}{} })
					return 400 * time.Millisecond, nil
				case 3:
					return 100 * time.Millisecond, nil
				case 4:
					return -time.Second, nil
				case 5:
					return time.Hour, nil
				}
				stop()
				return 0, nil
			})
		want := []time.Duration{0, 200, 250, 350, 350, 1350}
		if err != nil || len(at) != len(want) {
			t.Fatalf("steps at %v, want %v: %v", at, want, err)
		}
		for i := range want {
			if at[i] != want[i]*time.Millisecond {
				t.Errorf("step %d at %v, want %v ms", i+1, at[i], want[i])
			}
		}
	})
}
