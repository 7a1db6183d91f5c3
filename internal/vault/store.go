package vault

import (
	"context"
	"fmt"

	"partnerd/internal/postgres"
)

// Stored is the expression that selects the key of the client that the expression clientID names: a column with its table
// before it, because the table of keys has a client_id too.
func Stored(clientID string) string {
	return `(SELECT vk.key_sealed FROM vault.client_keys vk WHERE vk.client_id = ` + clientID + `)`
}

func insertKey(ctx context.Context, tx postgres.Tx, clientID string, sealed []byte) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO vault.client_keys (client_id, key_sealed, created_at) VALUES (?, ?, ?)`, clientID, sealed, tx.Now).Error
	if err != nil {
		return fmt.Errorf("insert key of client: %w", err)
	}
	return nil
}

// keyOrInsert returns the client's key, which is fresh if there was none. It waits for an erasure that is under way.
func keyOrInsert(ctx context.Context, tx postgres.Tx, clientID string, fresh []byte) (stored []byte, err error) {
	find := func() error {
		return tx.Gorm(ctx).Raw(`SELECT key_sealed FROM vault.client_keys WHERE client_id = ?`, clientID).Row().Scan(&stored)
	}
	if err = find(); postgres.IsNotFound(err) {
		err = tx.Gorm(ctx).Exec(`INSERT INTO vault.client_keys (client_id, key_sealed, created_at)
			SELECT id, ?, ? FROM clients WHERE id = ? AND erased_at IS NULL FOR KEY SHARE
			ON CONFLICT DO NOTHING`, fresh, tx.Now, clientID).Error
		if err == nil {
			err = find()
		}
	}
	if postgres.IsNotFound(err) {
		return nil, ErrNoKey
	}
	if err != nil {
		return nil, fmt.Errorf("find or make the key of client: %w", err)
	}
	return stored, nil
}

func deleteKey(ctx context.Context, tx postgres.Tx, clientID string) error {
	if err := tx.Gorm(ctx).Exec(`DELETE FROM vault.client_keys WHERE client_id = ?`, clientID).Error; err != nil {
		return fmt.Errorf("delete key of client: %w", err)
	}
	return nil
}
