package application

import (
	"context"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
)

type applicationRow struct {
	ID                  string
	Name                string
	RedirectURIs        string // separated by spaces, which none contains
	Scopes              string // separated by spaces
	SecretHash          []byte
	PreviousSecretHash  []byte
	PreviousSecretUntil *time.Time
	SuspendedAt         *time.Time
	ContactEmail        string
	RecordingEnabled    bool
	RatePerMinute       int
	ClientRatePerMinute int
	CreatedAt           time.Time
	UpdatedAt           time.Time
}

func fromRow(r applicationRow) Application {
	a := Application{
		ID: r.ID, Name: r.Name, RedirectURIs: strings.Fields(r.RedirectURIs), Suspended: r.SuspendedAt != nil, RecordingEnabled: r.RecordingEnabled,
		RatePerMinute: r.RatePerMinute, ClientRatePerMinute: r.ClientRatePerMinute, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
		ContactEmail: r.ContactEmail,
	}
	if r.PreviousSecretUntil != nil {
		until := r.PreviousSecretUntil.UTC()
		a.PreviousSecretUntil = &until
	}
	for _, s := range strings.Fields(r.Scopes) {
		a.Scopes = append(a.Scopes, Scope(s))
	}
	return a
}

func insertApplication(ctx context.Context, tx postgres.Tx, a Application, secret id.Digest) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, contact_email, recording_enabled,
			rate_per_minute, client_rate_per_minute, created_at, updated_at)
		VALUES (?, ?, string_to_array(?, ' '), string_to_array(?, ' '), ?, NULLIF(?, ''), ?, NULLIF(?, 0), NULLIF(?, 0), ?, ?)`,
		a.ID, a.Name, strings.Join(a.RedirectURIs, " "), FormatScopes(a.Scopes), secret, a.ContactEmail, a.RecordingEnabled,
		a.RatePerMinute, a.ClientRatePerMinute, a.CreatedAt, a.CreatedAt).Error
	if err != nil {
		return fmt.Errorf("insert application: %w", err)
	}
	return nil
}

const selectApplication = `SELECT id, name, array_to_string(redirect_uris, ' '), array_to_string(scopes, ' '), secret_hash,
	previous_secret_hash, previous_secret_until, suspended_at, coalesce(contact_email, ''), recording_enabled,
	coalesce(rate_per_minute, 0), coalesce(client_rate_per_minute, 0), created_at, updated_at FROM applications `

func (r *applicationRow) scan(row interface{ Scan(...any) error }) error {
	return row.Scan(&r.ID, &r.Name, &r.RedirectURIs, &r.Scopes, &r.SecretHash, &r.PreviousSecretHash, &r.PreviousSecretUntil,
		&r.SuspendedAt, &r.ContactEmail, &r.RecordingEnabled, &r.RatePerMinute, &r.ClientRatePerMinute, &r.CreatedAt, &r.UpdatedAt)
}

// applicationByID runs for every token request.
func applicationByID(ctx context.Context, tx postgres.Tx, applicationID string) (r applicationRow, found bool, err error) {
	err = r.scan(tx.SQL().QueryRowContext(ctx, selectApplication+`WHERE id = $1`, applicationID))
	if postgres.IsNotFound(err) {
		return applicationRow{}, false, nil
	}
	if err != nil {
		return applicationRow{}, false, fmt.Errorf("read application: %w", err)
	}
	return r, true, nil
}

func applications(ctx context.Context, tx postgres.Tx) ([]Application, error) {
	rows, err := tx.SQL().QueryContext(ctx, selectApplication+`ORDER BY created_at, id`)
	if err != nil {
		return nil, fmt.Errorf("read applications: %w", err)
	}
	defer rows.Close()
	var out []Application
	for rows.Next() {
		var r applicationRow
		if err := r.scan(rows); err != nil {
			return nil, fmt.Errorf("read applications: %w", err)
		}
		out = append(out, fromRow(r))
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read applications: %w", err)
	}
	return out, nil
}

// lockApplication makes changes of one application follow each other.
func lockApplication(ctx context.Context, tx postgres.Tx, applicationID string) error {
	if err := tx.Gorm(ctx).Exec(`SELECT FROM applications WHERE id = ? FOR NO KEY UPDATE`, applicationID).Error; err != nil {
		return fmt.Errorf("lock application: %w", err)
	}
	return nil
}

func updateApplication(ctx context.Context, tx postgres.Tx, applicationID string, n NewApplication) error {
	err := tx.Gorm(ctx).Exec(`UPDATE applications SET name = ?, redirect_uris = string_to_array(?, ' '), scopes = string_to_array(?, ' '),
			contact_email = NULLIF(?, ''), recording_enabled = ?, rate_per_minute = NULLIF(?, 0), client_rate_per_minute = NULLIF(?, 0), updated_at = ?
		WHERE id = ?`, n.Name, strings.Join(n.RedirectURIs, " "), FormatScopes(n.Scopes), n.ContactEmail, n.RecordingEnabled,
		n.RatePerMinute, n.ClientRatePerMinute, tx.Now, applicationID).Error
	if err != nil {
		return fmt.Errorf("update application: %w", err)
	}
	return nil
}

func updateSecret(ctx context.Context, tx postgres.Tx, applicationID string, secret id.Digest, previousUntil time.Time) (found bool, err error) {
	r := tx.Gorm(ctx).Exec(`UPDATE applications SET previous_secret_hash = secret_hash, previous_secret_until = ?,
			secret_hash = ?, updated_at = ? WHERE id = ?`, previousUntil, secret, tx.Now, applicationID)
	if r.Error != nil {
		return false, fmt.Errorf("update secret of application: %w", r.Error)
	}
	return r.RowsAffected == 1, nil
}

func updateSuspended(ctx context.Context, tx postgres.Tx, applicationID string, suspended bool) (found bool, err error) {
	var at *time.Time
	if suspended {
		at = &tx.Now
	}
	r := tx.Gorm(ctx).Exec(`UPDATE applications SET suspended_at = ?, updated_at = ? WHERE id = ?`, at, tx.Now, applicationID)
	if r.Error != nil {
		return false, fmt.Errorf("update application: %w", r.Error)
	}
	return r.RowsAffected == 1, nil
}
