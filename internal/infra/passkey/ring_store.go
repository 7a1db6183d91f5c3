package passkey

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
)

// Tables names the tables of the domain package that owns the people: one with the columns of [Row] and one with those
// of [ChallengeRow]. Both also have a column for the owner.
type Tables struct {
	Passkeys, Challenges string
	Person               string // column of the owner
}

// Row is a passkey, without its owner.
type Row struct {
	ID           string          `gorm:"column:id;primaryKey"`
	CredentialID []byte          `gorm:"column:credential_id"`
	Credential   json.RawMessage `gorm:"column:credential"` // public key, counter and flags
	Name         string          `gorm:"column:name"`
	CreatedAt    time.Time       `gorm:"column:created_at;autoCreateTime:false"`
	LastUsedAt   *time.Time      `gorm:"column:last_used_at"`
}

// ChallengeRow is a challenge, without its owner. A challenge for a sign-in has no owner.
type ChallengeRow struct {
	TokenHash id.Digest       `gorm:"column:token_hash;primaryKey"`
	Challenge json.RawMessage `gorm:"column:challenge"`
	ExpiresAt time.Time       `gorm:"column:expires_at"`
}

// insert returns [ErrRefused] for a passkey that is already registered; tx must be rolled back then.
func (r *Ring) insert(ctx context.Context, tx postgres.Tx, personID, name string, key answered) error {
	err := tx.Gorm(ctx).Table(r.tables.Passkeys).Create(map[string]any{"id": tx.NewID(id.Passkey),
		r.tables.Person: personID, "credential_id": key.credentialID, "credential": key.credential, "name": name,
		"created_at": tx.Now}).Error
	if postgres.IsUnique(err, r.tables.Passkeys+"_credential_id_key") {
		return fmt.Errorf("%w: it is registered already", ErrRefused)
	}
	if err != nil {
		return fmt.Errorf("insert passkey: %w", err)
	}
	return nil
}

func (r *Ring) rows(ctx context.Context, tx postgres.Tx, personID string) ([]Row, error) {
	rows, err := gorm.G[Row](tx.Gorm(ctx)).Table(r.tables.Passkeys).Where(r.tables.Person+" = ?", personID).
		Order("created_at, id").Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list passkeys: %w", err)
	}
	return rows, nil
}

// use stores the counter and flags after a sign-in and returns the passkey's ID. It returns [ErrRefused] if the passkey
// has been removed in the meantime.
func (r *Ring) use(ctx context.Context, tx postgres.Tx, key answered) (passkeyID string, err error) {
	var rows []Row
	err = tx.Gorm(ctx).Table(r.tables.Passkeys).Model(&rows).
		Clauses(clause.Returning{Columns: []clause.Column{{Name: "id"}}}).
		Where("credential_id = ?", key.credentialID).
		Updates(map[string]any{"credential": key.credential, "last_used_at": tx.Now}).Error
	if err != nil {
		return "", fmt.Errorf("update passkey: %w", err)
	}
	if len(rows) == 0 {
		return "", ErrRefused
	}
	return rows[0].ID, nil
}

func (r *Ring) delete(ctx context.Context, tx postgres.Tx, personID string, passkeyIDs []string) (int, error) {
	if len(passkeyIDs) == 0 {
		return 0, nil
	}
	n, err := gorm.G[Row](tx.Gorm(ctx)).Table(r.tables.Passkeys).
		Where(r.tables.Person+" = ? AND id IN ?", personID, passkeyIDs).Delete(ctx)
	if err != nil {
		return 0, fmt.Errorf("delete passkeys: %w", err)
	}
	return n, nil
}

func (r *Ring) insertChallenge(ctx context.Context, tx postgres.Tx, personID string, c ChallengeRow) error {
	var person any // NULL for no owner
	if personID != "" {
		person = personID
	}
	err := tx.Gorm(ctx).Table(r.tables.Challenges).Create(map[string]any{"token_hash": c.TokenHash,
		r.tables.Person: person, "challenge": c.Challenge, "expires_at": c.ExpiresAt}).Error
	if err != nil {
		return fmt.Errorf("insert challenge: %w", err)
	}
	return nil
}

func (r *Ring) deleteChallenges(ctx context.Context, tx postgres.Tx, personID string) error {
	if _, err := gorm.G[ChallengeRow](tx.Gorm(ctx)).Table(r.tables.Challenges).Where(r.tables.Person+" = ?", personID).
		Delete(ctx); err != nil {
		return fmt.Errorf("delete challenges: %w", err)
	}
	return nil
}

// takeChallenge deletes and returns a challenge of a person, or one without an owner. If several calls run at once,
// only one gets the challenge. takeChallenge returns [ErrRefused] if there is no valid one.
func (r *Ring) takeChallenge(ctx context.Context, tx postgres.Tx, token id.Digest,
	personID string,
) (json.RawMessage, error) {
	var rows []ChallengeRow
	err := tx.Gorm(ctx).Table(r.tables.Challenges).Clauses(postgres.Returning[ChallengeRow]()).
		Where("token_hash = ? AND coalesce("+r.tables.Person+", '') = ? AND expires_at > ?", token, personID, tx.Now).
		Delete(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("use challenge: %w", err)
	}
	if len(rows) == 0 {
		return nil, ErrRefused
	}
	return rows[0].Challenge, nil
}
