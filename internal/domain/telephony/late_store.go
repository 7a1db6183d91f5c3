package telephony

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/infra/postgres"
)

// OldestDue returns when the oldest unclaimed call command fell due, or nil if none is waiting. Commands queued behind
// an open command of the same call are not due.
func OldestDue(ctx context.Context, tx postgres.Tx) (since *time.Time, err error) {
	earlier := tx.Gorm(ctx).Table("call_commands e").Select("1").
		Where("e.call_id = q.call_id AND e.done_at IS NULL AND e.position < q.position")
	var list []time.Time
	err = tx.Gorm(ctx).Table("call_commands q").
		Where("q.done_at IS NULL AND q.due_at <= ? AND (q.claimed_until IS NULL OR q.claimed_until <= ?)",
			tx.Now, tx.Now).
		Where("NOT EXISTS (?)", earlier).Order("q.due_at, q.position").Limit(1).Pluck("q.due_at", &list).Error
	if err != nil {
		return nil, fmt.Errorf("read the oldest command: %w", err)
	}
	if len(list) > 0 {
		since = &list[0]
	}
	return since, nil
}
