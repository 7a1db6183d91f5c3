package operator

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/domain/application"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/infra/postgres"
)

// Credentials are the credentials of a partner's application. Both secrets are shown once.
type Credentials struct {
	ClientID      string `json:"clientId"`
	ClientSecret  string `json:"clientSecret"`
	WebhookSecret string `json:"webhookSecret"`
}

// RegisterApplication registers a partner's application with its webhook endpoint; webhookURL may be empty.
func (s *Service) RegisterApplication(ctx context.Context, by Act, n application.NewApplication,
	webhookURL string,
) (c Credentials, err error) {
	n.Live = !s.Sandbox
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		created, secret, err := s.Applications.Create(ctx, tx, n)
		if err != nil {
			return err
		}
		c.ClientID, c.ClientSecret = created.ID, secret
		if c.WebhookSecret, err = s.Webhooks.CreateEndpoint(ctx, tx, created.ID, webhookURL); err != nil {
			return fmt.Errorf("webhook URL %q: %w", webhookURL, err)
		}
		return by.Record(ctx, tx, "application.create", created.ID, settingsOf(created), c.ClientID, c.ClientSecret,
			c.WebhookSecret)
	})
	return c, err
}

// applicationSettings are the settings of an application as the audit log keeps them, without secrets.
type applicationSettings struct {
	Name                string              `json:"name"`
	RedirectURIs        []string            `json:"redirectUris"`
	Scopes              []application.Scope `json:"scopes"`
	Contact             string              `json:"contact,omitempty"`
	Recording           bool                `json:"recording"`
	RatePerMinute       int                 `json:"ratePerMinute"`
	ClientRatePerMinute int                 `json:"clientRatePerMinute"`
}

func settingsOf(a application.Application) applicationSettings {
	return applicationSettings{a.Name, a.RedirectURIs, a.Scopes, a.ContactEmail, a.RecordingEnabled, a.RatePerMinute,
		a.ClientRatePerMinute}
}

// LinkHistory lists the events of a client's connections with an application, newest first.
func (s *Service) LinkHistory(ctx context.Context, applicationID, clientID string, limit int) ([]oauth.Event, error) {
	tx := s.DB.Read()
	if _, err := s.Applications.Get(ctx, tx, applicationID); err != nil {
		return nil, err
	}
	if err := s.KnownClient(ctx, tx, clientID); err != nil {
		return nil, err
	}
	return s.OAuth.History(ctx, tx, clientID, applicationID, limit)
}

// UpdateApplication changes an application; see [application.Service.Update].
func (s *Service) UpdateApplication(ctx context.Context, by Act, applicationID string,
	c application.Change,
) (after application.Application, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		var before application.Application
		if before, after, err = s.Applications.Update(ctx, tx, applicationID, c, !s.Sandbox); err != nil {
			return err
		}
		if err := s.tellChanges(ctx, tx, before, after); err != nil {
			return err
		}
		return by.Record(ctx, tx, "application.update", applicationID, map[string]any{"before": settingsOf(before),
			"after": settingsOf(after)})
	})
	return after, err
}

// SuspendApplication suspends or resumes an application. While it is suspended, its access tokens get 401, and its
// codes and refresh tokens get 400. Open consultations continue to their end.
func (s *Service) SuspendApplication(ctx context.Context, by Act, applicationID string,
	suspended bool,
) (after application.Application, err error) {
	action, what := "application.resume", "resumed"
	if suspended {
		action, what = "application.suspend", "suspended"
	}
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.Applications.SetSuspended(ctx, tx, applicationID, suspended); err != nil {
			return err
		}
		if after, err = s.Applications.Get(ctx, tx, applicationID); err != nil {
			return err
		}
		if err := s.tellPartner(ctx, tx, applicationID, what); err != nil {
			return err
		}
		return by.Record(ctx, tx, action, applicationID, nil)
	})
	return after, err
}

// RotateApplicationSecret creates a new client secret and returns the time at which the previous one stops working; see
// [application.Service.RotateSecret].
func (s *Service) RotateApplicationSecret(ctx context.Context, by Act, applicationID string,
	r application.Rotation,
) (secret string, until time.Time, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if secret, until, err = s.Applications.RotateSecret(ctx, tx, applicationID, r); err != nil {
			return err
		}
		what := "secret"
		if r.KeepPrevious {
			what = "secret.replaced"
		}
		if err := s.tellPartner(ctx, tx, applicationID, what, until.Format("2006-01-02 15:04 UTC")); err != nil {
			return err
		}
		return by.Record(ctx, tx, "application.rotate_secret", applicationID,
			rotated{until, r.EndPrevious, r.KeepPrevious}, secret)
	})
	return secret, until, err
}

// rotated is what the audit log keeps of a rotation.
type rotated struct {
	PreviousSecretUntil time.Time `json:"previousSecretUntil"`
	EndedPrevious       bool      `json:"endedPrevious,omitempty"`
	KeptPrevious        bool      `json:"keptPrevious,omitempty"` // the current secret ended
}

// RotateSigningKey adds a key that signs access tokens; see [oauth.Service.RotateSigningKey].
func (s *Service) RotateSigningKey(ctx context.Context, by Act) (key oauth.Key, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if _, err := s.OAuth.RotateSigningKey(ctx, tx); err != nil {
			return err
		}
		keys, err := s.OAuth.SigningKeys(ctx, tx)
		if err != nil {
			return err
		}
		key = keys[0] // the newest
		return by.Record(ctx, tx, "key.rotate", key.ID, map[string]any{"signsFrom": key.SignsFrom})
	})
	return key, err
}

// RetireSigningKey ends a key immediately and returns the remaining keys; see [oauth.Service.RetireSigningKey].
func (s *Service) RetireSigningKey(ctx context.Context, by Act, kid string) (keys []oauth.Key, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.OAuth.RetireSigningKey(ctx, tx, kid); err != nil {
			return err
		}
		if keys, err = s.OAuth.SigningKeys(ctx, tx); err != nil {
			return err
		}
		return by.Record(ctx, tx, "key.retire", kid, nil)
	})
	return keys, err
}
