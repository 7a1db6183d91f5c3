package webhook

import (
	"context"
	"encoding/json"
	"time"

	"partnerd/internal/postgres"
)

// redelivery is a delivery to be sent again, under a new identifier if it has one.
type redelivery struct {
	ID        string    `json:"id"`
	NewID     string    `json:"new_id"`
	CreatedAt time.Time `json:"-"`
	State     State     `json:"-"`
}

// redeliverSQL changes no delivery that is under way: its lease stands until its result is recorded or lost.
const redeliverSQL = `
WITH target AS (
	SELECT * FROM json_to_recordset(CAST(@targets AS json)) AS t (id text, new_id text)
), added AS (
	INSERT INTO webhook_deliveries (id, event_id, application_id, consultation_id, sequence, state, next_at, created_at)
	SELECT t.new_id, d.event_id, d.application_id, d.consultation_id, d.sequence, 'PENDING', @now, @now
	FROM target t JOIN webhook_deliveries d USING (id) WHERE t.new_id <> ''
)
UPDATE webhook_deliveries d SET state = 'PENDING', ended_at = NULL, next_at = @now, schedule_from = d.attempts
FROM target t WHERE d.id = t.id AND t.new_id = '' AND (d.lease_until IS NULL OR d.lease_until <= @now)`

func redeliver(ctx context.Context, tx postgres.Tx, targets []redelivery) error {
	if len(targets) == 0 {
		return nil
	}
	encoded, err := json.Marshal(targets)
	if err != nil {
		return err
	}
	return tx.Gorm(ctx).Exec(redeliverSQL, map[string]any{"targets": string(encoded), "now": tx.Now}).Error
}

// countPending counts to limit at most. One transaction at a time does so for an application.
func countPending(ctx context.Context, tx postgres.Tx, applicationID string, limit int) (n int, err error) {
	if err := tx.Gorm(ctx).Exec("SELECT pg_advisory_xact_lock(hashtextextended('webhook pending ' || ?, 0))", applicationID).Error; err != nil {
		return 0, err
	}
	err = tx.Gorm(ctx).Raw(`SELECT count(*) FROM (
		SELECT FROM webhook_deliveries WHERE application_id = ? AND state = 'PENDING' LIMIT ?) p`, applicationID, limit).Scan(&n).Error
	return n, err
}

// selectRedeliveries finds the newest delivery of every event of the range. Without All it takes those that failed, for
// good or so far.
func selectRedeliveries(ctx context.Context, tx postgres.Tx, applicationID string, f RedeliveryFilter, limit int) ([]redelivery, error) {
	var found []redelivery
	err := tx.Gorm(ctx).Raw(`
		SELECT d.id, d.created_at, d.state FROM webhook_deliveries d
		WHERE d.application_id = @application AND d.created_at >= @from AND d.created_at < @to
			AND (d.created_at, d.id) > (@after_at, @after_id)
			AND (@all OR d.state = 'FAILED' OR d.state = 'PENDING' AND d.attempts > 0)
			AND NOT EXISTS (
				SELECT 1 FROM webhook_deliveries newer
				WHERE newer.event_id = d.event_id AND (newer.created_at, newer.id) > (d.created_at, d.id))
		ORDER BY d.created_at, d.id LIMIT @limit`,
		map[string]any{"application": applicationID, "from": f.From, "to": f.To, "after_at": f.After.CreatedAt, "after_id": f.After.ID,
			"all": f.All, "limit": limit}).Scan(&found).Error
	return found, err
}
