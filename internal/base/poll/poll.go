// Package poll runs what looks for work again and again: queues of domains whose order or fairness a general queue does
// not keep, and what finds whatever a notification missed.
package poll

import (
	"context"
	"log/slog"
	"time"
)

// Pause waits for d and tells whether ctx goes on.
func Pause(ctx context.Context, d time.Duration) bool {
	return Await(ctx, time.After(d))
}

// spacing is what lies between the beginnings of two looks of which the first found all that was due: more gathers
// meanwhile, and is found at one time.
const spacing = 10 * time.Millisecond

// Soonest is to be waited for by a look that begins now and finds all that is due; one that was cut short goes on at
// once.
func Soonest() <-chan time.Time { return time.After(spacing) }

// Await waits for an instant, as that of [Soonest], and tells whether ctx goes on.
func Await(ctx context.Context, at <-chan time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-at:
		return true
	}
}

// Loop says how a step repeats.
type Loop struct {
	Name  string          // of the step, in the log
	Every time.Duration   // between the beginnings of two steps that found nothing more to do
	Wake  <-chan struct{} // begins one earlier; nil for never
	Log   *slog.Logger    // hears of a step's error; the step is repeated after Every
}

// Run repeats step, beginning at once, until ctx ends; then it returns nil. A step that tells that there is more is
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

// RunTimed is [Loop.Run] with a step that tells in what time it is to be repeated if nothing wakes the loop before: 0
// is at once. Nothing is later than Every.
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
