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
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
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
	tick := time.NewTicker(l.Every)
	defer tick.Stop()
	for ctx.Err() == nil {
		more, err := step(ctx)
		if err != nil && ctx.Err() == nil {
			l.Log.ErrorContext(ctx, l.Name, "error", err)
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-l.Wake:
		case <-tick.C:
		}
	}
	return nil
}
