package account

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
)

const maxUserAgent = 300 // bytes

type sessionRow struct {
	TokenHash  id.Digest
	UserAgent  string
	Address    string
	CreatedAt  time.Time
	LastUsedAt time.Time
}

// insertSession also clears away sessions of the client that have run out. It waits for whoever disables the client, and
// then inserts nothing.
func insertSession(ctx context.Context, tx postgres.Tx, token id.Digest, clientID string, d Device) error {
	r := tx.Gorm(ctx).Exec(`WITH client AS (SELECT id FROM clients WHERE id = ? AND disabled_at IS NULL FOR SHARE),
			gone AS (DELETE FROM browser_sessions WHERE client_id = ? AND expires_at <= ?)
		INSERT INTO browser_sessions (token_hash, client_id, created_at, expires_at, user_agent, address, last_used_at, passkey_id)
			SELECT ?, id, ?, ?, ?, ?, ?, nullif(?, '') FROM client`,
		clientID, clientID, tx.Now, token, tx.Now, tx.Now.Add(SessionLifetime), Printable(d.UserAgent), Printable(d.Address), tx.Now, d.PasskeyID)
	if postgres.IsForeignKey(r.Error, "browser_sessions_passkey_id_fkey") {
		return ErrBadCredentials
	}
	if r.Error != nil {
		return fmt.Errorf("insert browser session: %w", r.Error)
	}
	if r.RowsAffected == 0 {
		return ErrBadCredentials
	}
	return nil
}

// Printable keeps visible ASCII: what a browser says of itself is no more trustworthy than any other input.
func Printable(s string) string {
	b := make([]byte, 0, min(len(s), maxUserAgent))
	for i := 0; i < len(s) && len(b) < maxUserAgent; i++ {
		if s[i] >= ' ' && s[i] <= '~' {
			b = append(b, s[i])
		}
	}
	return string(b)
}

// touchSession notes that a session is used, at most once a minute.
func touchSession(ctx context.Context, tx postgres.Tx, token id.Digest) error {
	err := tx.Gorm(ctx).Exec(`UPDATE browser_sessions SET last_used_at = ? WHERE token_hash = ? AND (last_used_at IS NULL OR last_used_at < ?)`,
		tx.Now, token, tx.Now.Add(-time.Minute)).Error
	if err != nil {
		return fmt.Errorf("touch browser session: %w", err)
	}
	return nil
}

func sessionStart(ctx context.Context, tx postgres.Tx, token id.Digest) (at time.Time, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT created_at FROM browser_sessions WHERE token_hash = ? AND expires_at > ?`, token, tx.Now).Row().Scan(&at)
	if postgres.IsNotFound(err) {
		return time.Time{}, ErrNoSession
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read browser session: %w", err)
	}
	return at.UTC(), nil
}

func listSessions(ctx context.Context, tx postgres.Tx, clientID string) ([]sessionRow, error) {
	var rows []sessionRow
	err := tx.Gorm(ctx).Raw(`SELECT token_hash, user_agent, address, created_at, coalesce(last_used_at, created_at) AS last_used_at FROM browser_sessions
		WHERE client_id = ? AND expires_at > ? ORDER BY last_used_at DESC, created_at DESC LIMIT 100`, clientID, tx.Now).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("list browser sessions: %w", err)
	}
	return rows, nil
}

func deleteSessionOf(ctx context.Context, tx postgres.Tx, clientID string, session id.Digest) error {
	if err := tx.Gorm(ctx).Exec(`DELETE FROM browser_sessions WHERE token_hash = ? AND client_id = ?`, session, clientID).Error; err != nil {
		return fmt.Errorf("delete browser session: %w", err)
	}
	return nil
}

func deleteOtherSessions(ctx context.Context, tx postgres.Tx, clientID string, except id.Digest) (int, error) {
	r := tx.Gorm(ctx).Exec(`DELETE FROM browser_sessions WHERE client_id = ? AND token_hash <> ?`, clientID, except)
	if r.Error != nil {
		return 0, fmt.Errorf("delete browser sessions: %w", r.Error)
	}
	return int(r.RowsAffected), nil
}
