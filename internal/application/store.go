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
	RecordingEnabled    bool
	RatePerMinute       int
	ClientRatePerMinute int
	CreatedAt           time.Time
}

func fromRow(r applicationRow) Application {
	a := Application{
		ID: r.ID, Name: r.Name, RedirectURIs: strings.Fields(r.RedirectURIs), Suspended: r.SuspendedAt != nil, RecordingEnabled: r.RecordingEnabled,
		RatePerMinute: r.RatePerMinute, ClientRatePerMinute: r.ClientRatePerMinute, CreatedAt: r.CreatedAt.UTC(),
	}
	for _, s := range strings.Fields(r.Scopes) {
		a.Scopes = append(a.Scopes, Scope(s))
	}
	return a
}

func insertApplication(ctx context.Context, tx postgres.Tx, a Application, secret id.Digest) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, recording_enabled,
			rate_per_minute, client_rate_per_minute, created_at, updated_at)
		VALUES (?, ?, string_to_array(?, ' '), string_to_array(?, ' '), ?, ?, NULLIF(?, 0), NULLIF(?, 0), ?, ?)`,
		a.ID, a.Name, strings.Join(a.RedirectURIs, " "), FormatScopes(a.Scopes), secret, a.RecordingEnabled,
		a.RatePerMinute, a.ClientRatePerMinute, a.CreatedAt, a.CreatedAt).Error
	if err != nil {
		return fmt.Errorf("insert application: %w", err)
	}
	return nil
}

func applicationByID(ctx context.Context, tx postgres.Tx, applicationID string) (r applicationRow, found bool, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT id, name, array_to_string(redirect_uris, ' '), array_to_string(scopes, ' '), secret_hash,
			previous_secret_hash, previous_secret_until, suspended_at, recording_enabled,
			coalesce(rate_per_minute, 0), coalesce(client_rate_per_minute, 0), created_at
		FROM applications WHERE id = ?`, applicationID).Row().Scan(
		&r.ID, &r.Name, &r.RedirectURIs, &r.Scopes, &r.SecretHash, &r.PreviousSecretHash, &r.PreviousSecretUntil,
		&r.SuspendedAt, &r.RecordingEnabled, &r.RatePerMinute, &r.ClientRatePerMinute, &r.CreatedAt)
	if postgres.IsNotFound(err) {
		return applicationRow{}, false, nil
	}
	if err != nil {
		return applicationRow{}, false, fmt.Errorf("read application: %w", err)
	}
	return r, true, nil
}

func updateSecret(ctx context.Context, tx postgres.Tx, applicationID string, secret id.Digest) (found bool, err error) {
	r := tx.Gorm(ctx).Exec(`UPDATE applications SET previous_secret_hash = secret_hash, previous_secret_until = ?,
			secret_hash = ?, updated_at = ? WHERE id = ?`, tx.Now.Add(SecretOverlap), secret, tx.Now, applicationID)
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
