package idempotency

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
)

// keyRow is a row of idempotency_keys. Status and Body are set once its operation has run.
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

// claim returns the row of the key and keeps it locked until the transaction ends. It creates the row if it is absent,
// and resets it if it is past its retention. A duplicate waits here. Only fingerprint and response are returned.
func claim(ctx context.Context, tx postgres.Tx, r Request) (row keyRow, err error) {
	err = tx.QueryRow(ctx, claimSQL, r.ApplicationID, r.ClientID, r.Endpoint, r.Key, r.Fingerprint, tx.Now,
		tx.Now.Add(Retention)).
		Scan(&row.Fingerprint, &row.Status, &row.Body)
	if postgres.IsLockTimeout(err) {
		return keyRow{}, ErrInProgress
	}
	if err != nil {
		return keyRow{}, fmt.Errorf("claim idempotency key: %w", err)
	}
	return row, nil
}

// find reads the row of the key. A row past its retention counts as absent.
func find(ctx context.Context, tx postgres.Tx, r Request, now time.Time,
	lock ...clause.Expression,
) (row keyRow, found bool, err error) {
	row, err = gorm.G[keyRow](tx.Gorm(ctx), lock...).
		Where(ofKey+" AND expires_at > ?", r.ApplicationID, r.ClientID, r.Endpoint, r.Key, now).
		Take(ctx)
	if postgres.IsNotFound(err) {
		return keyRow{}, false, nil
	}
	if err != nil {
		return keyRow{}, false, fmt.Errorf("read idempotency key: %w", err)
	}
	return row, true, nil
}

const ofKey = "application_id = ? AND client_id = ? AND endpoint = ? AND key = ?"

// replace replaces the stored body.
func replace(ctx context.Context, tx postgres.Tx, r Request, body []byte) error {
	_, err := gorm.G[keyRow](tx.Gorm(ctx)).Where(ofKey, r.ApplicationID, r.ClientID, r.Endpoint, r.Key).
		Update(ctx, "body", body)
	if err != nil {
		return fmt.Errorf("replace idempotent response: %w", err)
	}
	return nil
}

// release frees the key of a refused request.
func release(ctx context.Context, tx postgres.Tx, r Request) error {
	_, err := gorm.G[keyRow](tx.Gorm(ctx)).
		Where(ofKey+" AND status = ?", r.ApplicationID, r.ClientID, r.Endpoint, r.Key, running).
		Select("status", "body").Updates(ctx, keyRow{})
	if err != nil {
		return fmt.Errorf("release idempotency key: %w", err)
	}
	return nil
}

// store stores the response and starts the retention.
func store(ctx context.Context, tx postgres.Tx, r Request, status int, body []byte) error {
	_, err := gorm.G[keyRow](tx.Later(postgres.Called("store idempotent response")).Gorm(ctx)).
		Where(ofKey, r.ApplicationID, r.ClientID, r.Endpoint, r.Key).
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
