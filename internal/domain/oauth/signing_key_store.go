package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// signingKeyRow is a row of signing_keys.
type signingKeyRow struct {
	KID           string          `gorm:"column:kid;primaryKey"`
	PrivateSealed []byte          `gorm:"column:private_sealed"` // a JWK, encrypted with the master key
	PublicJWK     json.RawMessage `gorm:"column:public_jwk"`
	SignsFrom     time.Time       `gorm:"column:signs_from"` // published earlier
	RetiredAt     *time.Time      `gorm:"column:retired_at"` // end of publication; may be in the future
	CreatedAt     time.Time       `gorm:"column:created_at;autoCreateTime:false"`
}

// TableName implements [schema.Tabler].
func (signingKeyRow) TableName() string { return "signing_keys" }

// signingKeysLock is the advisory lock for creating signing keys, so that replicas that start together create one.
const signingKeysLock = 7_262_781_001

var lockSigningKeysSQL = postgres.SQL(postgres.Backend, `SELECT pg_advisory_xact_lock($1)`)

func lockSigningKeys(ctx context.Context, tx postgres.Tx) error {
	if _, err := tx.Exec(ctx, lockSigningKeysSQL, signingKeysLock); err != nil {
		return fmt.Errorf("lock signing keys: %w", err)
	}
	return nil
}

func insertSigningKey(ctx context.Context, tx postgres.Tx, r signingKeyRow) error {
	if err := gorm.G[signingKeyRow](tx.Gorm(ctx)).Create(ctx, &r); err != nil {
		return fmt.Errorf("insert signing key: %w", err)
	}
	return nil
}

// publishedSigningKeys returns the keys published now, by the time from which they sign.
func publishedSigningKeys(ctx context.Context, tx postgres.Tx) ([]signingKeyRow, error) {
	list, err := gorm.G[signingKeyRow](tx.Gorm(ctx)).Where("retired_at IS NULL OR retired_at > ?", tx.Now).
		Order("signs_from, kid").Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	return list, nil
}

// allSigningKeys returns every key without its private part, newest first.
func allSigningKeys(ctx context.Context, tx postgres.Tx) ([]signingKeyRow, error) {
	list, err := gorm.G[signingKeyRow](tx.Gorm(ctx)).Omit("private_sealed").Order("signs_from DESC, kid").Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	return list, nil
}

// retireOpenSigningKeys sets the end of all keys that have none.
func retireOpenSigningKeys(ctx context.Context, tx postgres.Tx, at time.Time) error {
	if _, err := gorm.G[signingKeyRow](tx.Gorm(ctx)).Where("retired_at IS NULL").
		Updates(ctx, signingKeyRow{RetiredAt: &at}); err != nil {
		return fmt.Errorf("retire signing keys: %w", err)
	}
	return nil
}

// retireSigningKey ends a published key now.
func retireSigningKey(ctx context.Context, tx postgres.Tx, kid string) (found bool, err error) {
	n, err := gorm.G[signingKeyRow](tx.Gorm(ctx)).
		Where("kid = ? AND (retired_at IS NULL OR retired_at > ?)", kid, tx.Now).
		Updates(ctx, signingKeyRow{RetiredAt: &tx.Now})
	if err != nil {
		return false, fmt.Errorf("retire signing key: %w", err)
	}
	return n == 1, nil
}

// promoteSigningKey lets a key sign from now on.
func promoteSigningKey(ctx context.Context, tx postgres.Tx, kid string) error {
	if _, err := gorm.G[signingKeyRow](tx.Gorm(ctx)).Where("kid = ?", kid).
		Updates(ctx, signingKeyRow{SignsFrom: tx.Now}); err != nil {
		return fmt.Errorf("promote signing key: %w", err)
	}
	return nil
}

// keepSigningKeys extends the publication of keys about to retire to at least until.
func keepSigningKeys(ctx context.Context, tx postgres.Tx, until time.Time) error {
	if _, err := gorm.G[signingKeyRow](tx.Gorm(ctx)).Where("retired_at > ? AND retired_at < ?", tx.Now, until).
		Updates(ctx, signingKeyRow{RetiredAt: &until}); err != nil {
		return fmt.Errorf("keep signing keys: %w", err)
	}
	return nil
}

func deleteRetiredSigningKeys(ctx context.Context, tx postgres.Tx, before time.Time) error {
	if _, err := gorm.G[signingKeyRow](tx.Gorm(ctx)).Where("retired_at < ?", before).Delete(ctx); err != nil {
		return fmt.Errorf("delete signing keys: %w", err)
	}
	return nil
}
