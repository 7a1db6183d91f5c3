package account

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

func eraseClient(ctx context.Context, tx postgres.Tx, c Client) error {
	for _, model := range []any{&sessionRow{}, &passkeyRow{}, &challengeRow{}, &codeRow{}} {
		if err := tx.Gorm(ctx).Where("client_id = ?", c.ID).Delete(model).Error; err != nil {
			return fmt.Errorf("erase %T: %w", model, err)
		}
	}
	// Keep links of other clients that went to the same address: they may restore an earlier address of those clients.
	_, err := gorm.G[linkRow](tx.Gorm(ctx)).Where("client_id = ? OR client_id IS NULL AND lower(email) = lower(?)",
		c.ID, c.Email).Delete(ctx)
	if err != nil {
		return fmt.Errorf("erase links: %w", err)
	}
	err = tx.Gorm(ctx).Model(&clientRow{}).Where("id = ?", c.ID).Updates(map[string]any{
		"email": c.ID + "@erased.invalid", "name": ErasedName, "password_hash": "", "phone_sealed": nil,
		"phone_verified_at": nil, "time_zone": gorm.Expr("DEFAULT"), "language": nil, "disabled_at": tx.Now,
		"erased_at": tx.Now, "updated_at": tx.Now,
	}).Error
	if err != nil {
		return fmt.Errorf("erase client: %w", err)
	}
	return nil
}
