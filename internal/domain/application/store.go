package application

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
)

// applicationRow is a row of applications.
type applicationRow struct {
	ID                  string                 `gorm:"column:id;primaryKey"`
	Name                string                 `gorm:"column:name"`
	RedirectURIs        postgres.Array[string] `gorm:"column:redirect_uris"`
	Scopes              postgres.Array[Scope]  `gorm:"column:scopes"`
	SecretHash          []byte                 `gorm:"column:secret_hash"`          // SHA-256, like PreviousSecretHash
	PreviousSecretHash  []byte                 `gorm:"column:previous_secret_hash"` // valid until PreviousSecretUntil
	PreviousSecretUntil *time.Time             `gorm:"column:previous_secret_until"`
	SuspendedAt         *time.Time             `gorm:"column:suspended_at"`
	ContactEmail        string                 `gorm:"column:contact_email;serializer:zeronull"`
	RecordingEnabled    bool                   `gorm:"column:recording_enabled"`
	RatePerMinute       int                    `gorm:"column:rate_per_minute;serializer:zeronull"`
	ClientRatePerMinute int                    `gorm:"column:client_rate_per_minute;serializer:zeronull"`
	CreatedAt           time.Time              `gorm:"column:created_at;autoCreateTime:false"`
	UpdatedAt           time.Time              `gorm:"column:updated_at;autoUpdateTime:false"`
}

// TableName implements [schema.Tabler].
func (applicationRow) TableName() string { return "applications" }

func fromRow(r applicationRow) Application {
	return Application{
		ID: r.ID, Name: r.Name, RedirectURIs: r.RedirectURIs, Scopes: r.Scopes, ContactEmail: r.ContactEmail,
		Suspended: r.SuspendedAt != nil, RecordingEnabled: r.RecordingEnabled, RatePerMinute: r.RatePerMinute,
		ClientRatePerMinute: r.ClientRatePerMinute, PreviousSecretUntil: r.PreviousSecretUntil, CreatedAt: r.CreatedAt,
		UpdatedAt: r.UpdatedAt,
	}
}

func insertApplication(ctx context.Context, tx postgres.Tx, a Application, secret id.Digest) error {
	err := gorm.G[applicationRow](tx.Gorm(ctx)).Create(ctx, &applicationRow{
		ID: a.ID, Name: a.Name, RedirectURIs: a.RedirectURIs, Scopes: a.Scopes, SecretHash: secret[:],
		ContactEmail: a.ContactEmail, RecordingEnabled: a.RecordingEnabled, RatePerMinute: a.RatePerMinute,
		ClientRatePerMinute: a.ClientRatePerMinute, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
	})
	if err != nil {
		return fmt.Errorf("insert application: %w", err)
	}
	return nil
}

// byID runs for every token request.
const byID = `SELECT id, name, redirect_uris, scopes, secret_hash, previous_secret_hash, previous_secret_until, suspended_at,
	coalesce(contact_email, ''), recording_enabled, coalesce(rate_per_minute, 0), coalesce(client_rate_per_minute, 0), created_at, updated_at
	FROM applications WHERE id = $1`

var (
	byIDSQL = postgres.SQL(postgres.Hot, byID)
	heldSQL = postgres.SQL(postgres.Atomic, byID+` FOR SHARE`)
)

// holdsSQL takes the same lock as a change of the application, so a request that changes its own application does not
// wait for itself.
var holdsSQL = postgres.SQL(postgres.Atomic, `SELECT 1 FROM applications WHERE id = $1 AND suspended_at IS NULL
	AND (secret_hash = $2 OR previous_secret_hash = $2 AND previous_secret_until > $3) FOR NO KEY UPDATE`)

func oneApplication(ctx context.Context, tx postgres.Tx, q postgres.Statement,
	applicationID string,
) (r applicationRow, found bool, err error) {
	err = tx.QueryRow(ctx, q, applicationID).Scan(&r.ID, &r.Name, &r.RedirectURIs, &r.Scopes, &r.SecretHash,
		&r.PreviousSecretHash, &r.PreviousSecretUntil, &r.SuspendedAt, &r.ContactEmail, &r.RecordingEnabled,
		&r.RatePerMinute, &r.ClientRatePerMinute, &r.CreatedAt, &r.UpdatedAt)
	if postgres.IsNotFound(err) {
		return applicationRow{}, false, nil
	}
	if err != nil {
		return applicationRow{}, false, fmt.Errorf("read application: %w", err)
	}
	return r, true, nil
}

