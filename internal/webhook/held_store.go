package webhook

import (
	"context"
	"fmt"

	"partnerd/internal/postgres"
)

// Whoever marks deliveries as held has the lock of their endpoint and marks it as parked in the same transaction; whoever takes
// that mark away has the lock, and in a statement begun under it sees that none is held. So every held delivery is of a parked
// endpoint, and is found when the endpoint is open again. What others have locked is skipped: nothing here waits for anybody.

// holdSQL walks the applications that have deliveries to be sent and marks those that may not be. What is under way is left
// until it has ended.
//
// Parameters: now, how many endpoints, how many deliveries.
const holdSQL = readySQL + `, closed AS MATERIALIZED (
	SELECT e.application_id FROM waiting w
	JOIN webhook_endpoints e ON e.application_id = w.application_id JOIN applications a ON a.id = w.application_id
	WHERE e.url IS NULL OR e.disabled_at IS NOT NULL OR a.suspended_at IS NOT NULL
	LIMIT $2
	FOR NO KEY UPDATE OF e SKIP LOCKED
), chosen AS MATERIALIZED (
	SELECT p.* FROM closed c CROSS JOIN LATERAL (
		SELECT d.id, d.application_id FROM webhook_deliveries d
		WHERE d.application_id = c.application_id AND ` + ready + ` AND (d.lease_until IS NULL OR d.lease_until <= $1)
		ORDER BY d.next_at LIMIT $3
		FOR NO KEY UPDATE SKIP LOCKED) p
	LIMIT $3
), parked AS (
	UPDATE webhook_endpoints SET parked = true
	WHERE application_id = ANY (ARRAY(SELECT application_id FROM chosen)) AND NOT parked
)
UPDATE webhook_deliveries d SET held = true FROM chosen c WHERE d.id = c.id`

// holdClosed marks at most limit deliveries of applications that get none, and returns how many.
func holdClosed(ctx context.Context, tx postgres.Tx, limit int) (held int, err error) {
	r, err := tx.SQL().ExecContext(ctx, holdSQL, tx.Now, maxMovedEndpoints, limit)
	if err != nil {
		return 0, fmt.Errorf("hold deliveries: %w", err)
	}
	n, err := r.RowsAffected()
	return int(n), err
}

// lockReopened locks some endpoints that are parked and open, in random order.
func lockReopened(ctx context.Context, tx postgres.Tx) (applications []string, err error) {
	rows, err := tx.SQL().QueryContext(ctx, `
		SELECT e.application_id FROM webhook_endpoints e JOIN applications a ON a.id = e.application_id
		WHERE e.parked AND e.url IS NOT NULL AND e.disabled_at IS NULL AND a.suspended_at IS NULL
		ORDER BY random() LIMIT $1
		FOR NO KEY UPDATE OF e SKIP LOCKED`, maxMovedEndpoints)
	if err != nil {
		return nil, fmt.Errorf("find parked endpoints: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var application string
		if err := rows.Scan(&application); err != nil {
			return nil, fmt.Errorf("read parked endpoint: %w", err)
		}
		applications = append(applications, application)
	}
	return applications, rows.Err()
}

// releaseSQL takes the marks away that were due first.
const releaseSQL = `
WITH chosen AS MATERIALIZED (
	SELECT p.id FROM unnest($1::text[]) r (application_id) CROSS JOIN LATERAL (
		SELECT d.id FROM webhook_deliveries d WHERE d.application_id = r.application_id AND d.held
		ORDER BY d.next_at LIMIT $2
		FOR NO KEY UPDATE SKIP LOCKED) p
	LIMIT $2
)
UPDATE webhook_deliveries d SET held = false FROM chosen c WHERE d.id = c.id`

// releaseHeld lets at most limit held deliveries of these applications go, whose endpoints the transaction has locked, and
// tells whether it changed anything.
func releaseHeld(ctx context.Context, tx postgres.Tx, applications []string, limit int) (changed bool, err error) {
	released, err := tx.SQL().ExecContext(ctx, releaseSQL, applications, limit)
	if err != nil {
		return false, fmt.Errorf("let held deliveries go: %w", err)
	}
	ended, err := tx.SQL().ExecContext(ctx, `UPDATE webhook_endpoints e SET parked = false WHERE e.application_id = ANY ($1)
		AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.application_id = e.application_id AND d.held)`, applications)
	if err != nil {
		return false, fmt.Errorf("end parking: %w", err)
	}
	n, err := released.RowsAffected()
	if err != nil {
		return false, err
	}
	m, err := ended.RowsAffected()
	return n+m > 0, err
}
