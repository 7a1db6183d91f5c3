// Package poll runs steps that look for work at intervals. It serves queues of domains whose order or fairness a
// general queue does not keep, and finds what a notification missed.
package poll

import (
	"context"
	"log/slog"
	"time"
)

// Pause waits for d and reports whether ctx is still live.
func Pause(ctx context.Context, d time.Duration) bool {
	return Await(ctx, time.After(d))
}

// spacing is the time between the starts of two steps of which the first found all that was due. More work gathers in
// that time and is found in one step.
const spacing = 10 * time.Millisecond

// Soonest returns the earliest start of the next step, for a step that starts now and finds all that is due. A step
// that was cut short is repeated immediately instead.
func Soonest() <-chan time.Time { return time.After(spacing) }

// Await waits for a time such as that of [Soonest], and reports whether ctx is still live.
func Await(ctx context.Context, at <-chan time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-at:
		return true
	}
}

// Loop describes how a step repeats.
type Loop struct {
	Name  string          // name of the step, in the log
	Every time.Duration   // between the starts of two steps if the first left nothing to do
	Wake  <-chan struct{} // starts a step earlier; nil for never
	Log   *slog.Logger    // receives a step's error; the step is repeated after Every
}

// Run repeats step, starting immediately, until ctx ends; then it returns nil. A step that reports more work is
// repeated without a pause.
func (l Loop) Run(ctx context.Context, step func(context.Context) (more bool, err error)) error {
	return l.RunTimed(ctx, func(ctx context.Context) (time.Duration, error) {
		more, err := step(ctx)
		if more {
			return 0, err
		}
		return l.Every, err
	})
}

// RunTimed is [Loop.Run] with a step that returns when to repeat it, unless Wake does so earlier: 0 is immediately. The
// pause is never longer than Every.
func (l Loop) RunTimed(ctx context.Context, step func(context.Context) (again time.Duration, err error)) error {
	timer := time.NewTimer(l.Every)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Reset(l.Every)
		again, err := step(ctx)
		if err != nil && ctx.Err() == nil {
			l.Log.ErrorContext(ctx, l.Name, "error", err)
		}
		if err == nil && again < l.Every {
			if again <= 0 {
				continue
			}
			timer.Reset(again)
		}
		select {
		case <-ctx.Done():
		case <-l.Wake:
		case <-timer.C:
		}
	}
	return nil
}
