package oauth

import (
	"context"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/application"
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

// insertGrant makes a grant that the client consented to, in the way that reason says.
func insertGrant(ctx context.Context, tx postgres.Tx, g grantRow, reason string) error {
	_, err := tx.SQL().ExecContext(ctx, `WITH made AS (INSERT INTO oauth_grants (id, application_id, client_id, scopes, created_at)
			VALUES ($1, $2, $3, string_to_array($4, ' '), $5) RETURNING id, application_id, client_id)
		`+recordEvent+` SELECT id, application_id, client_id, $6, $7, $5 FROM made`,
		g.ID, g.ApplicationID, g.ClientID, application.FormatScopes(g.Scopes), tx.Now, EventCreated, reason)
	if err != nil {
		return fmt.Errorf("insert grant: %w", err)
	}
	return nil
}

type liveGrantRow struct {
	LastUsedAt          *time.Time
	Allowed             []application.Scope // what the application may ask for now
	RatePerMinute       int
	ClientRatePerMinute int
	RecordingEnabled    bool
}

// liveGrant finds the grant of an access token while it can be used. It runs for every API call.
func liveGrant(ctx context.Context, tx postgres.Tx, c claims) (r liveGrantRow, found bool, err error) {
	var scopes string
	err = tx.SQL().QueryRowContext(ctx, `SELECT g.last_used_at, array_to_string(a.scopes, ' '), coalesce(a.rate_per_minute, 0), coalesce(a.client_rate_per_minute, 0), a.recording_enabled
		FROM oauth_grants g JOIN applications a ON a.id = g.application_id JOIN clients c ON c.id = g.client_id
		WHERE g.id = $1 AND g.application_id = $2 AND g.client_id = $3 AND g.activated_at IS NOT NULL AND g.revoked_at IS NULL
			AND a.suspended_at IS NULL AND c.disabled_at IS NULL`, c.GrantID, c.ApplicationID, c.ClientID).Scan(
		&r.LastUsedAt, &scopes, &r.RatePerMinute, &r.ClientRatePerMinute, &r.RecordingEnabled)
	if postgres.IsNotFound(err) {
		return liveGrantRow{}, false, nil
	}
	if err != nil {
		return liveGrantRow{}, false, fmt.Errorf("read grant: %w", err)
	}
	r.Allowed = scopesOf(scopes)
	return r, true, nil
}

// touchGrant notes the use of a grant that was last used before; it never waits for a lock.
func touchGrant(ctx context.Context, tx postgres.Tx, grantID string, before time.Time) error {
	_, err := tx.SQL().ExecContext(ctx, `UPDATE oauth_grants SET last_used_at = $1 WHERE id = (SELECT id FROM oauth_grants
		WHERE id = $2 AND (last_used_at IS NULL OR last_used_at <= $3) FOR UPDATE SKIP LOCKED)`, tx.Now, grantID, before)
	if err != nil {
		return fmt.Errorf("touch grant: %w", err)
	}
	return nil
}

// revokeGrant ends a grant; one that has ended stays as it is.
func revokeGrant(ctx context.Context, tx postgres.Tx, grantID string, reason Reason) error {
	_, err := tx.SQL().ExecContext(ctx, `WITH ended AS (UPDATE oauth_grants SET revoked_at = $1, revoked_reason = $2
			WHERE id = $3 AND revoked_at IS NULL RETURNING id, application_id, client_id)
		`+recordEvent+` SELECT id, application_id, client_id, $4, $2, $1 FROM ended`, tx.Now, reason, grantID, EventRevoked)
	if err != nil {
		return fmt.Errorf("revoke grant: %w", err)
	}
	return nil
}

// revokeReplayed ends a grant whose code or refresh token was presented twice. Only the replay that ends it is an
// event: those that follow find nothing to end.
func revokeReplayed(ctx context.Context, tx postgres.Tx, grantID string, reason Reason) error {
	_, err := tx.SQL().ExecContext(ctx, `WITH ended AS (UPDATE oauth_grants SET revoked_at = $1, revoked_reason = $2
			WHERE id = $3 AND revoked_at IS NULL RETURNING id, application_id, client_id)
		`+recordEvent+` SELECT id, application_id, client_id, event, $2, $1 FROM ended, unnest(ARRAY[$4, $5]) event`,
		tx.Now, reason, grantID, EventReplayed, EventRevoked)
	if err != nil {
		return fmt.Errorf("revoke replayed grant: %w", err)
	}
	return nil
}

// revokeLinks ends the client's grants with an application, or with [anyApplication], and tells how many.
func revokeLinks(ctx context.Context, tx postgres.Tx, clientID, applicationID string, reason Reason) (int, error) {
	r, err := tx.SQL().ExecContext(ctx, `WITH ended AS (UPDATE oauth_grants SET revoked_at = $1, revoked_reason = $2
			WHERE client_id = $3 AND $4 IN ('', application_id) AND revoked_at IS NULL RETURNING id, application_id, client_id)
		`+recordEvent+` SELECT id, application_id, client_id, $5, $2, $1 FROM ended`, tx.Now, reason, clientID, applicationID, EventRevoked)
	if err != nil {
		return 0, fmt.Errorf("revoke grants: %w", err)
	}
	n, err := r.RowsAffected()
	return int(n), err
}

// revokePending ends the client's grants whose code was not redeemed.
func revokePending(ctx context.Context, tx postgres.Tx, clientID string, reason Reason) error {
	_, err := tx.SQL().ExecContext(ctx, `WITH ended AS (UPDATE oauth_grants SET revoked_at = $1, revoked_reason = $2
			WHERE client_id = $3 AND activated_at IS NULL AND revoked_at IS NULL RETURNING id, application_id, client_id)
		`+recordEvent+` SELECT id, application_id, client_id, $4, $2, $1 FROM ended`, tx.Now, reason, clientID, EventRevoked)
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

// aliveSQL holds for a grant g with which something can still be done: one of its tokens has not expired.
const aliveSQL = `g.revoked_at IS NULL AND g.activated_at IS NOT NULL AND (g.activated_at > @issued
	OR EXISTS (SELECT FROM oauth_refresh_tokens t WHERE t.grant_id = g.id AND t.used_at IS NULL AND t.expires_at > @now))`

// aliveAt gives the parameters of aliveSQL.
func aliveAt(now time.Time) map[string]any {
	return map[string]any{"now": now, "issued": now.Add(-AccessTokenLifetime)}
}

func activeGrants(ctx context.Context, tx postgres.Tx, clientID string) ([]activeGrantRow, error) {
	rows, err := tx.Gorm(ctx).Raw(`SELECT g.application_id, array_to_string(g.scopes, ' '), g.activated_at, g.last_used_at FROM oauth_grants g
		WHERE g.client_id = @client AND `+aliveSQL+` ORDER BY g.activated_at, g.id`, aliveAt(tx.Now), map[string]any{"client": clientID}).Rows()
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

func scopesOf(text string) []application.Scope {
	var out []application.Scope
	for _, s := range strings.Fields(text) {
		out = append(out, application.Scope(s))
	}
	return out
}
