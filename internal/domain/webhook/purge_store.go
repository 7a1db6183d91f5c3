package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// expired is an event that may be looked at by the purge.
type expired struct {
	ID            string
	ApplicationID string
	Position      *int64
	Removable     bool
}

// selectExpired walks the events in the order of their identifiers, which is the order of time, and returns those of
// the next limit ones that may be removed. last is where the walk goes on; empty when it has reached events that are
// young. created_at decides; the walk ends at the first part that holds nothing old.
func selectExpired(ctx context.Context, tx postgres.Tx, after string, cutoff time.Time,
	limit int,
) (events []expired, last string, err error) {
	part := tx.Gorm(ctx).Model(&eventRow{}).Select("id, application_id, position, created_at").Where("id > ?", after).
		Order("id").Limit(limit)
	var rows []expired
	err = tx.Gorm(ctx).Table("(?) part", part).
		Select(`id, application_id, position, NOT EXISTS (SELECT 1 FROM webhook_deliveries d
		WHERE d.event_id = part.id AND (d.state = 'PENDING' OR d.created_at >= ?)) AS removable`, cutoff).
		Where("created_at < ?", cutoff).Order("id").Find(&rows).Error
	if err != nil {
		return nil, "", fmt.Errorf("find old events: %w", err)
	}
	for _, r := range rows {
		last = r.ID
		if r.Removable {
			events = append(events, r)
		}
	}
	return events, last, nil
}

var skipPositionsSQL = postgres.SQL(postgres.Batch, `
	UPDATE webhook_endpoints e SET last_position = last_position + CAST(u.value AS bigint)
	FROM json_each_text(CAST($1 AS json)) u WHERE e.application_id = u.key`)

// deleteEvents removes events with what hangs on them. Events that never got a position use one up, so that a reader of
// the list can see that something is missing. A redelivery that came in between makes the foreign key refuse, and the
// transaction is undone.
func deleteEvents(ctx context.Context, tx postgres.Tx, events []expired) (int, error) {
	if len(events) == 0 {
		return 0, nil
	}
	ids := make([]string, len(events))
	unread := map[string]int{}
	for i, e := range events {
		ids[i] = e.ID
		if e.Position == nil {
			unread[e.ApplicationID]++
		}
	}
	counts, err := json.Marshal(unread)
	if err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, skipPositionsSQL, string(counts)); err != nil {
		return 0, err
	}
	chosen := postgres.Array[string](ids)
	deliveries := tx.Gorm(ctx).Model(&deliveryRow{}).Select("id").Where("event_id = ANY(?)", chosen)
	if _, err := gorm.G[attemptRow](tx.Gorm(ctx)).Where("delivery_id IN (?)", deliveries).Delete(ctx); err != nil {
		return 0, err
	}
	if _, err := gorm.G[deliveryRow](tx.Gorm(ctx)).Where("state <> ? AND event_id = ANY(?)", Pending, chosen).
		Delete(ctx); err != nil {
		return 0, err
	}
	return gorm.G[eventRow](tx.Gorm(ctx)).Where("id = ANY(?)", chosen).Delete(ctx)
}
