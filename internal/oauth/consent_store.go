package oauth

import (
	"context"
	"fmt"

	"partnerd/internal/application"
	"partnerd/internal/postgres"
)

func consents(ctx context.Context, tx postgres.Tx, clientID, applicationID string) ([]application.Scope, error) {
	var scopes []application.Scope
	err := tx.Gorm(ctx).Raw(`SELECT scope FROM oauth_consents WHERE client_id = @client AND application_id = @application
		AND EXISTS (SELECT FROM oauth_grants g WHERE g.client_id = @client AND g.application_id = @application AND `+aliveSQL+`)`,
		aliveAt(tx.Now), map[string]any{"client": clientID, "application": applicationID}).Scan(&scopes).Error
	if err != nil {
		return nil, fmt.Errorf("read consents: %w", err)
	}
	return application.Ordered(scopes), nil
}

func insertConsents(ctx context.Context, tx postgres.Tx, clientID, applicationID string, scopes []application.Scope) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO oauth_consents (client_id, application_id, scope, granted_at)
		SELECT ?, ?, unnest(string_to_array(?, ' ')), ? ON CONFLICT (client_id, application_id, scope) DO UPDATE SET granted_at = excluded.granted_at`,
		clientID, applicationID, application.FormatScopes(scopes), tx.Now).Error
	if err != nil {
		return fmt.Errorf("insert consents: %w", err)
	}
	return nil
}

func deleteConsents(ctx context.Context, tx postgres.Tx, clientID, applicationID string, scopes []application.Scope) error {
	if len(scopes) == 0 {
		return nil
	}
	err := tx.Gorm(ctx).Exec(`DELETE FROM oauth_consents WHERE client_id = ? AND application_id = ? AND scope IN ?`, clientID, applicationID, scopes).Error
	if err != nil {
		return fmt.Errorf("delete consents: %w", err)
	}
	return nil
}

func forgetConsents(ctx context.Context, tx postgres.Tx, clientID, applicationID string) error {
	err := tx.Gorm(ctx).Exec(`DELETE FROM oauth_consents WHERE client_id = ? AND application_id = ?`, clientID, applicationID).Error
	if err != nil {
		return fmt.Errorf("forget consents: %w", err)
	}
	return nil
}

func deleteAllConsents(ctx context.Context, tx postgres.Tx, clientID string) error {
	if err := tx.Gorm(ctx).Exec(`DELETE FROM oauth_consents WHERE client_id = ?`, clientID).Error; err != nil {
		return fmt.Errorf("forget consents: %w", err)
	}
	return nil
}

func revokeAllOf(ctx context.Context, tx postgres.Tx, clientID, reason string) error {
	err := tx.Gorm(ctx).Exec(`UPDATE oauth_grants SET revoked_at = ?, revoked_reason = ? WHERE client_id = ? AND revoked_at IS NULL`,
		tx.Now, reason, clientID).Error
	if err != nil {
		return fmt.Errorf("revoke grants: %w", err)
	}
	return nil
}
