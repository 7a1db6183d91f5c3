package staff

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/id"
	"partnerd/internal/passkey"
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

// insertPasskey returns [ErrPasskey] for one that is registered already; tx cannot go on then.
func insertPasskey(ctx context.Context, tx postgres.Tx, r passkeyRow) error {
	r.CreatedAt = tx.Now
	err := gorm.G[passkeyRow](tx.Gorm(ctx)).Create(ctx, &r)
	if postgres.IsUnique(err, "staff_passkeys_credential_id_key") {
		return fmt.Errorf("%w: it is registered already", ErrPasskey)
	}
	if err != nil {
		return fmt.Errorf("insert passkey: %w", err)
	}
	return nil
}

func listPasskeys(ctx context.Context, tx postgres.Tx, staffID string) ([]passkeyRow, error) {
	rows, err := gorm.G[passkeyRow](tx.Gorm(ctx)).Where("staff_id = ?", staffID).Order("created_at, id").Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list passkeys: %w", err)
	}
	return rows, nil
}

// updatePasskey keeps the counter and flags of the last use and returns the passkey's identifier. It returns [ErrPasskey]
// for one that was removed meanwhile.
func updatePasskey(ctx context.Context, tx postgres.Tx, used passkey.Answered) (passkeyID string, err error) {
	var rows []passkeyRow
	err = tx.Gorm(ctx).Model(&rows).Clauses(clause.Returning{Columns: []clause.Column{{Name: "id"}}}).Where("credential_id = ?", used.CredentialID).
		Updates(map[string]any{"credential": used.Kept, "last_used_at": tx.Now}).Error
	if err != nil {
		return "", fmt.Errorf("update passkey: %w", err)
	}
	if len(rows) == 0 {
		return "", ErrPasskey
	}
	return rows[0].ID, nil
}

func deletePasskey(ctx context.Context, tx postgres.Tx, staffID, passkeyID string) (bool, error) {
	n, err := gorm.G[passkeyRow](tx.Gorm(ctx)).Where("id = ? AND staff_id = ?", passkeyID, staffID).Delete(ctx)
	if err != nil {
		return false, fmt.Errorf("delete passkey: %w", err)
	}
	return n == 1, nil
}

func insertChallenge(ctx context.Context, tx postgres.Tx, r challengeRow) error {
	if err := gorm.G[challengeRow](tx.Gorm(ctx)).Create(ctx, &r); err != nil {
		return fmt.Errorf("insert challenge: %w", err)
	}
	return nil
}

// takeChallenge takes a challenge of a person, or of none, out of the table: of several at once, one gets it.
func takeChallenge(ctx context.Context, tx postgres.Tx, token id.Digest, staffID string) (json.RawMessage, error) {
	var rows []challengeRow
	err := tx.Gorm(ctx).Clauses(postgres.Returning[challengeRow]()).
		Where("token_hash = ? AND coalesce(staff_id, '') = ? AND expires_at > ?", token, staffID, tx.Now).Delete(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("use challenge: %w", err)
	}
	if len(rows) == 0 {
		return nil, ErrPasskey
	}
	return rows[0].Challenge, nil
}
