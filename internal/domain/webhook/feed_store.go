package webhook

import (
	"context"
	"fmt"
	"math"

	"gorm.io/gorm"

	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// lockPositions returns the highest position of an application's events, and locks it: until the transaction ends, no
// one else assigns positions.
func lockPositions(ctx context.Context, tx postgres.Tx, applicationID string) (last int64, err error) {
	r, err := gorm.G[endpointRow](tx.Gorm(ctx), postgres.ForNoKeyUpdate).Select("last_position").
		Where("application_id = ?", applicationID).Take(ctx)
	if postgres.IsNotFound(err) {
		return 0, problem.ErrNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("lock positions: %w", err)
	}
	return r.LastPosition, nil
}

// numberSQL uses the index of the list. It orders by position although it is null, because only that matches the index
// order. The events are listed again in an array, so that each is looked up by index.
var numberSQL = postgres.SQL(postgres.Atomic, `
	WITH fresh AS MATERIALIZED (
		SELECT id, created_at, sequence FROM webhook_events
		WHERE application_id = $1 AND position IS NULL ORDER BY position, created_at, sequence LIMIT $3
	), ordered AS (
		SELECT id, $2 + row_number() OVER (ORDER BY created_at, sequence, id) AS position FROM fresh
	), numbered AS (
		UPDATE webhook_events e SET position = o.position FROM ordered o
		WHERE e.id = ANY (ARRAY(SELECT id FROM fresh)) AND e.id = o.id RETURNING e.position
	)
	UPDATE webhook_endpoints SET last_position = (SELECT max(position) FROM numbered)
	WHERE application_id = $1 AND EXISTS (SELECT FROM numbered)`)

// numberEvents assigns positions after last to events that have none, in order of creation.
func numberEvents(ctx context.Context, tx postgres.Tx, applicationID string, last int64, limit int) error {
	if _, err := tx.Exec(ctx, numberSQL, applicationID, last, limit); err != nil {
		return fmt.Errorf("number events: %w", err)
	}
	return nil
}

func (r eventRow) stored() StoredEvent {
	e := StoredEvent{ID: r.ID, ConsultationID: r.ConsultationID, ClientID: r.ClientID, Type: r.Type,
		Sequence: r.Sequence, Body: r.Body, CreatedAt: r.CreatedAt}
	if r.Position != nil {
		e.Position = *r.Position
	}
	return e
}

func selectEvents(ctx context.Context, tx postgres.Tx, applicationID string, after int64,
	limit int,
) ([]StoredEvent, error) {
	rows, err := gorm.G[eventRow](tx.Gorm(ctx)).Where("application_id = ? AND position > ?", applicationID, after).
		Order("position").Limit(limit).Find(ctx)
	return storedOf(rows), err
}

func selectEventsBefore(ctx context.Context, tx postgres.Tx, applicationID string, before int64,
	limit int,
) ([]StoredEvent, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	rows, err := gorm.G[eventRow](tx.Gorm(ctx)).Where("application_id = ? AND position < ?", applicationID, before).
		Order("position DESC").Limit(limit).Find(ctx)
	return storedOf(rows), err
}

func selectEvent(ctx context.Context, tx postgres.Tx, applicationID, eventID string) (StoredEvent, error) {
	r, err := gorm.G[eventRow](tx.Gorm(ctx)).Where("id = ? AND application_id = ?", eventID, applicationID).Take(ctx)
	if postgres.IsNotFound(err) {
		return StoredEvent{}, problem.ErrNotFound
	}
	if err != nil {
		return StoredEvent{}, fmt.Errorf("read event %s: %w", eventID, err)
	}
	return r.stored(), nil
}

func storedOf(rows []eventRow) []StoredEvent {
	items := make([]StoredEvent, len(rows))
	for i, r := range rows {
		items[i] = r.stored()
	}
	return items
}
