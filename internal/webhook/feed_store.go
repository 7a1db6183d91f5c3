package webhook

import (
	"context"
	"fmt"

	"partnerd/internal/postgres"
	"partnerd/internal/problem"
)

// lockPositions returns the highest position of an application's events; until the transaction ends nobody else gives any.
func lockPositions(ctx context.Context, tx postgres.Tx, applicationID string) (last int64, err error) {
	var rows []int64
	err = tx.Gorm(ctx).Raw("SELECT last_position FROM webhook_endpoints WHERE application_id = ? FOR NO KEY UPDATE", applicationID).Scan(&rows).Error
	if err != nil {
		return 0, fmt.Errorf("lock positions: %w", err)
	}
	if len(rows) == 0 {
		return 0, problem.ErrNotFound
	}
	return rows[0], nil
}

// numberEvents gives positions after last to events that have none, in the order in which they were made.
func numberEvents(ctx context.Context, tx postgres.Tx, applicationID string, last int64, limit int) error {
	err := tx.Gorm(ctx).Exec(`
		WITH fresh AS MATERIALIZED (
			SELECT id, created_at, sequence FROM webhook_events
			WHERE application_id = @application AND position IS NULL ORDER BY created_at, sequence LIMIT @limit
		), ordered AS (
			SELECT id, @last + row_number() OVER (ORDER BY created_at, sequence, id) AS position FROM fresh
		), numbered AS (
			UPDATE webhook_events e SET position = o.position FROM ordered o WHERE e.id = o.id RETURNING e.position
		)
		UPDATE webhook_endpoints SET last_position = (SELECT max(position) FROM numbered)
		WHERE application_id = @application AND EXISTS (SELECT FROM numbered)`,
		map[string]any{"application": applicationID, "last": last, "limit": limit}).Error
	if err != nil {
		return fmt.Errorf("number events: %w", err)
	}
	return nil
}

const eventColumns = "id, coalesce(consultation_id, '') AS consultation_id, type, sequence, coalesce(position, 0) AS position, body, created_at"

func selectEvents(ctx context.Context, tx postgres.Tx, applicationID string, after int64, limit int) ([]StoredEvent, error) {
	var items []StoredEvent
	err := tx.Gorm(ctx).Raw("SELECT "+eventColumns+" FROM webhook_events WHERE application_id = ? AND position > ? ORDER BY position LIMIT ?",
		applicationID, after, limit).Scan(&items).Error
	return items, err
}

func selectEvent(ctx context.Context, tx postgres.Tx, applicationID, eventID string) (StoredEvent, error) {
	var items []StoredEvent
	err := tx.Gorm(ctx).Raw("SELECT "+eventColumns+" FROM webhook_events WHERE id = ? AND application_id = ?", eventID, applicationID).Scan(&items).Error
	if err != nil {
		return StoredEvent{}, fmt.Errorf("read event %s: %w", eventID, err)
	}
	if len(items) == 0 {
		return StoredEvent{}, problem.ErrNotFound
	}
	return items[0], nil
}
