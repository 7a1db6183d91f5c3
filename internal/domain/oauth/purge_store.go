package oauth

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

var (
	expireGrantsSQL = postgres.SQL(postgres.Atomic, revoke+`id = ANY ($4::text[])`+recordEvents)

	postponePurgeSQL = postgres.SQL(postgres.Batch, `UPDATE oauth_grants g SET purge_at = n.at
		FROM unnest($1::text[], $2::timestamptz[]) AS n (id, at) WHERE g.id = n.id`)
)

func idsOf(grants []grantRow) []string {
	ids := make([]string, len(grants))
	for i, g := range grants {
		ids[i] = g.ID
	}
	return ids
}

// lockDueGrants returns due grants. It skips those that are being exchanged, ended or purged.
func lockDueGrants(ctx context.Context, tx postgres.Tx, limit int) ([]grantRow, error) {
	due, err := gorm.G[grantRow](tx.Gorm(ctx), postgres.SkipLocked).Where("purge_at <= ?", tx.Now).Order("purge_at").
		Limit(limit).Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock grants: %w", err)
	}
	return due, nil
}

// refreshableUntil returns, by grant, when the unused refresh token expires. The grants must be locked by an earlier
// statement of the transaction. That statement waits for refreshes in progress, so their results are visible here.
func refreshableUntil(ctx context.Context, tx postgres.Tx, grants []grantRow) (map[string]time.Time, error) {
	unused, err := gorm.G[refreshTokenRow](tx.Gorm(ctx)).Where("used_at IS NULL AND grant_id IN ?", idsOf(grants)).
		Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("read refresh tokens: %w", err)
	}
	until := make(map[string]time.Time, len(unused))
	for _, t := range unused {
		until[t.GrantID] = t.ExpiresAt
	}
	return until, nil
}

// postponePurge stores when each grant is checked next.
func postponePurge(ctx context.Context, tx postgres.Tx, grants []grantRow) error {
	if len(grants) == 0 {
		return nil
	}
	at := make([]time.Time, len(grants))
	for i, g := range grants {
		at[i] = g.PurgeAt
	}
	if _, err := tx.Exec(ctx, postponePurgeSQL, idsOf(grants), at); err != nil {
		return fmt.Errorf("postpone purge: %w", err)
	}
	return nil
}

func endExpired(ctx context.Context, tx postgres.Tx, grants []grantRow) error {
	if len(grants) == 0 {
		return nil
	}
	if _, err := changeGrants(ctx, tx, expireGrantsSQL, reasonExpired, []string{EventRevoked},
		idsOf(grants)); err != nil {
		return fmt.Errorf("end grants: %w", err)
	}
	return nil
}

// deleteGrants deletes locked grants with their codes and tokens. It returns how many grants, and how many rows in all
// tables. It leaves some for later if there are too many tokens, or if a request has locked a token and waits for its
// grant.
func deleteGrants(ctx context.Context, tx postgres.Tx, grants []grantRow) (deleted, rows int, err error) {
	if len(grants) == 0 {
		return 0, 0, nil
	}
	ids := idsOf(grants)
	tokens, err := postgres.Purge[refreshTokenRow](ctx, tx, purgedTokens, "grant_id", "grant_id IN ?", ids)
	if err != nil {
		return 0, 0, fmt.Errorf("delete refresh tokens: %w", err)
	}
	codes, err := postgres.Purge[codeRow](ctx, tx, purgedTokens, "grant_id", "grant_id IN ?", ids)
	if err != nil {
		return 0, 0, fmt.Errorf("delete codes: %w", err)
	}
	deleted, err = gorm.G[grantRow](tx.Gorm(ctx)).
		Where(`id IN ? AND NOT EXISTS (SELECT FROM oauth_refresh_tokens t WHERE t.grant_id = oauth_grants.id)
		AND NOT EXISTS (SELECT FROM oauth_codes k WHERE k.grant_id = oauth_grants.id)`, ids).Delete(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("delete grants: %w", err)
	}
	return deleted, tokens + codes + deleted, nil
}
