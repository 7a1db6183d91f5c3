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

// memberOf returns a membership, locked if asked to. found is false if there is none.
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

// Locks all members in the order of [membersOf], which the actions call next.
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

// insertMember adds a person. A person who is already a member keeps their role, and added is false.
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

// linkRow is a row of portal_links: a link sent by email, for a sign-up or an invitation.
type linkRow struct {
	ID            string    `gorm:"column:id;primaryKey"`
	TokenHash     id.Digest `gorm:"column:token_hash"`
	ApplicationID string    `gorm:"column:application_id;serializer:zeronull"` // empty: a sign-up
	Role          Role      `gorm:"column:role;serializer:zeronull"`
	Email         string    `gorm:"column:email"`
	Language      string    `gorm:"column:language"`
	SentBy        string    `gorm:"column:sent_by;serializer:zeronull"` // as the audit log names them; empty: a sign-up
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

// findLink returns a usable link, or [ErrBadLink]. With a lock, only one of several concurrent users gets the link.
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

// countLinks counts the links mailed to an address within the last hour for one application, or for sign-ups. The count
// is separate per application, so that emails of others never block an invitation.
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

// purgeLinks deletes links that expired more than a day ago.
func purgeLinks(ctx context.Context, tx postgres.Tx) (int, error) {
	n, err := gorm.G[linkRow](tx.Gorm(ctx)).Where("expires_at < ?", tx.Now.Add(-24*time.Hour)).Delete(ctx)
	if err != nil {
		return 0, fmt.Errorf("purge links: %w", err)
	}
	return n, nil
}
