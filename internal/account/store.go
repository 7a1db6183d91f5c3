package account

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
	"partnerd/internal/problem"
	"partnerd/internal/vault"
)

type clientRow struct {
	ID              string
	Email           string
	Name            string
	PasswordHash    string
	PhoneSealed     []byte
	PhoneVerifiedAt *time.Time
	DisabledAt      *time.Time
	CreatedAt       time.Time
	KeySealed       []byte
}

func fromRow(r clientRow) Client {
	return Client{ID: r.ID, Email: r.Email, Name: r.Name, PhoneVerified: r.PhoneVerifiedAt != nil, Disabled: r.DisabledAt != nil, CreatedAt: r.CreatedAt}
}

var clientColumns = `c.id, c.email, c.name, c.password_hash, c.phone_sealed, c.phone_verified_at, c.disabled_at, c.created_at, ` + vault.Stored("c.id")

func insertClient(ctx context.Context, tx postgres.Tx, r clientRow) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO clients (id, email, name, password_hash, phone_sealed, phone_verified_at, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		r.ID, r.Email, r.Name, r.PasswordHash, r.PhoneSealed, r.PhoneVerifiedAt, r.CreatedAt, r.CreatedAt).Error
	if err != nil {
		return fmt.Errorf("insert client: %w", err)
	}
	return nil
}

func clientByID(ctx context.Context, tx postgres.Tx, clientID string) (clientRow, bool, error) {
	return oneClient(ctx, tx, `SELECT `+clientColumns+` FROM clients c WHERE c.id = ?`, clientID)
}

// clientForUpdate locks the row against every change, and not against rows that refer to it.
func clientForUpdate(ctx context.Context, tx postgres.Tx, clientID string) (clientRow, bool, error) {
	return oneClient(ctx, tx, `SELECT `+clientColumns+` FROM clients c WHERE c.id = ? FOR NO KEY UPDATE`, clientID)
}

func clientByEmail(ctx context.Context, tx postgres.Tx, email string) (clientRow, bool, error) {
	return oneClient(ctx, tx, `SELECT `+clientColumns+` FROM clients c WHERE lower(c.email) = lower(?)`, email)
}

func clientByEmailForUpdate(ctx context.Context, tx postgres.Tx, email string) (clientRow, bool, error) {
	return oneClient(ctx, tx, `SELECT `+clientColumns+` FROM clients c WHERE lower(c.email) = lower(?) FOR NO KEY UPDATE`, email)
}

func clientBySession(ctx context.Context, tx postgres.Tx, token id.Digest) (clientRow, bool, error) {
	return oneClient(ctx, tx, `SELECT `+clientColumns+` FROM browser_sessions b JOIN clients c ON c.id = b.client_id
		WHERE b.token_hash = ? AND b.expires_at > ? AND c.disabled_at IS NULL`, token, tx.Now)
}

func oneClient(ctx context.Context, tx postgres.Tx, query string, args ...any) (r clientRow, found bool, err error) {
	err = tx.Gorm(ctx).Raw(query, args...).Row().Scan(&r.ID, &r.Email, &r.Name, &r.PasswordHash, &r.PhoneSealed, &r.PhoneVerifiedAt, &r.DisabledAt, &r.CreatedAt, &r.KeySealed)
	if postgres.IsNotFound(err) {
		return clientRow{}, false, nil
	}
	if err != nil {
		return clientRow{}, false, fmt.Errorf("read client: %w", err)
	}
	r.CreatedAt = r.CreatedAt.UTC()
	return r, true, nil
}

func updatePhone(ctx context.Context, tx postgres.Tx, r clientRow) error {
	err := tx.Gorm(ctx).Exec(`UPDATE clients SET phone_sealed = ?, phone_verified_at = ?, updated_at = ? WHERE id = ?`,
		r.PhoneSealed, r.PhoneVerifiedAt, tx.Now, r.ID).Error
	if err != nil {
		return fmt.Errorf("update phone of client: %w", err)
	}
	return nil
}

func timeZone(ctx context.Context, tx postgres.Tx, clientID string) (name string, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT time_zone FROM clients WHERE id = ?`, clientID).Row().Scan(&name)
	if postgres.IsNotFound(err) {
		return "", problem.ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("read time zone of client: %w", err)
	}
	return name, nil
}

func timeZones(ctx context.Context, tx postgres.Tx, clientIDs []string) (map[string]string, error) {
	if len(clientIDs) == 0 {
		return nil, nil
	}
	var rows []struct{ ID, TimeZone string }
	if err := tx.Gorm(ctx).Raw(`SELECT id, time_zone FROM clients WHERE id IN ?`, clientIDs).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("read time zones of clients: %w", err)
	}
	names := map[string]string{}
	for _, r := range rows {
		names[r.ID] = r.TimeZone
	}
	return names, nil
}

func updateTimeZone(ctx context.Context, tx postgres.Tx, clientID, name string) error {
	r := tx.Gorm(ctx).Exec(`UPDATE clients SET time_zone = ?, updated_at = ? WHERE id = ?`, name, tx.Now, clientID)
	if r.Error != nil {
		return fmt.Errorf("update time zone of client: %w", r.Error)
	}
	if r.RowsAffected == 0 {
		return problem.ErrNotFound
	}
	return nil
}

func updateDisabled(ctx context.Context, tx postgres.Tx, clientID string, disabled bool) (found bool, err error) {
	var at *time.Time
	if disabled {
		at = &tx.Now
	}
	r := tx.Gorm(ctx).Exec(`UPDATE clients SET disabled_at = ?, updated_at = ? WHERE id = ? AND erased_at IS NULL`, at, tx.Now, clientID)
	if r.Error != nil {
		return false, fmt.Errorf("update client: %w", r.Error)
	}
	return r.RowsAffected == 1, nil
}

func deleteSession(ctx context.Context, tx postgres.Tx, token id.Digest) error {
	if err := tx.Gorm(ctx).Exec(`DELETE FROM browser_sessions WHERE token_hash = ?`, token).Error; err != nil {
		return fmt.Errorf("delete browser session: %w", err)
	}
	return nil
}
