package oauth

import (
	"context"
	"fmt"

	"partnerd/internal/application"
	"partnerd/internal/postgres"
)

// consents finds each scope that a living grant carries to which the client consented since the scope was last refused.
// So nothing has to be forgotten when a link ends: what no living grant carries was not consented to.
func consents(ctx context.Context, tx postgres.Tx, clientID, applicationID string) ([]application.Scope, error) {
	var scopes []application.Scope
	err := tx.Gorm(ctx).Raw(`SELECT k.scope FROM oauth_consents k WHERE k.client_id = @client AND k.application_id = @application
		AND EXISTS (SELECT FROM oauth_grants g WHERE g.client_id = @client AND g.application_id = @application
			AND k.scope = ANY (g.scopes) AND g.created_at >= k.granted_at AND `+aliveSQL+`)`,
		aliveAt(tx.Now), map[string]any{"client": clientID, "application": applicationID}).Scan(&scopes).Error
	if err != nil {
		return nil, fmt.Errorf("read consents: %w", err)
	}
	return application.Ordered(scopes), nil
}

// insertConsents leaves a consent that stands as old as it is, so that the links made since go on carrying it.
func insertConsents(ctx context.Context, tx postgres.Tx, clientID, applicationID string, scopes []application.Scope) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO oauth_consents (client_id, application_id, scope, granted_at)
		SELECT ?, ?, unnest(string_to_array(?, ' ')), ? ON CONFLICT (client_id, application_id, scope) DO NOTHING`,
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

// anyApplication stands for all applications of a client.
const anyApplication = ""

func forgetConsents(ctx context.Context, tx postgres.Tx, clientID, applicationID string) error {
	err := tx.Gorm(ctx).Exec(`DELETE FROM oauth_consents WHERE client_id = ? AND ? IN ('', application_id)`, clientID, applicationID).Error
	if err != nil {
		return fmt.Errorf("forget consents: %w", err)
	}
	return nil
}
