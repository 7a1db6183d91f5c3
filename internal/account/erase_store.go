package account

import (
	"context"
	"fmt"

	"partnerd/internal/postgres"
)

func eraseClient(ctx context.Context, tx postgres.Tx, c Client) error {
	for _, table := range []string{"browser_sessions", "client_passkeys", "passkey_challenges", "client_phone_codes"} {
		if err := tx.Gorm(ctx).Exec(`DELETE FROM `+table+` WHERE client_id = ?`, c.ID).Error; err != nil {
			return fmt.Errorf("erase from %s: %w", table, err)
		}
	}
	// A link of another client stays, though it went to the same address: it may give that client back an address of before.
	err := tx.Gorm(ctx).Exec(`DELETE FROM client_links WHERE client_id = ? OR client_id IS NULL AND lower(email) = lower(?)`, c.ID, c.Email).Error
	if err != nil {
		return fmt.Errorf("erase links: %w", err)
	}
	err = tx.Gorm(ctx).Exec(`UPDATE clients SET email = ?, name = ?, password_hash = '', phone_sealed = NULL, phone_verified_at = NULL, time_zone = DEFAULT,
		disabled_at = ?, erased_at = ?, updated_at = ? WHERE id = ?`,
		c.ID+"@erased.invalid", ErasedName, tx.Now, tx.Now, tx.Now, c.ID).Error
	if err != nil {
		return fmt.Errorf("erase client: %w", err)
	}
	return nil
}
