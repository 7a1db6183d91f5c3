package oauth

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
)

// codeRow is a row of oauth_codes.
type codeRow struct {
	Hash          id.Digest  `gorm:"column:hash;primaryKey"` // of the code
	GrantID       string     `gorm:"column:grant_id"`
	RedirectURI   string     `gorm:"column:redirect_uri"`
	CodeChallenge string     `gorm:"column:code_challenge"`
	ExpiresAt     time.Time  `gorm:"column:expires_at"`
	UsedAt        *time.Time `gorm:"column:used_at"`
}

// TableName implements [schema.Tabler].
func (codeRow) TableName() string { return "oauth_codes" }

// refreshTokenRow is a row of oauth_refresh_tokens. A grant has at most one unused token.
type refreshTokenRow struct {
	Hash      id.Digest  `gorm:"column:hash;primaryKey"` // of the token
	GrantID   string     `gorm:"column:grant_id"`
	CreatedAt time.Time  `gorm:"column:created_at;autoCreateTime:false"`
	ExpiresAt time.Time  `gorm:"column:expires_at"`
	UsedAt    *time.Time `gorm:"column:used_at"`
}

// TableName implements [schema.Tabler].
func (refreshTokenRow) TableName() string { return "oauth_refresh_tokens" }

// lockedGrant is the grant of a code or refresh token, locked with it.
type lockedGrant struct {
	Grant          grantRow // without its times, except its end
	ClientDisabled bool
}

const lockedColumns = `g.id, g.application_id, g.client_id, g.scopes, g.revoked_at, g.aged_us, c.disabled_at IS NOT NULL`

func (l *lockedGrant) fields() []any {
	return []any{&l.Grant.ID, &l.Grant.ApplicationID, &l.Grant.ClientID, &l.Grant.Scopes, &l.Grant.RevokedAt,
		&l.Grant.AgedUs, &l.ClientDisabled}
}

// One statement marks a code or refresh token as used, issues the next refresh token ($5, unless NULL) and records the
// event. A token request waits only for this statement and the lock before it.
const issue = ` WHERE hash = $4 AND used_at IS NULL RETURNING grant_id),
	issued AS (INSERT INTO oauth_refresh_tokens (hash, grant_id, created_at, expires_at) SELECT $5::bytea, grant_id, $1, $6 FROM used WHERE $5::bytea IS NOT NULL),
	changed AS (UPDATE oauth_grants SET last_used_at = $1, activated_at = coalesce(activated_at, $1) WHERE id IN (SELECT grant_id FROM used)` + recordEvents

var (
	lockCodeSQL = postgres.SQL(postgres.Hot,
		`SELECT k.redirect_uri, k.code_challenge, k.expires_at, k.used_at, `+lockedColumns+`
		FROM oauth_codes k JOIN oauth_grants g ON g.id = k.grant_id JOIN clients c ON c.id = g.client_id
		WHERE k.hash = $1 FOR UPDATE OF k, g`)

	lockRefreshTokenSQL = postgres.SQL(postgres.Hot, `SELECT t.expires_at, t.used_at, `+lockedColumns+`
		FROM oauth_refresh_tokens t JOIN oauth_grants g ON g.id = t.grant_id JOIN clients c ON c.id = g.client_id
		WHERE t.hash = $1 FOR UPDATE OF t, g`)

	redeemCodeSQL         = postgres.SQL(postgres.Atomic, `WITH used AS (UPDATE oauth_codes SET used_at = $1`+issue)
	rotateRefreshTokenSQL = postgres.SQL(postgres.Atomic,
		`WITH used AS (UPDATE oauth_refresh_tokens SET used_at = $1`+issue)
)

func insertCode(ctx context.Context, tx postgres.Tx, r codeRow) error {
	if err := gorm.G[codeRow](tx.Gorm(ctx)).Create(ctx, &r); err != nil {
		return fmt.Errorf("insert code: %w", err)
	}
	return nil
}

// lockCode locks the rows of a code and its grant, so that redemptions of one code are serialised.
func lockCode(ctx context.Context, tx postgres.Tx, code id.Digest) (r codeRow, g lockedGrant, err error) {
	err = tx.QueryRow(ctx, lockCodeSQL, code).
		Scan(append([]any{&r.RedirectURI, &r.CodeChallenge, &r.ExpiresAt, &r.UsedAt}, g.fields()...)...)
	if err != nil {
		return codeRow{}, lockedGrant{}, fmt.Errorf("lock code: %w", err)
	}
	return r, g, nil
}

// lockRefreshToken locks the rows of a token and its grant, so that refreshes with one token are serialised.
func lockRefreshToken(ctx context.Context, tx postgres.Tx,
	token id.Digest,
) (r refreshTokenRow, g lockedGrant, err error) {
	err = tx.QueryRow(ctx, lockRefreshTokenSQL, token).Scan(append([]any{&r.ExpiresAt, &r.UsedAt}, g.fields()...)...)
	if err != nil {
		return refreshTokenRow{}, lockedGrant{}, fmt.Errorf("lock refresh token: %w", err)
	}
	return r, g, nil
}

// redeemCode uses a code, activates its grant and stores refresh, unless nil, as its refresh token. It returns false if
// the code was already used.
func redeemCode(ctx context.Context, tx postgres.Tx, code id.Digest, refresh *id.Digest) (used bool, err error) {
	return exchanged(changeGrants(ctx, tx, redeemCodeSQL, reasonRedeemed, []string{EventActivated}, code, refresh,
		tx.Now.Add(RefreshTokenLifetime)))
}

// rotateRefreshToken uses a refresh token and stores the next one, unless nil. It returns false if the token was
// already used.
func rotateRefreshToken(ctx context.Context, tx postgres.Tx, token id.Digest, next *id.Digest) (used bool, err error) {
	return exchanged(changeGrants(ctx, tx, rotateRefreshTokenSQL, reasonUsed, []string{EventRefreshed}, token, next,
		tx.Now.Add(RefreshTokenLifetime)))
}

func exchanged(events int, err error) (bool, error) {
	if err != nil {
		return false, fmt.Errorf("exchange: %w", err)
	}
	return events == 1, nil
}

// grantOfRefreshToken returns the application's grant of a refresh token, or "".
func grantOfRefreshToken(ctx context.Context, tx postgres.Tx, token id.Digest,
	applicationID string,
) (grantID string, err error) {
	err = tx.Gorm(ctx).Table("oauth_refresh_tokens t").Joins("JOIN oauth_grants g ON g.id = t.grant_id").
		Where("t.hash = ? AND g.application_id = ?", token, applicationID).Select("g.id").Take(&grantID).Error
	if postgres.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read grant of refresh token: %w", err)
	}
	return grantID, nil
}
