package webhook

import (
	"context"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/infra/postgres"
)

// Marking deliveries as held requires the lock of their endpoint, and marks the endpoint as parked in the same
// transaction. Unmarking the endpoint requires the lock, and a later statement that sees no held delivery. So every
// held delivery belongs to a parked endpoint, and is found when the endpoint is open again. Rows locked by others are
// skipped, so nothing here waits.

// holdSQL lists the applications with deliveries to send, and marks those that may not be sent. Deliveries in progress
// are left until they have ended.
//
// Parameters: now, number of endpoints, number of deliveries.
var holdSQL = postgres.SQL(postgres.Claim, readySQL+`, closed AS MATERIALIZED (
	SELECT e.application_id FROM waiting w
	JOIN webhook_endpoints e ON e.application_id = w.application_id JOIN applications a ON a.id = w.application_id
	WHERE e.url IS NULL OR e.disabled_at IS NOT NULL OR a.suspended_at IS NOT NULL
	LIMIT $2
	FOR NO KEY UPDATE OF e SKIP LOCKED
), chosen AS MATERIALIZED (
	SELECT p.* FROM closed c CROSS JOIN LATERAL (
		SELECT d.id, d.application_id FROM webhook_deliveries d
		WHERE d.application_id = c.application_id AND `+ready+` AND (d.lease_until IS NULL OR d.lease_until <= $1)
		ORDER BY d.next_at LIMIT $3
		FOR NO KEY UPDATE SKIP LOCKED) p
	LIMIT $3
), parked AS (
	UPDATE webhook_endpoints SET parked = true
	WHERE application_id = ANY (ARRAY(SELECT application_id FROM chosen)) AND NOT parked
)
UPDATE webhook_deliveries d SET held = true FROM chosen c WHERE d.id = c.id`)

// holdClosed marks up to limit deliveries of applications that get none, and returns how many.
func holdClosed(ctx context.Context, tx postgres.Tx, limit int) (held int, err error) {
	held, err = tx.Exec(ctx, holdSQL, tx.Now, heldEndpointBatch, limit)
	if err != nil {
		return 0, fmt.Errorf("hold deliveries: %w", err)
	}
	return held, nil
}

// reopened selects the endpoints that are parked and open.
func reopened(ctx context.Context, tx postgres.Tx) *gorm.DB {
	return tx.Gorm(ctx).Table("webhook_endpoints e").Joins("JOIN applications a ON a.id = e.application_id").
		Where("e.parked AND e.url IS NOT NULL AND e.disabled_at IS NULL AND a.suspended_at IS NULL")
}

// anyReopened reports whether there are such endpoints. It is cheaper than the transaction that locks them, and mostly
// there are none.
func anyReopened(ctx context.Context, tx postgres.Tx) (found bool, err error) {
	var applications []string
	if err := reopened(ctx, tx).Limit(1).Pluck("e.application_id", &applications).Error; err != nil {
		return false, fmt.Errorf("find parked endpoints: %w", err)
	}
	return len(applications) > 0, nil
}

// lockReopened locks some of these endpoints, in random order.
func lockReopened(ctx context.Context, tx postgres.Tx) (applications []string, err error) {
	lock := clause.Locking{Strength: "NO KEY UPDATE", Table: clause.Table{Name: "e"},
		Options: clause.LockingOptionsSkipLocked}
	err = reopened(ctx, tx).Clauses(lock).Order("random()").Limit(heldEndpointBatch).
		Pluck("e.application_id", &applications).Error
	if err != nil {
		return nil, fmt.Errorf("find parked endpoints: %w", err)
	}
	return applications, nil
}

// releaseSQL unmarks the deliveries that were due first.
var releaseSQL = postgres.SQL(postgres.Claim, `
WITH chosen AS MATERIALIZED (
	SELECT p.id FROM unnest($1::text[]) r (application_id) CROSS JOIN LATERAL (
		SELECT d.id FROM webhook_deliveries d WHERE d.application_id = r.application_id AND d.held
		ORDER BY d.next_at LIMIT $2
		FOR NO KEY UPDATE SKIP LOCKED) p
	LIMIT $2
)
UPDATE webhook_deliveries d SET held = false FROM chosen c WHERE d.id = c.id`)

// releaseHeld unmarks up to limit held deliveries of the applications, whose endpoints the transaction has locked. It
// reports whether it changed anything.
func releaseHeld(ctx context.Context, tx postgres.Tx, applications []string, limit int) (changed bool, err error) {
	released, err := tx.Exec(ctx, releaseSQL, applications, limit)
	if err != nil {
		return false, fmt.Errorf("let held deliveries go: %w", err)
	}
	ended, err := gorm.G[endpointRow](tx.Gorm(ctx)).
		Where("application_id = ANY(?)", postgres.Array[string](applications)).
		Where("NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.application_id = webhook_endpoints.application_id AND d.held)").
		Update(ctx, "parked", false)
	if err != nil {
		return false, fmt.Errorf("end parking: %w", err)
	}
	return released+ended > 0, nil
}
