package staff

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
)

// passkeyRow is a row of staff_passkeys.
type passkeyRow struct {
	ID           string          `gorm:"column:id;primaryKey"`
	StaffID      string          `gorm:"column:staff_id"`
	CredentialID []byte          `gorm:"column:credential_id"`
	Credential   json.RawMessage `gorm:"column:credential"` // public key, counter and flags, as package passkey writes them
	Name         string          `gorm:"column:name"`
	CreatedAt    time.Time       `gorm:"column:created_at;autoCreateTime:false"`
	LastUsedAt   *time.Time      `gorm:"column:last_used_at"`
}

// TableName implements [schema.Tabler].
func (passkeyRow) TableName() string { return "staff_passkeys" }

// challengeRow is a row of staff_challenges.
type challengeRow struct {
	TokenHash id.Digest       `gorm:"column:token_hash;primaryKey"`
	StaffID   string          `gorm:"column:staff_id;serializer:zeronull"` // none for a sign-in
	Challenge json.RawMessage `gorm:"column:challenge"`
	ExpiresAt time.Time       `gorm:"column:expires_at"`
}

// TableName implements [schema.Tabler].
func (challengeRow) TableName() string { return "staff_challenges" }

// deletePasskeys ends the challenges first: a passkey that is being added is either seen here or not added.
func deletePasskeys(ctx context.Context, tx postgres.Tx, staffID string) error {
	if _, err := gorm.G[challengeRow](tx.Gorm(ctx)).Where("staff_id = ?", staffID).Delete(ctx); err != nil {
		return fmt.Errorf("delete challenges: %w", err)
	}
	if _, err := gorm.G[passkeyRow](tx.Gorm(ctx)).Where("staff_id = ?", staffID).Delete(ctx); err != nil {
		return fmt.Errorf("delete passkeys: %w", err)
	}
	return nil
}
