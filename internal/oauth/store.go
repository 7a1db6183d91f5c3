package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/application"
	"partnerd/internal/id"
	"partnerd/internal/postgres"
)

type grantRow struct {
	ID             string
	ApplicationID  string
	ClientID       string
	Scopes         []application.Scope
	RevokedAt      *time.Time
	ClientDisabled bool
}

type codeRow struct {
	Grant         grantRow
	RedirectURI   string
	CodeChallenge string
	ExpiresAt     time.Time
	UsedAt        *time.Time
}

type refreshTokenRow struct {
	Grant     grantRow
	ExpiresAt time.Time
	UsedAt    *time.Time
}

func insertGrant(ctx context.Context, tx postgres.Tx, g grantRow) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO oauth_grants (id, application_id, client_id, scopes, created_at)
		VALUES (?, ?, ?, string_to_array(?, ' '), ?)`,
		g.ID, g.ApplicationID, g.ClientID, application.FormatScopes(g.Scopes), tx.Now).Error
	if err != nil {
		return fmt.Errorf("insert grant: %w", err)
	}
	return nil
}

func insertCode(ctx context.Context, tx postgres.Tx, code id.Digest, grantID, redirectURI, challenge string) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO oauth_codes (hash, grant_id, redirect_uri, code_challenge, expires_at)
		VALUES (?, ?, ?, ?, ?)`, code, grantID, redirectURI, challenge, tx.Now.Add(CodeLifetime)).Error
	if err != nil {
		return fmt.Errorf("insert code: %w", err)
	}
	return nil
}

const lockedGrant = `g.id, g.application_id, g.client_id, array_to_string(g.scopes, ' '), g.revoked_at, c.disabled_at IS NOT NULL`

// lockCode locks the code's row and its grant's: redemptions of one code go one after another.
func lockCode(ctx context.Context, tx postgres.Tx, code id.Digest) (r codeRow, found bool, err error) {
	var scopes string
	err = tx.Gorm(ctx).Raw(`SELECT k.redirect_uri, k.code_challenge, k.expires_at, k.used_at, `+lockedGrant+`
		FROM oauth_codes k JOIN oauth_grants g ON g.id = k.grant_id JOIN clients c ON c.id = g.client_id
		WHERE k.hash = ? FOR UPDATE OF k, g`, code).Row().Scan(&r.RedirectURI, &r.CodeChallenge, &r.ExpiresAt, &r.UsedAt,
		&r.Grant.ID, &r.Grant.ApplicationID, &r.Grant.ClientID, &scopes, &r.Grant.RevokedAt, &r.Grant.ClientDisabled)
	if postgres.IsNotFound(err) {
		return codeRow{}, false, nil
	}
	if err != nil {
		return codeRow{}, false, fmt.Errorf("lock code: %w", err)
	}
	r.Grant.Scopes = scopesOf(scopes)
	return r, true, nil
}

// lockRefreshToken locks the token's row and its grant's: refreshes with one token go one after another.
func lockRefreshToken(ctx context.Context, tx postgres.Tx, token id.Digest) (r refreshTokenRow, found bool, err error) {
	var scopes string
	err = tx.Gorm(ctx).Raw(`SELECT t.expires_at, t.used_at, `+lockedGrant+`
		FROM oauth_refresh_tokens t JOIN oauth_grants g ON g.id = t.grant_id JOIN clients c ON c.id = g.client_id
		WHERE t.hash = ? FOR UPDATE OF t, g`, token).Row().Scan(&r.ExpiresAt, &r.UsedAt,
		&r.Grant.ID, &r.Grant.ApplicationID, &r.Grant.ClientID, &scopes, &r.Grant.RevokedAt, &r.Grant.ClientDisabled)
	if postgres.IsNotFound(err) {
		return refreshTokenRow{}, false, nil
	}
	if err != nil {
		return refreshTokenRow{}, false, fmt.Errorf("lock refresh token: %w", err)
	}
	r.Grant.Scopes = scopesOf(scopes)
	return r, true, nil
}

func useCode(ctx context.Context, tx postgres.Tx, code id.Digest) (used bool, err error) {
	r := tx.Gorm(ctx).Exec(`UPDATE oauth_codes SET used_at = ? WHERE hash = ? AND used_at IS NULL`, tx.Now, code)
	if r.Error != nil {
		return false, fmt.Errorf("use code: %w", r.Error)
	}
	return r.RowsAffected == 1, nil
}

func useRefreshToken(ctx context.Context, tx postgres.Tx, token id.Digest) (used bool, err error) {
	r := tx.Gorm(ctx).Exec(`UPDATE oauth_refresh_tokens SET used_at = ? WHERE hash = ? AND used_at IS NULL`, tx.Now, token)
	if r.Error != nil {
		return false, fmt.Errorf("use refresh token: %w", r.Error)
	}
	return r.RowsAffected == 1, nil
}

