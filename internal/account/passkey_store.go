package account

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
)

type passkeyRow struct {
	ID           string
	ClientID     string
	CredentialID []byte
	Credential   []byte
	Name         string
	CreatedAt    time.Time
	LastUsedAt   *time.Time
}

func insertPasskey(ctx context.Context, tx postgres.Tx, r passkeyRow) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO client_passkeys (id, client_id, credential_id, credential, name, created_at) VALUES (?, ?, ?, CAST(? AS jsonb), ?, ?)`,
		r.ID, r.ClientID, r.CredentialID, string(r.Credential), r.Name, tx.Now).Error
	if err != nil {
		return fmt.Errorf("insert passkey: %w", err)
	}
	return nil
}

func listPasskeys(ctx context.Context, tx postgres.Tx, clientID string) ([]passkeyRow, error) {
	var rows []passkeyRow
	err := tx.Gorm(ctx).Raw(`SELECT id, client_id, credential_id, credential, name, created_at, last_used_at FROM client_passkeys
		WHERE client_id = ? ORDER BY created_at, id`, clientID).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("list passkeys: %w", err)
	}
	return rows, nil
}

// updatePasskey keeps the counter and flags of the last use and returns the passkey's identifier. It returns [ErrPasskey]
// for one that was removed meanwhile.
func updatePasskey(ctx context.Context, tx postgres.Tx, credentialID, credential []byte) (passkeyID string, err error) {
	err = tx.Gorm(ctx).Raw(`UPDATE client_passkeys SET credential = CAST(? AS jsonb), last_used_at = ? WHERE credential_id = ? RETURNING id`,
		string(credential), tx.Now, credentialID).Row().Scan(&passkeyID)
	if postgres.IsNotFound(err) {
		return "", ErrPasskey
	}
	if err != nil {
		return "", fmt.Errorf("update passkey: %w", err)
	}
	return passkeyID, nil
}

func deletePasskey(ctx context.Context, tx postgres.Tx, clientID, passkeyID string) (bool, error) {
	r := tx.Gorm(ctx).Exec(`DELETE FROM client_passkeys WHERE id = ? AND client_id = ?`, passkeyID, clientID)
	if r.Error != nil {
		return false, fmt.Errorf("delete passkey: %w", r.Error)
	}
	return r.RowsAffected == 1, nil
}

func insertChallenge(ctx context.Context, tx postgres.Tx, token id.Digest, clientID string, challenge []byte, expires time.Time) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO passkey_challenges (token_hash, client_id, challenge, expires_at) VALUES (?, nullif(?, ''), CAST(? AS jsonb), ?)`,
		token, clientID, string(challenge), expires).Error
	if err != nil {
		return fmt.Errorf("insert challenge: %w", err)
	}
	return nil
}

func deleteChallenges(ctx context.Context, tx postgres.Tx, clientID string) error {
	if err := tx.Gorm(ctx).Exec(`DELETE FROM passkey_challenges WHERE client_id = ?`, clientID).Error; err != nil {
		return fmt.Errorf("delete challenges: %w", err)
	}
	return nil
}

func deleteChallenge(ctx context.Context, tx postgres.Tx, token id.Digest, clientID string) (challenge []byte, err error) {
	err = tx.Gorm(ctx).Raw(`DELETE FROM passkey_challenges WHERE token_hash = ? AND coalesce(client_id, '') = ? AND expires_at > ? RETURNING challenge`,
		token, clientID, tx.Now).Row().Scan(&challenge)
	if postgres.IsNotFound(err) {
		return nil, ErrPasskey
	}
	if err != nil {
		return nil, fmt.Errorf("use challenge: %w", err)
	}
	return challenge, nil
}
