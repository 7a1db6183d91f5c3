package webhook

import (
	"context"
	"encoding/json"
	"time"

	"partnerd/internal/infra/postgres"
)

// redelivery is a delivery to be sent again, under a new ID if it has one.
type redelivery struct {
	ID        string    `json:"id"`
	NewID     string    `json:"new_id"`
	CreatedAt time.Time `json:"-"`
	State     State     `json:"-"`
}

// redeliverSQL does not change a delivery in progress: its lease holds until its result is recorded or lost.
var redeliverSQL = postgres.SQL(postgres.Batch, `
WITH target AS (
	SELECT * FROM json_to_recordset(CAST($1 AS json)) AS t (id text, new_id text)
), added AS (
	INSERT INTO webhook_deliveries (id, event_id, application_id, consultation_id, sequence, state, next_at, created_at)
	SELECT t.new_id, d.event_id, d.application_id, d.consultation_id, d.sequence, 'PENDING', CAST($2 AS timestamptz), CAST($2 AS timestamptz)
	FROM target t JOIN webhook_deliveries d USING (id) WHERE t.new_id <> ''
)
UPDATE webhook_deliveries d SET state = 'PENDING', ended_at = NULL, next_at = CAST($2 AS timestamptz), schedule_from = d.attempts
FROM target t WHERE d.id = t.id AND t.new_id = '' AND (d.lease_until IS NULL OR d.lease_until <= CAST($2 AS timestamptz))`)

func redeliver(ctx context.Context, tx postgres.Tx, targets []redelivery) error {
	if len(targets) == 0 {
		return nil
	}
	encoded, err := json.Marshal(targets)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, redeliverSQL, string(encoded), tx.Now)
	return err
}

// countPending counts up to limit. It is serialised per application.
func countPending(ctx context.Context, tx postgres.Tx, applicationID string, limit int) (int, error) {
	if err := tx.Lock(ctx, "webhook pending "+applicationID); err != nil {
		return 0, err
	}
	some := tx.Gorm(ctx).Model(&deliveryRow{}).Select("1").Where("application_id = ? AND state = 'PENDING'",
		applicationID).Limit(limit)
	var n int64
	err := tx.Gorm(ctx).Table("(?) p", some).Count(&n).Error
	return int(n), err
}

// selectRedeliveries returns the newest delivery of every event in the range. Without All it returns only those that
// failed, permanently or so far.
func selectRedeliveries(ctx context.Context, tx postgres.Tx, applicationID string, f RedeliveryFilter,
	limit int,
) ([]redelivery, error) {
	q := tx.Gorm(ctx).Table("webhook_deliveries d").Select("d.id, d.created_at, d.state").
		Where("d.application_id = ? AND d.created_at >= ? AND d.created_at < ?", applicationID, f.From, f.To).
		Where("(d.created_at, d.id) > (?, ?)", f.After.CreatedAt, f.After.ID).
		Where(`NOT EXISTS (SELECT 1 FROM webhook_deliveries newer
			WHERE newer.event_id = d.event_id AND (newer.created_at, newer.id) > (d.created_at, d.id))`)
	if !f.All {
		q = q.Where("(d.state = 'FAILED' OR d.state = 'PENDING' AND d.attempts > 0)")
	}
	var found []redelivery
	err := q.Order("d.created_at, d.id").Limit(limit).Find(&found).Error
	return found, err
}
