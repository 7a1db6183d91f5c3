package oauth

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
)

// Later is what happened to grants in a lost database and is missing in the restored one.
type Later struct {
	ended  []grantRow
	used   []id.Digest       // refresh tokens
	issued []refreshTokenRow // in their place
}

// ReadLater reads what changed in the lost database at or after since.
func ReadLater(ctx context.Context, lost postgres.Tx, since time.Time) (l Later, err error) {
	err = lost.Gorm(ctx).Where("revoked_at >= ?", since).Order("id").Find(&l.ended).Error
	if err == nil {
		err = lost.Gorm(ctx).Model(&refreshTokenRow{}).Where("used_at >= ?", since).Pluck("hash", &l.used).Error
	}
	if err == nil {
		err = lost.Gorm(ctx).Where("created_at >= ?", since).Find(&l.issued).Error
	}
	if err != nil {
		return l, fmt.Errorf("read links of the lost database: %w", err)
	}
	return l, nil
}

// Apply ends the grants that had ended, and lets the others continue with the tokens that partners hold. A refresh
// after the restore point gave them a token that the restored database does not know. It returns how many grants ended
// and how many tokens were copied.
func (l Later) Apply(ctx context.Context, tx postgres.Tx) (ended, tokens int, err error) {
	for _, g := range l.ended {
		n, err := changeGrants(ctx, tx, revokeGrantSQL, g.RevokedReason, []string{EventRevoked}, g.ID)
		if err != nil {
			return 0, 0, fmt.Errorf("revoke grant: %w", err)
		}
		ended += n
	}
	for part := range slices.Chunk(l.used, 1000) {
		if _, err := gorm.G[refreshTokenRow](tx.Gorm(ctx)).Where("hash IN ? AND used_at IS NULL", part).
			Update(ctx, "used_at", tx.Now); err != nil {
			return 0, 0, fmt.Errorf("end refresh tokens: %w", err)
		}
	}
	for part := range slices.Chunk(l.issued, 1000) {
		ids := make(postgres.Array[string], len(part))
		for i, t := range part {
			ids[i] = t.GrantID
		}
		var living []string
		if err := tx.Gorm(ctx).Model(&grantRow{}).Where("id = ANY(?) AND activated_at IS NOT NULL", ids).
			Pluck("id", &living).Error; err != nil {
			return 0, 0, fmt.Errorf("read grants: %w", err)
		}
		part = slices.DeleteFunc(part, func(t refreshTokenRow) bool { return !slices.Contains(living, t.GrantID) })
		if len(part) == 0 {
			continue
		}
		done := tx.Gorm(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&part)
		if done.Error != nil {
			return 0, 0, fmt.Errorf("insert refresh tokens: %w", done.Error)
		}
		tokens += int(done.RowsAffected)
	}
	return ended, tokens, nil
}
