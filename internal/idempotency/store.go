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
	err := tx.Gorm(ctx).Raw(`
		INSERT INTO idempotency_keys AS k (application_id, client_id, endpoint, key, fingerprint, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (application_id, client_id, endpoint, key) DO UPDATE SET
			fingerprint = CASE WHEN k.expires_at <= excluded.created_at THEN excluded.fingerprint ELSE k.fingerprint END,
			status      = CASE WHEN k.expires_at <= excluded.created_at THEN NULL ELSE k.status END,
			body        = CASE WHEN k.expires_at <= excluded.created_at THEN NULL ELSE k.body END,
			created_at  = CASE WHEN k.expires_at <= excluded.created_at THEN excluded.created_at ELSE k.created_at END,
			expires_at  = CASE WHEN k.expires_at <= excluded.created_at THEN excluded.expires_at ELSE k.expires_at END
		RETURNING fingerprint, status, body`,
		r.ApplicationID, r.ClientID, r.Endpoint, r.Key, r.Fingerprint, tx.Now, tx.Now.Add(Retention)).
		Row().Scan(&rec.Fingerprint, &rec.Status, &rec.Body)
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
	err := tx.Gorm(ctx).Exec(`
		UPDATE idempotency_keys SET status = ?, body = ?, expires_at = ?
		WHERE application_id = ? AND client_id = ? AND endpoint = ? AND key = ?`,
		status, body, tx.Now.Add(Retention), r.ApplicationID, r.ClientID, r.Endpoint, r.Key).Error
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
