package oauth

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
)

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

func insertCode(ctx context.Context, tx postgres.Tx, code id.Digest, grantID, redirectURI, challenge string) error {
	_, err := tx.SQL().ExecContext(ctx, `INSERT INTO oauth_codes (hash, grant_id, redirect_uri, code_challenge, expires_at)
		VALUES ($1, $2, $3, $4, $5)`, code, grantID, redirectURI, challenge, tx.Now.Add(CodeLifetime))
	if err != nil {
		return fmt.Errorf("insert code: %w", err)
	}
	return nil
}

const lockedGrant = `g.id, g.application_id, g.client_id, array_to_string(g.scopes, ' '), g.revoked_at, c.disabled_at IS NOT NULL`

// lockCode locks the code's row and its grant's: redemptions of one code go one after another.
func lockCode(ctx context.Context, tx postgres.Tx, code id.Digest) (r codeRow, found bool, err error) {
	var scopes string
	err = tx.SQL().QueryRowContext(ctx, `SELECT k.redirect_uri, k.code_challenge, k.expires_at, k.used_at, `+lockedGrant+`
		FROM oauth_codes k JOIN oauth_grants g ON g.id = k.grant_id JOIN clients c ON c.id = g.client_id
		WHERE k.hash = $1 FOR UPDATE OF k, g`, code).Scan(&r.RedirectURI, &r.CodeChallenge, &r.ExpiresAt, &r.UsedAt,
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
	err = tx.SQL().QueryRowContext(ctx, `SELECT t.expires_at, t.used_at, `+lockedGrant+`
		FROM oauth_refresh_tokens t JOIN oauth_grants g ON g.id = t.grant_id JOIN clients c ON c.id = g.client_id
		WHERE t.hash = $1 FOR UPDATE OF t, g`, token).Scan(&r.ExpiresAt, &r.UsedAt,
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

// redeemCode uses a code: its grant becomes active, and refresh, unless nil, its refresh token. It reports false when
// the code was used before. One statement, because this and the next are what a token request waits for.
func redeemCode(ctx context.Context, tx postgres.Tx, code id.Digest, refresh *id.Digest) (used bool, err error) {
	return exchanged(tx.SQL().ExecContext(ctx, `WITH used AS (UPDATE oauth_codes SET used_at = $1 WHERE hash = $2 AND used_at IS NULL RETURNING grant_id),
		issued AS (INSERT INTO oauth_refresh_tokens (hash, grant_id, created_at, expires_at) SELECT $3::bytea, grant_id, $1, $4 FROM used WHERE $3::bytea IS NOT NULL),
		active AS (UPDATE oauth_grants SET activated_at = coalesce(activated_at, $1), last_used_at = $1 WHERE id IN (SELECT grant_id FROM used)
			RETURNING id, application_id, client_id)
		`+recordEvent+` SELECT id, application_id, client_id, $5, $6, $1 FROM active`,
		tx.Now, code, refresh, tx.Now.Add(RefreshTokenLifetime), EventActivated, reasonRedeemed))
}

// rotateRefreshToken uses a refresh token and issues the next, unless nil. It reports false when the token was used
// before.
func rotateRefreshToken(ctx context.Context, tx postgres.Tx, token id.Digest, next *id.Digest) (used bool, err error) {
	return exchanged(tx.SQL().ExecContext(ctx, `WITH used AS (UPDATE oauth_refresh_tokens SET used_at = $1 WHERE hash = $2 AND used_at IS NULL RETURNING grant_id),
		issued AS (INSERT INTO oauth_refresh_tokens (hash, grant_id, created_at, expires_at) SELECT $3::bytea, grant_id, $1, $4 FROM used WHERE $3::bytea IS NOT NULL),
		touched AS (UPDATE oauth_grants SET last_used_at = $1 WHERE id IN (SELECT grant_id FROM used) RETURNING id, application_id, client_id)
		`+recordEvent+` SELECT id, application_id, client_id, $5, $6, $1 FROM touched`,
		tx.Now, token, next, tx.Now.Add(RefreshTokenLifetime), EventRefreshed, reasonUsed))
}

func exchanged(r sql.Result, err error) (bool, error) {
	if err != nil {
		return false, fmt.Errorf("exchange: %w", err)
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

func grantOfRefreshToken(ctx context.Context, tx postgres.Tx, token id.Digest, applicationID string) (grantID string, err error) {
	err = tx.SQL().QueryRowContext(ctx, `SELECT g.id FROM oauth_refresh_tokens t JOIN oauth_grants g ON g.id = t.grant_id
		WHERE t.hash = $1 AND g.application_id = $2`, token, applicationID).Scan(&grantID)
	if postgres.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read grant of refresh token: %w", err)
	}
	return grantID, nil
}

type answerRow struct {
	Fingerprint id.Digest
	Sealed      []byte // nil: the caller has the key and makes the answer
}

// claimAnswer takes the row of a key, made new when absent or past its time, and keeps it locked until the transaction
// ends. A twin waits here.
func claimAnswer(ctx context.Context, tx postgres.Tx, applicationID string, key, fingerprint id.Digest) (r answerRow, err error) {
	err = tx.SQL().QueryRowContext(ctx, `INSERT INTO oauth_token_answers AS a (application_id, key_hash, fingerprint, expires_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (application_id, key_hash) DO UPDATE SET
			fingerprint   = CASE WHEN a.expires_at <= $5 THEN excluded.fingerprint ELSE a.fingerprint END,
			answer_sealed = CASE WHEN a.expires_at <= $5 THEN NULL ELSE a.answer_sealed END
		RETURNING fingerprint, answer_sealed`, applicationID, key, fingerprint, tx.Now.Add(AnswerRetention), tx.Now).Scan(&r.Fingerprint, &r.Sealed)
	if err != nil {
		return answerRow{}, fmt.Errorf("claim idempotency key: %w", err)
	}
	return r, nil
}

func storeAnswer(ctx context.Context, tx postgres.Tx, applicationID string, key id.Digest, sealed []byte) error {
	_, err := tx.SQL().ExecContext(ctx, `UPDATE oauth_token_answers SET answer_sealed = $1, expires_at = $2 WHERE application_id = $3 AND key_hash = $4`,
		sealed, tx.Now.Add(AnswerRetention), applicationID, key)
	if err != nil {
		return fmt.Errorf("store token answer: %w", err)
	}
	return nil
}

func deleteAnswers(ctx context.Context, tx postgres.Tx, before time.Time, limit int) (int, error) {
	r, err := tx.SQL().ExecContext(ctx, `DELETE FROM oauth_token_answers WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM oauth_token_answers WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("delete token answers: %w", err)
	}
	n, err := r.RowsAffected()
	return int(n), err
}