func applications(ctx context.Context, tx postgres.Tx) ([]Application, error) {
	rows, err := gorm.G[applicationRow](tx.Gorm(ctx)).Order("created_at, id").Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("read applications: %w", err)
	}
	var list []Application
	for _, r := range rows {
		list = append(list, fromRow(r))
	}
	return list, nil
}

// lockApplication serialises changes of an application. An unknown application is not an error.
func lockApplication(ctx context.Context, tx postgres.Tx, applicationID string) error {
	if _, err := gorm.G[applicationRow](tx.Gorm(ctx), postgres.ForNoKeyUpdate).Select("id").
		Where("id = ?", applicationID).Find(ctx); err != nil {
		return fmt.Errorf("lock application: %w", err)
	}
	return nil
}

func updateApplication(ctx context.Context, tx postgres.Tx, applicationID string, n NewApplication) error {
	_, err := gorm.G[applicationRow](tx.Gorm(ctx)).Where("id = ?", applicationID).
		Select("name", "redirect_uris", "scopes", "contact_email", "recording_enabled", "rate_per_minute",
			"client_rate_per_minute", "updated_at").
		Updates(ctx, applicationRow{
			Name: n.Name, RedirectURIs: n.RedirectURIs, Scopes: n.Scopes, ContactEmail: n.ContactEmail,
			RecordingEnabled: n.RecordingEnabled, RatePerMinute: n.RatePerMinute,
			ClientRatePerMinute: n.ClientRatePerMinute, UpdatedAt: tx.Now,
		})
	if err != nil {
		return fmt.Errorf("update application: %w", err)
	}
	return nil
}

// updateSecret replaces the secret. It does nothing if the previous secret still works, unless r ends or keeps it. If r
// keeps a previous secret that no longer works, it does nothing either.
func updateSecret(ctx context.Context, tx postgres.Tx, applicationID string, secret id.Digest,
	r Rotation,
) (done bool, err error) {
	q := gorm.G[applicationRow](tx.Gorm(ctx)).Where("id = ?", applicationID)
	change := map[string]any{"secret_hash": secret, "updated_at": tx.Now}
	if r.KeepPrevious {
		q = q.Where("previous_secret_until > ?", tx.Now)
	} else {
		change["previous_secret_hash"], change["previous_secret_until"] = gorm.Expr("secret_hash"),
			tx.Now.Add(r.Overlap)
		if !r.EndPrevious {
			q = q.Where("previous_secret_until IS NULL OR previous_secret_until <= ?", tx.Now)
		}
	}
	n, err := q.Set(clause.Assignments(change)).Update(ctx)
	if err != nil {
		return false, fmt.Errorf("update secret of application: %w", err)
	}
	return n == 1, nil
}

func endPreviousSecret(ctx context.Context, tx postgres.Tx, applicationID string) error {
	_, err := gorm.G[applicationRow](tx.Gorm(ctx)).Where("id = ?", applicationID).
		Select("previous_secret_until", "updated_at").
		Updates(ctx, applicationRow{PreviousSecretUntil: &tx.Now, UpdatedAt: tx.Now})
	if err != nil {
		return fmt.Errorf("end previous secret of application: %w", err)
	}
	return nil
}

func updateSuspended(ctx context.Context, tx postgres.Tx, applicationID string,
	suspended bool,
) (found bool, err error) {
	r := applicationRow{UpdatedAt: tx.Now}
	if suspended {
		r.SuspendedAt = &tx.Now
	}
	n, err := gorm.G[applicationRow](tx.Gorm(ctx)).Where("id = ?", applicationID).Select("suspended_at", "updated_at").
		Updates(ctx, r)
	if err != nil {
		return false, fmt.Errorf("update application: %w", err)
	}
	return n == 1, nil
}
