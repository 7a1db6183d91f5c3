package account

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/base/id"
	"partnerd/internal/base/text"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/signin"
)

// sessionRow is a row of browser_sessions.
type sessionRow struct {
	TokenHash  id.Digest  `gorm:"column:token_hash;primaryKey"`
	ClientID   string     `gorm:"column:client_id"`
	UserAgent  string     `gorm:"column:user_agent"` // as sent by the browser; may be empty
	Address    string     `gorm:"column:address"`
	PasskeyID  string     `gorm:"column:passkey_id;serializer:zeronull"` // passkey that opened the session
	CreatedAt  time.Time  `gorm:"column:created_at;autoCreateTime:false"`
	LastUsedAt *time.Time `gorm:"column:last_used_at"` // to the minute
	ExpiresAt  time.Time  `gorm:"column:expires_at"`
}

// TableName implements [schema.Tabler].
func (sessionRow) TableName() string { return "browser_sessions" }

var sessions = signin.Sessions[sessionRow]{Person: "client_id"}

// insertSessionSQL also deletes expired sessions of the client. It waits for a transaction that disables the client,
// and then inserts nothing.
var insertSessionSQL = postgres.SQL(postgres.Atomic,
	`WITH client AS (SELECT id FROM clients WHERE id = $1 AND disabled_at IS NULL FOR SHARE),
		gone AS (DELETE FROM browser_sessions WHERE client_id = $1 AND expires_at <= $2)
	INSERT INTO browser_sessions (token_hash, client_id, created_at, expires_at, user_agent, address, last_used_at, passkey_id)
		SELECT $3, id, $2, $4, $5, $6, $2, nullif($7, '') FROM client`)

// signedInSQL locks the client before the session, as closing an account does. The lock is as strong as that of the
// client's own actions.
var signedInSQL = postgres.SQL(postgres.Atomic, `SELECT 1 FROM clients c JOIN browser_sessions s ON s.client_id = c.id
	WHERE s.token_hash = $1 AND s.expires_at > $2 AND c.disabled_at IS NULL FOR NO KEY UPDATE OF c FOR KEY SHARE OF s`)

func insertSession(ctx context.Context, tx postgres.Tx, token id.Digest, clientID string, d Device) error {
	n, err := tx.Exec(ctx, insertSessionSQL, clientID, tx.Now, token, tx.Now.Add(SessionLifetime),
		text.Printable(d.UserAgent), text.Printable(d.Address), d.PasskeyID)
	if postgres.IsForeignKey(err, "browser_sessions_passkey_id_fkey") {
		return ErrBadCredentials
	}
	if err != nil {
		return fmt.Errorf("insert browser session: %w", err)
	}
	if n == 0 {
		return ErrBadCredentials
	}
	return nil
}

func sessionStart(ctx context.Context, tx postgres.Tx, token id.Digest) (time.Time, error) {
	r, err := gorm.G[sessionRow](tx.Gorm(ctx)).Select("created_at").
		Where("token_hash = ? AND expires_at > ?", token, tx.Now).Take(ctx)
	if postgres.IsNotFound(err) {
		return time.Time{}, ErrNoSession
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read browser session: %w", err)
	}
	return r.CreatedAt, nil
}

func listSessions(ctx context.Context, tx postgres.Tx, clientID string) ([]sessionRow, error) {
	rows, err := gorm.G[sessionRow](tx.Gorm(ctx)).Where("client_id = ? AND expires_at > ?", clientID, tx.Now).
		Order("coalesce(last_used_at, created_at) DESC, created_at DESC").Limit(100).Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list browser sessions: %w", err)
	}
	return rows, nil
}
