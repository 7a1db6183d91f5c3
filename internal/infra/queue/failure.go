package queue

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"partnerd/internal/base/telemetry"
)

// Final marks an error that no retry can fix. The job is not retried.
func Final(err error) error { return finalError{err} }

// IsFinal reports whether an error is [Final].
func IsFinal(err error) bool { return errors.As(err, new(finalError)) }

type finalError struct{ error }

// Unwrap returns the original error.
func (e finalError) Unwrap() error { return e.error }

// failures logs and counts each failed attempt; the engine itself logs that only at level info.
//
// A job's arguments and its error text are not logged: they may quote personal texts or addresses. The error text of a
// periodic job is logged, because such a job has no arguments.
type failures struct{ queue *Queue }

// HandleError implements river.ErrorHandler.
func (f failures) HandleError(ctx context.Context, row *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	return f.failed(ctx, row, telemetry.Class(err), err, IsFinal(err))
}

// HandlePanic implements river.ErrorHandler. The engine itself logs the value and the stack trace.
func (f failures) HandlePanic(ctx context.Context, row *rivertype.JobRow, _ any, _ string) *river.ErrorHandlerResult {
	return f.failed(ctx, row, "panic", nil, false)
}

func (f failures) failed(ctx context.Context, row *rivertype.JobRow, class string, err error,
	final bool,
) *river.ErrorHandlerResult {
	var j job
	_ = json.Unmarshal(row.EncodedArgs, &j) // a job without a name counts as unknown
	h, known := f.queue.handlers[j.Name]
	name := j.Name
	if !known {
		name = unknownJob
	}
	f.queue.metrics.failed.WithLabelValues(name).Inc()
	said := []any{"job", name, "id", row.ID, "attempt", row.Attempt, "class", class}
	if h.every && err != nil {
		said = append(said, "error", err)
	}
	switch {
	case final:
		f.queue.log.WarnContext(ctx, "a job failed and is not tried again", said...)
	case row.Attempt >= row.MaxAttempts:
		f.queue.metrics.givenUp.WithLabelValues(name).Inc()
		f.queue.log.ErrorContext(ctx, "a job failed for the last time and is given up", said...)
	default:
		f.queue.log.WarnContext(ctx, "a job failed and is tried again", said...)
	}
	return &river.ErrorHandlerResult{SetCancelled: final}
}
