package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// expired is an event to be checked by the purge.
type expired struct {
	ID            string
	ApplicationID string
	Position      *int64
	Removable     bool
}

// selectExpired returns the removable events among the next limit ones, in the order of their IDs, which is the order
// of time. last is where to continue, or empty if no old event is left. created_at decides whether an event is old, and
// the walk ends at the first part without old events.
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

// deleteEvents removes events with their deliveries and attempts. Events without a position use up one each, so that
// readers of the list can detect a gap. If a redelivery was added in between, the foreign key fails and the transaction
// is rolled back.
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
