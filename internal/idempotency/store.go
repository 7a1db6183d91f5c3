package idempotency

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
)

// keyRow is a row of idempotency_keys. Status and Body are there when its operation has run.
type keyRow struct {
	ApplicationID string    `gorm:"column:application_id;primaryKey"`
	ClientID      string    `gorm:"column:client_id;primaryKey"`
	Endpoint      string    `gorm:"column:endpoint;primaryKey"`
	Key           string    `gorm:"column:key;primaryKey"`
	Fingerprint   id.Digest `gorm:"column:fingerprint"`
	Status        *int      `gorm:"column:status"`
	Body          []byte    `gorm:"column:body"` // sealed
	CreatedAt     time.Time `gorm:"column:created_at;autoCreateTime:false"`
	ExpiresAt     time.Time `gorm:"column:expires_at"`
}

// TableName implements [schema.Tabler].
func (keyRow) TableName() string { return "idempotency_keys" }

var claimSQL = postgres.SQL(postgres.Hot, `
	INSERT INTO idempotency_keys AS k (application_id, client_id, endpoint, key, fingerprint, created_at, expires_at)
	VALUES ($1, $2, $3, $4, $5, $6, $7)
	ON CONFLICT (application_id, client_id, endpoint, key) DO UPDATE SET
		fingerprint = CASE WHEN k.expires_at <= excluded.created_at THEN excluded.fingerprint ELSE k.fingerprint END,
		status      = CASE WHEN k.expires_at <= excluded.created_at THEN NULL ELSE k.status END,
		body        = CASE WHEN k.expires_at <= excluded.created_at THEN NULL ELSE k.body END,
		created_at  = CASE WHEN k.expires_at <= excluded.created_at THEN excluded.created_at ELSE k.created_at END,
		expires_at  = CASE WHEN k.expires_at <= excluded.created_at THEN excluded.expires_at ELSE k.expires_at END
	RETURNING fingerprint, status, body`)

// claim takes the row of the key, made new when absent or past its retention, and keeps it locked until the transaction
// ends. A twin waits here. It returns fingerprint and response alone.
func claim(ctx context.Context, tx postgres.Tx, r Request) (row keyRow, err error) {
	err = tx.QueryRow(ctx, claimSQL, r.ApplicationID, r.ClientID, r.Endpoint, r.Key, r.Fingerprint, tx.Now, tx.Now.Add(Retention)).
		Scan(&row.Fingerprint, &row.Status, &row.Body)
	if postgres.IsLockTimeout(err) {
		return keyRow{}, ErrInProgress
	}
	if err != nil {
		return keyRow{}, fmt.Errorf("claim idempotency key: %w", err)
	}
	return row, nil
}

// store has the response kept; the retention runs from here.
func store(ctx context.Context, tx postgres.Tx, r Request, status int, body []byte) error {
	_, err := gorm.G[keyRow](tx.Later(postgres.Called("store idempotent response")).Gorm(ctx)).
		Where("application_id = ? AND client_id = ? AND endpoint = ? AND key = ?", r.ApplicationID, r.ClientID, r.Endpoint, r.Key).
		Updates(ctx, keyRow{Status: &status, Body: body, ExpiresAt: tx.Now.Add(Retention)})
	return err
}

func purge(ctx context.Context, tx postgres.Tx, before time.Time, limit int) (int, error) {
	n, err := postgres.Purge[keyRow](ctx, tx, limit, "expires_at", "expires_at <= ?", before)
	if err != nil {
		return 0, fmt.Errorf("purge idempotency keys: %w", err)
	}
	return n, nil
}

func eraseClient(ctx context.Context, tx postgres.Tx, clientID string) error {
	if _, err := gorm.G[keyRow](tx.Gorm(ctx)).Where("client_id = ?", clientID).Delete(ctx); err != nil {
		return fmt.Errorf("erase idempotency keys: %w", err)
	}
	return nil
}
