package oauth

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

// grantRow is a row of oauth_grants.
type grantRow struct {
	ID            string                            `gorm:"column:id;primaryKey"`
	ApplicationID string                            `gorm:"column:application_id"`
	ClientID      string                            `gorm:"column:client_id"`
	Scopes        postgres.Array[application.Scope] `gorm:"column:scopes"`
	// when the client consented
	CreatedAt time.Time `gorm:"column:created_at;autoCreateTime:false"`
	// when the code was redeemed
	ActivatedAt *time.Time `gorm:"column:activated_at"`
	// by redeeming, refreshing or, to the minute, an access token
	LastUsedAt    *time.Time `gorm:"column:last_used_at"`
	RevokedAt     *time.Time `gorm:"column:revoked_at"`
	RevokedReason Reason     `gorm:"column:revoked_reason;serializer:zeronull"`
	// when [Service.Purge] checks it next
	PurgeAt time.Time `gorm:"column:purge_at"`
	// how far a sandbox clock was advanced since its creation
	AgedUs int64 `gorm:"column:aged_us"`
	// where the client was redirected; empty: unknown
	RedirectURI string `gorm:"column:redirect_uri;serializer:zeronull"`
}

// TableName implements [schema.Tabler].
func (grantRow) TableName() string { return "oauth_grants" }

const revoke = `WITH changed AS (UPDATE oauth_grants SET revoked_at = $1, revoked_reason = $2, purge_at = $1 WHERE revoked_at IS NULL AND `

const live = ` FROM oauth_grants g JOIN applications a ON a.id = g.application_id JOIN clients c ON c.id = g.client_id
		WHERE g.id = $1 AND g.application_id = $2 AND g.client_id = $3 AND g.activated_at IS NOT NULL AND g.revoked_at IS NULL
			AND a.suspended_at IS NULL AND c.disabled_at IS NULL`

var (
	insertGrantSQL = postgres.SQL(postgres.Atomic, `WITH changed AS (INSERT INTO oauth_grants (id, application_id, client_id, scopes, created_at, purge_at, redirect_uri)
		VALUES ($4, $5, $6, $7, $1, $8, $9)`+recordEvents)

	revokeGrantSQL = postgres.SQL(postgres.Atomic, revoke+`id = $4`+recordEvents)
	revokeLinksSQL = postgres.SQL(postgres.Atomic,
		revoke+`client_id = $4 AND $5 IN ('', application_id)`+recordEvents)
	revokePendingSQL = postgres.SQL(postgres.Atomic, revoke+`client_id = $4 AND activated_at IS NULL`+recordEvents)

	liveGrantSQL = postgres.SQL(postgres.Hot, `SELECT g.last_used_at, a.scopes, coalesce(a.rate_per_minute, 0), coalesce(a.client_rate_per_minute, 0), a.recording_enabled, g.aged_us`+live)

	// Locks in the same order as suspending, disabling and revoking.
	standsSQL = postgres.SQL(postgres.Hot, `SELECT 1`+live+` FOR SHARE OF a, c, g`)
)

// insertGrant creates a grant after consent; reason says which kind of consent.
func insertGrant(ctx context.Context, tx postgres.Tx, g grantRow, reason Reason) error {
	if _, err := changeGrants(ctx, tx, insertGrantSQL, reason, []string{EventCreated}, g.ID, g.ApplicationID,
		g.ClientID, g.Scopes, tx.Now.Add(CodeLifetime), g.RedirectURI); err != nil {
		return fmt.Errorf("insert grant: %w", err)
	}
	return nil
}

// liveGrantRow is what the bearer of an access token may do.
type liveGrantRow struct {
	LastUsedAt          *time.Time
	Allowed             postgres.Array[application.Scope] // current scopes of the application
	RatePerMinute       int
	ClientRatePerMinute int
	RecordingEnabled    bool
	AgedUs              int64
}

// liveGrant returns the usable grant of an access token. It runs for every API call.
func liveGrant(ctx context.Context, tx postgres.Tx, c claims) (r liveGrantRow, found bool, err error) {
	err = tx.QueryRow(ctx, liveGrantSQL, c.GrantID, c.ApplicationID, c.ClientID).Scan(
		&r.LastUsedAt, &r.Allowed, &r.RatePerMinute, &r.ClientRatePerMinute, &r.RecordingEnabled, &r.AgedUs)
	if postgres.IsNotFound(err) {
		return liveGrantRow{}, false, nil
	}
	if err != nil {
		return liveGrantRow{}, false, fmt.Errorf("read grant: %w", err)
	}
	return r, true, nil
}