func insertRefreshToken(ctx context.Context, tx postgres.Tx, token id.Digest, grantID string) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO oauth_refresh_tokens (hash, grant_id, created_at, expires_at) VALUES (?, ?, ?, ?)`,
		token, grantID, tx.Now, tx.Now.Add(RefreshTokenLifetime)).Error
	if err != nil {
		return fmt.Errorf("insert refresh token: %w", err)
	}
	return nil
}

func activateGrant(ctx context.Context, tx postgres.Tx, grantID string) error {
	err := tx.Gorm(ctx).Exec(`UPDATE oauth_grants SET activated_at = coalesce(activated_at, ?), last_used_at = ? WHERE id = ?`,
		tx.Now, tx.Now, grantID).Error
	if err != nil {
		return fmt.Errorf("activate grant: %w", err)
	}
	return nil
}

type liveGrantRow struct {
	LastUsedAt          *time.Time
	RatePerMinute       int
	ClientRatePerMinute int
	RecordingEnabled    bool
}

// liveGrant finds the grant of an access token while it can be used. It runs for every API call.
func liveGrant(ctx context.Context, tx postgres.Tx, c claims) (r liveGrantRow, found bool, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT g.last_used_at, coalesce(a.rate_per_minute, 0), coalesce(a.client_rate_per_minute, 0), a.recording_enabled
		FROM oauth_grants g JOIN applications a ON a.id = g.application_id JOIN clients c ON c.id = g.client_id
		WHERE g.id = ? AND g.application_id = ? AND g.client_id = ? AND g.activated_at IS NOT NULL AND g.revoked_at IS NULL
			AND a.suspended_at IS NULL AND c.disabled_at IS NULL`, c.GrantID, c.ApplicationID, c.ClientID).Row().Scan(
		&r.LastUsedAt, &r.RatePerMinute, &r.ClientRatePerMinute, &r.RecordingEnabled)
	if postgres.IsNotFound(err) {
		return liveGrantRow{}, false, nil
	}
	if err != nil {
		return liveGrantRow{}, false, fmt.Errorf("read grant: %w", err)
	}
	return r, true, nil
}

// touchGrant notes the use of a grant that was last used before; it never waits for a lock.
func touchGrant(ctx context.Context, tx postgres.Tx, grantID string, before time.Time) error {
	err := tx.Gorm(ctx).Exec(`UPDATE oauth_grants SET last_used_at = ? WHERE id = (SELECT id FROM oauth_grants
		WHERE id = ? AND (last_used_at IS NULL OR last_used_at <= ?) FOR UPDATE SKIP LOCKED)`, tx.Now, grantID, before).Error
	if err != nil {
		return fmt.Errorf("touch grant: %w", err)
	}
	return nil
}

func grantOfRefreshToken(ctx context.Context, tx postgres.Tx, token id.Digest, applicationID string) (grantID string, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT g.id FROM oauth_refresh_tokens t JOIN oauth_grants g ON g.id = t.grant_id
		WHERE t.hash = ? AND g.application_id = ?`, token, applicationID).Row().Scan(&grantID)
	if postgres.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read grant of refresh token: %w", err)
	}
	return grantID, nil
}

func revokeGrant(ctx context.Context, tx postgres.Tx, grantID, reason string) error {
	err := tx.Gorm(ctx).Exec(`UPDATE oauth_grants SET revoked_at = ?, revoked_reason = ? WHERE id = ? AND revoked_at IS NULL`,
		tx.Now, reason, grantID).Error
	if err != nil {
		return fmt.Errorf("revoke grant: %w", err)
	}
	return nil
}

func revokePair(ctx context.Context, tx postgres.Tx, clientID, applicationID, reason string) error {
	err := tx.Gorm(ctx).Exec(`UPDATE oauth_grants SET revoked_at = ?, revoked_reason = ?
		WHERE client_id = ? AND application_id = ? AND revoked_at IS NULL`, tx.Now, reason, clientID, applicationID).Error
	if err != nil {
		return fmt.Errorf("revoke grants: %w", err)
	}
	return nil
}

type activeGrantRow struct {
	ApplicationID string
	Scopes        []application.Scope
	ActivatedAt   time.Time
	LastUsedAt    *time.Time
}

func activeGrants(ctx context.Context, tx postgres.Tx, clientID string) ([]activeGrantRow, error) {
	rows, err := tx.Gorm(ctx).Raw(`SELECT application_id, array_to_string(scopes, ' '), activated_at, last_used_at FROM oauth_grants
		WHERE client_id = ? AND revoked_at IS NULL AND activated_at IS NOT NULL ORDER BY activated_at, id`, clientID).Rows()
	if err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	defer rows.Close()
	var out []activeGrantRow
	for rows.Next() {
		var r activeGrantRow
		var scopes string
		if err := rows.Scan(&r.ApplicationID, &scopes, &r.ActivatedAt, &r.LastUsedAt); err != nil {
			return nil, fmt.Errorf("read grants: %w", err)
		}
		r.Scopes, r.ActivatedAt = scopesOf(scopes), r.ActivatedAt.UTC()
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	return out, nil
}

func deleteEndedGrants(ctx context.Context, tx postgres.Tx, before time.Time) (int, error) {
	ended := `SELECT id FROM oauth_grants WHERE revoked_at < ? OR (activated_at IS NULL AND created_at < ?)`
	for _, table := range []string{"oauth_codes", "oauth_refresh_tokens"} {
		if err := tx.Gorm(ctx).Exec(`DELETE FROM `+table+` WHERE grant_id IN (`+ended+`)`, before, before).Error; err != nil {
			return 0, fmt.Errorf("delete from %s: %w", table, err)
		}
	}
	r := tx.Gorm(ctx).Exec(`DELETE FROM oauth_grants WHERE id IN (`+ended+`)`, before, before)
	if r.Error != nil {
		return 0, fmt.Errorf("delete grants: %w", r.Error)
	}
	return int(r.RowsAffected), nil
}

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

func scopesOf(text string) []application.Scope {
	var out []application.Scope
	for _, s := range strings.Fields(text) {
		out = append(out, application.Scope(s))
	}
	return out
}
