package portal

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/signin"
)

// memberRow is a row of application_members.
type memberRow struct {
	ApplicationID string    `gorm:"column:application_id;primaryKey"`
	StaffID       string    `gorm:"column:staff_id;primaryKey"`
	Role          Role      `gorm:"column:role"`
	CreatedAt     time.Time `gorm:"column:created_at;autoCreateTime:false"`
}

// TableName implements [schema.Tabler].
func (memberRow) TableName() string { return "application_members" }

var forShare = clause.Locking{Strength: "SHARE"}

// memberOf finds a membership, locked against its end when asked to; one that there is not is no error.
func memberOf(ctx context.Context, tx postgres.Tx, applicationID, staffID string,
	lock ...clause.Expression,
) (r memberRow, found bool, err error) {
	r, err = gorm.G[memberRow](tx.Gorm(ctx), lock...).Where("application_id = ? AND staff_id = ?",
		applicationID, staffID).Take(ctx)
	if postgres.IsNotFound(err) {
		return memberRow{}, false, nil
	}
	if err != nil {
		return memberRow{}, false, fmt.Errorf("read membership: %w", err)
	}
	return r, true, nil
}

// All members are locked, in the order of [membersOf], which acts call next.
var mayMemberSQL = postgres.SQL(postgres.Atomic,
	`SELECT 1 WHERE $2 = ANY (ARRAY (SELECT CASE WHEN role = ANY ($3) THEN staff_id END
	FROM application_members WHERE application_id = $1 ORDER BY staff_id FOR NO KEY UPDATE))`)

func membershipsOf(ctx context.Context, tx postgres.Tx, staffID string) ([]memberRow, error) {
	rows, err := gorm.G[memberRow](tx.Gorm(ctx)).Where("staff_id = ?", staffID).Order("created_at, application_id").
		Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list memberships: %w", err)
	}
	return rows, nil
}

func membersOf(ctx context.Context, tx postgres.Tx, applicationID string,
	lock ...clause.Expression,
) ([]memberRow, error) {
	rows, err := gorm.G[memberRow](tx.Gorm(ctx), lock...).Where("application_id = ?", applicationID).Order("staff_id").
		Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	return rows, nil
}

// insertMember adds a person; of one who is there already the role stays, and added is false.
func insertMember(ctx context.Context, tx postgres.Tx, r memberRow) (added bool, err error) {
	r.CreatedAt = tx.Now
	result := gorm.WithResult()
	if err := gorm.G[memberRow](tx.Gorm(ctx), clause.OnConflict{DoNothing: true}, result).Create(ctx, &r); err != nil {
		return false, fmt.Errorf("insert member: %w", err)
	}
	return result.RowsAffected == 1, nil
}

func updateRole(ctx context.Context, tx postgres.Tx, applicationID, staffID string, role Role) error {
	if _, err := gorm.G[memberRow](tx.Gorm(ctx)).Where("application_id = ? AND staff_id = ?", applicationID, staffID).
		Update(ctx, "role", role); err != nil {
		return fmt.Errorf("update role: %w", err)
	}
	return nil
}

func deleteMember(ctx context.Context, tx postgres.Tx, applicationID, staffID string) error {
	if _, err := gorm.G[memberRow](tx.Gorm(ctx)).Where("application_id = ? AND staff_id = ?", applicationID, staffID).
		Delete(ctx); err != nil {
		return fmt.Errorf("delete member: %w", err)
	}
	return nil
}

// linkRow is a row of portal_links: a link that was sent by mail, to sign up or to an application.
type linkRow struct {
	ID            string    `gorm:"column:id;primaryKey"`
	TokenHash     id.Digest `gorm:"column:token_hash"`
	ApplicationID string    `gorm:"column:application_id;serializer:zeronull"` // empty: a sign-up
	Role          Role      `gorm:"column:role;serializer:zeronull"`
	Email         string    `gorm:"column:email"`
	Language      string    `gorm:"column:language"`
	SentBy        string    `gorm:"column:sent_by;serializer:zeronull"` // as the audit names them; empty: a sign-up
	CreatedAt     time.Time `gorm:"column:created_at;autoCreateTime:false"`
	ExpiresAt     time.Time `gorm:"column:expires_at"`
}

// TableName implements [schema.Tabler].
func (linkRow) TableName() string { return "portal_links" }

var links signin.Links[linkRow]

func insertLink(ctx context.Context, tx postgres.Tx, r linkRow) error {
	r.CreatedAt = tx.Now
	if err := gorm.G[linkRow](tx.Gorm(ctx)).Create(ctx, &r); err != nil {
		return fmt.Errorf("insert link: %w", err)
	}
	return nil
}

// findLink returns a link that can be used, or [ErrBadLink]; locked, of several who use it at once one gets it.
func findLink(ctx context.Context, tx postgres.Tx, token id.Digest, lock ...clause.Expression) (linkRow, error) {
	r, err := gorm.G[linkRow](tx.Gorm(ctx), lock...).Where("token_hash = ? AND expires_at > ?", token, tx.Now).Take(ctx)
	if postgres.IsNotFound(err) {
		return linkRow{}, ErrBadLink
	}
	if err != nil {
		return linkRow{}, fmt.Errorf("read link: %w", err)
	}
	return r, nil
}

// countLinks counts the links that were mailed to an address within the last hour for an application, or to sign up:
// what others have mailed to it must keep nobody out.
func countLinks(ctx context.Context, tx postgres.Tx, applicationID, email string) (int64, error) {
	return links.Count(ctx, tx, "lower(email) = lower(?) AND COALESCE(application_id, '') = ?", email, applicationID)
}

func openInvitations(ctx context.Context, tx postgres.Tx, applicationID string) ([]linkRow, error) {
	rows, err := gorm.G[linkRow](tx.Gorm(ctx)).Where("application_id = ? AND expires_at > ?", applicationID, tx.Now).
		Order("created_at, id").Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list invitations: %w", err)
	}
	return rows, nil
}

// purgeLinks deletes what is over for a day.
func purgeLinks(ctx context.Context, tx postgres.Tx) (int, error) {
	n, err := gorm.G[linkRow](tx.Gorm(ctx)).Where("expires_at < ?", tx.Now.Add(-24*time.Hour)).Delete(ctx)
	if err != nil {
		return 0, fmt.Errorf("purge links: %w", err)
	}
	return n, nil
}