// touchGrant records the use of a grant last used before the given time. It never waits for a lock.
func touchGrant(ctx context.Context, tx postgres.Tx, grantID string, before time.Time) error {
	free := tx.Gorm(ctx).Model(&grantRow{}).Clauses(postgres.SkipLocked).Select("id").
		Where("id = ? AND (last_used_at IS NULL OR last_used_at <= ?)", grantID, before)
	if _, err := gorm.G[grantRow](tx.Gorm(ctx)).Where("id = (?)", free).
		Updates(ctx, grantRow{LastUsedAt: &tx.Now}); err != nil {
		return fmt.Errorf("touch grant: %w", err)
	}
	return nil
}

// revokeGrant ends a grant. For an ended grant it does nothing and records nothing. events must end with
// [EventRevoked].
func revokeGrant(ctx context.Context, tx postgres.Tx, grantID string, reason Reason, events ...string) error {
	if _, err := changeGrants(ctx, tx, revokeGrantSQL, reason, events, grantID); err != nil {
		return fmt.Errorf("revoke grant: %w", err)
	}
	return nil
}

// revokeLinks ends the client's grants with an application, or with all for [anyApplication], and returns how many.
func revokeLinks(ctx context.Context, tx postgres.Tx, clientID, applicationID string, reason Reason) (int, error) {
	n, err := changeGrants(ctx, tx, revokeLinksSQL, reason, []string{EventRevoked}, clientID, applicationID)
	if err != nil {
		return 0, fmt.Errorf("revoke grants: %w", err)
	}
	return n, nil
}

// revokePending ends the client's grants whose code was not redeemed.
func revokePending(ctx context.Context, tx postgres.Tx, clientID string, reason Reason) error {
	if _, err := changeGrants(ctx, tx, revokePendingSQL, reason, []string{EventRevoked}, clientID); err != nil {
		return fmt.Errorf("revoke grants: %w", err)
	}
	return nil
}

// aliveGrants starts a query for living grants g, which have an unexpired token.
func aliveGrants(ctx context.Context, tx postgres.Tx) *gorm.DB {
	return tx.Gorm(ctx).Table("oauth_grants g").
		Where(`g.revoked_at IS NULL AND g.activated_at IS NOT NULL AND (g.activated_at > ?
		OR EXISTS (SELECT FROM oauth_refresh_tokens t WHERE t.grant_id = g.id AND t.used_at IS NULL AND t.expires_at > ?))`,
			tx.Now.Add(-AccessTokenLifetime), tx.Now)
}

// activeGrants returns the client's living grants, oldest first.
func activeGrants(ctx context.Context, tx postgres.Tx, clientID string) (list []grantRow, err error) {
	if err := aliveGrants(ctx, tx).Where("g.client_id = ?", clientID).Order("g.activated_at, g.id").
		Find(&list).Error; err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	return list, nil
}

// linkedTo returns the applications with a living grant of the client: the given one, or all for [anyApplication].
func linkedTo(ctx context.Context, tx postgres.Tx, clientID, applicationID string) (ids []string, err error) {
	err = aliveGrants(ctx, tx).Where("g.client_id = ? AND ? IN ('', g.application_id)", clientID, applicationID).
		Distinct("g.application_id").Pluck("g.application_id", &ids).Error
	if err != nil {
		return nil, fmt.Errorf("find linked applications: %w", err)
	}
	return ids, nil
}

// linkedWith returns the applications with a living grant of the client that currently includes the scope.
func linkedWith(ctx context.Context, tx postgres.Tx, clientID string,
	scope application.Scope,
) (ids []string, err error) {
	err = aliveGrants(ctx, tx).Joins("JOIN applications a ON a.id = g.application_id").
		Where("g.client_id = ? AND ? = ANY(g.scopes) AND ? = ANY(a.scopes)", clientID, scope, scope).
		Distinct("g.application_id").Pluck("g.application_id", &ids).Error
	if err != nil {
		return nil, fmt.Errorf("find applications with %s: %w", scope, err)
	}
	return ids, nil
}
