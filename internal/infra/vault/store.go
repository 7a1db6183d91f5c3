package vault

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// keyRow is a row of vault.client_keys.
type keyRow struct {
	ClientID  string    `gorm:"column:client_id;primaryKey"`
	KeySealed []byte    `gorm:"column:key_sealed"` // by the master key
	CreatedAt time.Time `gorm:"column:created_at;autoCreateTime:false"`
}

// TableName implements [schema.Tabler].
func (keyRow) TableName() string { return "vault.client_keys" }

// Stored returns the SQL expression for the key of the client whose ID is the expression clientID. That must be a
// column qualified by its table, because the table of keys has a client_id as well.
func Stored(clientID string) string {
	return `(SELECT vk.key_sealed FROM vault.client_keys vk WHERE vk.client_id = ` + clientID + `)`
}

func insertKey(ctx context.Context, tx postgres.Tx, clientID string, sealed []byte) error {
	if err := gorm.G[keyRow](tx.Gorm(ctx)).Create(ctx, &keyRow{ClientID: clientID, KeySealed: sealed,
		CreatedAt: tx.Now}); err != nil {
		return fmt.Errorf("insert key of client: %w", err)
	}
	return nil
}

// insertForLivingSQL creates the key of a client who is not erased, and waits for an erasure in progress.
var insertForLivingSQL = postgres.SQL(postgres.Atomic,
	`INSERT INTO vault.client_keys (client_id, key_sealed, created_at)
	SELECT id, $2, $3 FROM clients WHERE id = $1 AND erased_at IS NULL FOR KEY SHARE
	ON CONFLICT DO NOTHING`)

// keyOrInsert returns the client's key, which is fresh if there was none.
func keyOrInsert(ctx context.Context, tx postgres.Tx, clientID string, fresh []byte) ([]byte, error) {
	find := gorm.G[keyRow](tx.Gorm(ctx)).Select("key_sealed").Where("client_id = ?", clientID)
	r, err := find.Take(ctx)
	if postgres.IsNotFound(err) {
		if _, err = tx.Exec(ctx, insertForLivingSQL, clientID, fresh, tx.Now); err == nil {
			r, err = find.Take(ctx)
		}
	}
	if postgres.IsNotFound(err) {
		return nil, ErrNoKey
	}
	if err != nil {
		return nil, fmt.Errorf("find or make the key of client: %w", err)
	}
	return r.KeySealed, nil
}

func deleteKey(ctx context.Context, tx postgres.Tx, clientID string) error {
	if _, err := gorm.G[keyRow](tx.Gorm(ctx)).Where("client_id = ?", clientID).Delete(ctx); err != nil {
		return fmt.Errorf("delete key of client: %w", err)
	}
	return nil
}
