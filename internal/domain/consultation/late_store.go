package consultation

import (
	"context"
	"time"

	"partnerd/internal/infra/postgres"
)

// OldestDue returns the time at which the most overdue timer became due, or nil if none is due.
func OldestDue(ctx context.Context, tx postgres.Tx) (since *time.Time, err error) {
	list, err := dueTimers(ctx, tx, due{}, 1)
	if err == nil && len(list) > 0 {
		since = &list[0].TimerAt
	}
	return since, err
}
