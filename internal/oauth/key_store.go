package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"partnerd/internal/postgres"
)

type signingKeyRow struct {
	KID           string
	PrivateSealed []byte
	PublicJWK     json.RawMessage
	SignsFrom     time.Time
	RetiredAt     *time.Time
}

// signingKeysLock is the advisory lock under which signing keys are made, so that replicas that start together make one.
const signingKeysLock = 7_262_781_001

func lockSigningKeys(ctx context.Context, tx postgres.Tx) error {
	if err := tx.Gorm(ctx).Exec(`SELECT pg_advisory_xact_lock(?)`, signingKeysLock).Error; err != nil {
		return fmt.Errorf("lock signing keys: %w", err)
	}
	return nil
}

func hasSigningKey(ctx context.Context, tx postgres.Tx) (some bool, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT EXISTS (SELECT FROM signing_keys WHERE retired_at IS NULL)`).Row().Scan(&some)
	if err != nil {
		return false, fmt.Errorf("read signing keys: %w", err)
	}
	return some, nil
}

func insertSigningKey(ctx context.Context, tx postgres.Tx, r signingKeyRow) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO signing_keys (kid, private_sealed, public_jwk, signs_from, created_at) VALUES (?, ?, ?::jsonb, ?, ?)`,
		r.KID, r.PrivateSealed, string(r.PublicJWK), r.SignsFrom, tx.Now).Error
	if err != nil {
		return fmt.Errorf("insert signing key: %w", err)
	}
	return nil
}

func retireSigningKeys(ctx context.Context, tx postgres.Tx, at time.Time) error {
	if err := tx.Gorm(ctx).Exec(`UPDATE signing_keys SET retired_at = ? WHERE retired_at IS NULL`, at).Error; err != nil {
		return fmt.Errorf("retire signing keys: %w", err)
	}
	return nil
}

// signingKeys returns the keys that are published now, by when they begin to sign.
func signingKeys(ctx context.Context, tx postgres.Tx) ([]signingKeyRow, error) {
	rows, err := tx.Gorm(ctx).Raw(`SELECT kid, private_sealed, public_jwk::text, signs_from, retired_at FROM signing_keys
		WHERE retired_at IS NULL OR retired_at > ? ORDER BY signs_from, kid`, tx.Now).Rows()
	if err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	defer rows.Close()
	var out []signingKeyRow
	for rows.Next() {
		var r signingKeyRow
		var public string
		if err := rows.Scan(&r.KID, &r.PrivateSealed, &public, &r.SignsFrom, &r.RetiredAt); err != nil {
			return nil, fmt.Errorf("read signing keys: %w", err)
		}
		r.PublicJWK = json.RawMessage(public)
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	return out, nil
}

func retireSigningKey(ctx context.Context, tx postgres.Tx, kid string) (found bool, err error) {
	r := tx.Gorm(ctx).Exec(`UPDATE signing_keys SET retired_at = ? WHERE kid = ? AND (retired_at IS NULL OR retired_at > ?)`, tx.Now, kid, tx.Now)
	if r.Error != nil {
		return false, fmt.Errorf("retire signing key: %w", r.Error)
	}
	return r.RowsAffected == 1, nil
}

// signingNow tells whether a published key's time has come, and from when the newest signs that nothing ends.
func signingNow(ctx context.Context, tx postgres.Tx) (signs bool, next *time.Time, err error) {
	err = tx.SQL().QueryRowContext(ctx, `SELECT coalesce(bool_or(signs_from <= $1), false), max(signs_from) FILTER (WHERE retired_at IS NULL)
		FROM signing_keys WHERE retired_at IS NULL OR retired_at > $1`, tx.Now).Scan(&signs, &next)
	if err != nil {
		return false, nil, fmt.Errorf("read signing keys: %w", err)
	}
	return signs, next, nil
}

// promoteSigningKey lets the newest key that nothing ends sign from now on.
func promoteSigningKey(ctx context.Context, tx postgres.Tx) error {
	err := tx.Gorm(ctx).Exec(`UPDATE signing_keys SET signs_from = ?
		WHERE kid = (SELECT kid FROM signing_keys WHERE retired_at IS NULL ORDER BY signs_from DESC, kid LIMIT 1)`, tx.Now).Error
	if err != nil {
		return fmt.Errorf("promote signing key: %w", err)
	}
	return nil
}

// keepSigningKeys lets the keys that are about to retire stay published until a time at least.
func keepSigningKeys(ctx context.Context, tx postgres.Tx, until time.Time) error {
	if err := tx.Gorm(ctx).Exec(`UPDATE signing_keys SET retired_at = ? WHERE retired_at > ? AND retired_at < ?`, until, tx.Now, until).Error; err != nil {
		return fmt.Errorf("keep signing keys: %w", err)
	}
	return nil
}

func allSigningKeys(ctx context.Context, tx postgres.Tx) ([]Key, error) {
	rows, err := tx.SQL().QueryContext(ctx, `SELECT kid, created_at, signs_from, retired_at FROM signing_keys ORDER BY signs_from DESC, kid`)
	if err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	defer rows.Close()
	var out []Key
	for rows.Next() {
		var k Key
		if err := rows.Scan(&k.ID, &k.CreatedAt, &k.SignsFrom, &k.RetiredAt); err != nil {
			return nil, fmt.Errorf("read signing keys: %w", err)
		}
		k.CreatedAt, k.SignsFrom = k.CreatedAt.UTC(), k.SignsFrom.UTC()
		out = append(out, k)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	return out, nil
}

func deleteRetiredSigningKeys(ctx context.Context, tx postgres.Tx, before time.Time) error {
	if err := tx.Gorm(ctx).Exec(`DELETE FROM signing_keys WHERE retired_at < ?`, before).Error; err != nil {
		return fmt.Errorf("delete signing keys: %w", err)
	}
	return nil
}
