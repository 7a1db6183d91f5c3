package staff

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/signin"
)

// sessionRow is a row of staff_sessions.
type sessionRow struct {
	TokenHash id.Digest `gorm:"column:token_hash;primaryKey"`
	StaffID   string    `gorm:"column:staff_id"`
	// false: the password was entered, the second factor is missing
	Complete  bool   `gorm:"column:complete"`
	PasskeyID string `gorm:"column:passkey_id;serializer:zeronull"` // the passkey that opened it
	// of the duty that the lawyer began in it; 0 for none
	LeaseEpoch int64 `gorm:"column:lease_epoch"`
	// as sent by the browser, like Address; may be empty
	UserAgent  string    `gorm:"column:user_agent"`
	Address    string    `gorm:"column:address"`
	CreatedAt  time.Time `gorm:"column:created_at;autoCreateTime:false"`
	LastUsedAt time.Time `gorm:"column:last_used_at"` // to the minute
	ExpiresAt  time.Time `gorm:"column:expires_at"`
}

// TableName implements [schema.Tabler].
func (sessionRow) TableName() string { return "staff_sessions" }

var sessions = signin.Sessions[sessionRow]{Person: "staff_id"}

// signedInRow is a session with its person.
type signedInRow struct {
	Row        staffRow `gorm:"embedded"`
	LeaseEpoch int64
	SignedInAt time.Time
}

// sessionLasts selects the sessions s of people p that have not ended.
const sessionLasts = "s.expires_at > ? AND p.disabled_at IS NULL AND (p.kind = 'LAWYER' OR s.last_used_at > ?)"

const lasts = ` JOIN staff_sessions s ON s.staff_id = p.id WHERE s.token_hash = $1 AND s.complete AND s.expires_at > $2 AND p.disabled_at IS NULL`

// Sessions end by deletion, so KEY SHARE blocks that but still allows storing a lease.
var (
	lastsSQL = postgres.SQL(postgres.Atomic, `SELECT 1 FROM staff p`+lasts+` FOR KEY SHARE OF s`)
	// Locks the person before the session, in the same order as disabling a person.
	inSessionSQL = postgres.SQL(postgres.Atomic,
		`SELECT 1 FROM staff p`+lasts+` FOR NO KEY UPDATE OF p FOR KEY SHARE OF s`)
	employedSQL = postgres.SQL(postgres.Atomic, `SELECT 1 FROM lawyers l JOIN staff p ON p.lawyer_id = l.id`+lasts+`
		AND l.suspended_at IS NULL FOR SHARE OF l FOR KEY SHARE OF s`)
)

func sessionOf(ctx context.Context, tx postgres.Tx, token id.Digest, complete bool) (signedInRow, error) {
	var r signedInRow
	err := tx.Gorm(ctx).Table("staff_sessions s").Joins("JOIN staff p ON p.id = s.staff_id").
		Select(postgres.Columns[staffRow]("p")+", s.lease_epoch, s.created_at AS signed_in_at").
		Where("s.token_hash = ? AND s.complete = ?", token, complete).
		Where(sessionLasts, tx.Now, tx.Now.Add(-IdleLifetime)).Take(&r).Error
	if postgres.IsNotFound(err) {
		return signedInRow{}, ErrNoSession
	}
	if err != nil {
		return signedInRow{}, fmt.Errorf("read session: %w", err)
	}
	return r, nil
}

func updateLease(ctx context.Context, tx postgres.Tx, token id.Digest, epoch int64) error {
	n, err := gorm.G[sessionRow](tx.Gorm(ctx)).Where("token_hash = ? AND complete", token).
		Update(ctx, "lease_epoch", epoch)
	if err != nil {
		return fmt.Errorf("keep lease: %w", err)
	}
	if n == 0 {
		return ErrNoSession
	}
	return nil
}

func insertSession(ctx context.Context, tx postgres.Tx, r sessionRow) error {
	r.CreatedAt, r.LastUsedAt = tx.Now, tx.Now
	if err := gorm.G[sessionRow](tx.Gorm(ctx)).Create(ctx, &r); err != nil {
		return fmt.Errorf("insert session: %w", err)
	}
	return nil
}

func listSessions(ctx context.Context, tx postgres.Tx, staffID string) (list []sessionRow, err error) {
	err = tx.Gorm(ctx).Table("staff_sessions s").Joins("JOIN staff p ON p.id = s.staff_id").
		Select(postgres.Columns[sessionRow]("s")).
		Where("s.staff_id = ? AND s.complete", staffID).Where(sessionLasts, tx.Now, tx.Now.Add(-IdleLifetime)).
		Order("s.last_used_at DESC, s.created_at DESC").Limit(100).Find(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return list, nil
}
