package idempotency

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
)

// record is what the database holds of a key.
type record struct {
	Fingerprint id.Digest
	Status      *int
	Body        []byte
}

// claim takes the row of the key, made new when absent or past its retention, and keeps it locked until the transaction
// ends. A twin waits here.
func claim(ctx context.Context, tx postgres.Tx, r Request) (record, error) {
	var rec record
	err := tx.SQL().QueryRowContext(ctx, `
		INSERT INTO idempotency_keys AS k (application_id, client_id, endpoint, key, fingerprint, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (application_id, client_id, endpoint, key) DO UPDATE SET
			fingerprint = CASE WHEN k.expires_at <= excluded.created_at THEN excluded.fingerprint ELSE k.fingerprint END,
			status      = CASE WHEN k.expires_at <= excluded.created_at THEN NULL ELSE k.status END,
			body        = CASE WHEN k.expires_at <= excluded.created_at THEN NULL ELSE k.body END,
			created_at  = CASE WHEN k.expires_at <= excluded.created_at THEN excluded.created_at ELSE k.created_at END,
			expires_at  = CASE WHEN k.expires_at <= excluded.created_at THEN excluded.expires_at ELSE k.expires_at END
		RETURNING fingerprint, status, body`,
		r.ApplicationID, r.ClientID, r.Endpoint, r.Key, r.Fingerprint, tx.Now, tx.Now.Add(Retention)).
		Scan(&rec.Fingerprint, &rec.Status, &rec.Body)
	if postgres.IsLockTimeout(err) {
		return record{}, ErrInProgress
	}
	if err != nil {
		return record{}, fmt.Errorf("claim idempotency key: %w", err)
	}
	return rec, nil
}

// store keeps the response; the retention runs from here.
func store(ctx context.Context, tx postgres.Tx, r Request, status int, body []byte) error {
	_, err := tx.SQL().ExecContext(ctx, `
		UPDATE idempotency_keys SET status = $1, body = $2, expires_at = $3
		WHERE application_id = $4 AND client_id = $5 AND endpoint = $6 AND key = $7`,
		status, body, tx.Now.Add(Retention), r.ApplicationID, r.ClientID, r.Endpoint, r.Key)
	if err != nil {
		return fmt.Errorf("store idempotent response: %w", err)
	}
	return nil
}

func purge(ctx context.Context, tx postgres.Tx, before time.Time, limit int) (int, error) {
	res := tx.Gorm(ctx).Exec(`
		DELETE FROM idempotency_keys WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM idempotency_keys WHERE expires_at <= ? ORDER BY expires_at LIMIT ? FOR UPDATE SKIP LOCKED))`,
		before, limit)
	if res.Error != nil {
		return 0, fmt.Errorf("purge idempotency keys: %w", res.Error)
	}
	return int(res.RowsAffected), nil
}

func eraseClient(ctx context.Context, tx postgres.Tx, clientID string) error {
	if err := tx.Gorm(ctx).Exec(`DELETE FROM idempotency_keys WHERE client_id = ?`, clientID).Error; err != nil {
		return fmt.Errorf("erase idempotency keys: %w", err)
	}
	return nil
}
