package oauth

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

// consentRow is a row of oauth_consents.
type consentRow struct {
	ClientID      string            `gorm:"column:client_id;primaryKey"`
	ApplicationID string            `gorm:"column:application_id;primaryKey"`
	Scope         application.Scope `gorm:"column:scope;primaryKey"`
	GrantedAt     time.Time         `gorm:"column:granted_at"` // the first time since it was last refused
}

// TableName implements [schema.Tabler].
func (consentRow) TableName() string { return "oauth_consents" }

// consents returns each scope with consent since its last refusal that is carried by a living grant with the redirect
// URI. Ending a grant therefore needs no cleanup: a scope that no living grant carries counts as not consented to.
func consents(ctx context.Context, tx postgres.Tx,
	clientID, applicationID, redirectURI string,
) ([]application.Scope, error) {
	carrying := aliveGrants(ctx, tx).Select("g.id").
		Where("g.client_id = ? AND g.application_id = ? AND k.scope = ANY (g.scopes) AND g.created_at >= k.granted_at",
			clientID, applicationID).
		Where("g.redirect_uri = ?", redirectURI)
	var scopes []application.Scope
	err := tx.Gorm(ctx).Table("oauth_consents k").
		Where("k.client_id = ? AND k.application_id = ? AND EXISTS (?)", clientID, applicationID, carrying).
		Pluck("k.scope", &scopes).Error
	if err != nil {
		return nil, fmt.Errorf("read consents: %w", err)
	}
	return application.Ordered(scopes), nil
}

// insertConsents leaves the time of an existing consent unchanged, so that later grants keep carrying it.
func insertConsents(ctx context.Context, tx postgres.Tx, clientID, applicationID string,
	scopes []application.Scope,
) error {
	if len(scopes) == 0 {
		return nil
	}
	rows := make([]consentRow, len(scopes))
	for i, s := range scopes {
		rows[i] = consentRow{ClientID: clientID, ApplicationID: applicationID, Scope: s, GrantedAt: tx.Now}
	}
	if err := tx.Gorm(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&rows).Error; err != nil {
		return fmt.Errorf("insert consents: %w", err)
	}
	return nil
}

func deleteConsents(ctx context.Context, tx postgres.Tx, clientID, applicationID string,
	scopes []application.Scope,
) error {
	if len(scopes) == 0 {
		return nil
	}
	_, err := gorm.G[consentRow](tx.Gorm(ctx)).Where("client_id = ? AND application_id = ? AND scope IN ?", clientID,
		applicationID, scopes).Delete(ctx)
	if err != nil {
		return fmt.Errorf("delete consents: %w", err)
	}
	return nil
}

// anyApplication stands for all applications of a client.
const anyApplication = ""

func forgetConsents(ctx context.Context, tx postgres.Tx, clientID, applicationID string) error {
	if _, err := gorm.G[consentRow](tx.Gorm(ctx)).Where("client_id = ? AND ? IN ('', application_id)", clientID,
		applicationID).Delete(ctx); err != nil {
		return fmt.Errorf("forget consents: %w", err)
	}
	return nil
}
