package application

import (
	"context"
	"crypto/subtle"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
	"partnerd/internal/problem"
)

// Service keeps applications. Safe for concurrent use.
type Service struct{}

// New makes the service.
func New() *Service { return &Service{} }

// Create registers an application and returns its secret, which cannot be read again. It returns [ErrInvalid].
func (s *Service) Create(ctx context.Context, tx postgres.Tx, n NewApplication) (Application, string, error) {
	n, err := checked(n)
	if err != nil {
		return Application{}, "", err
	}
	a := Application{
		ID: tx.NewID(id.Application), Name: n.Name, RedirectURIs: n.RedirectURIs, Scopes: n.Scopes,
		RecordingEnabled: n.RecordingEnabled, RatePerMinute: n.RatePerMinute, ClientRatePerMinute: n.ClientRatePerMinute,
		CreatedAt: tx.Now,
	}
	secret := tx.NewSecret("sk")
	if err := insertApplication(ctx, tx, a, id.DigestOf(secret)); err != nil {
		return Application{}, "", err
	}
	return a, secret, nil
}

// Get returns an application, suspended or not, or [problem.ErrNotFound].
func (s *Service) Get(ctx context.Context, tx postgres.Tx, applicationID string) (Application, error) {
	row, found, err := s.find(ctx, tx, applicationID)
	if err == nil && !found {
		err = problem.ErrNotFound
	}
	if err != nil {
		return Application{}, err
	}
	return fromRow(row), nil
}

// Authenticate returns the application, suspended or not, when secret is its current one or its previous one within
// [SecretOverlap]; otherwise [ErrBadCredentials]. Secrets are compared as digests, in constant time.
func (s *Service) Authenticate(ctx context.Context, tx postgres.Tx, applicationID, secret string) (Application, error) {
	row, found, err := s.find(ctx, tx, applicationID)
	if err != nil {
		return Application{}, err
	}
	given := id.DigestOf(secret)
	current := subtle.ConstantTimeCompare(given[:], row.SecretHash)
	previous := subtle.ConstantTimeCompare(given[:], row.PreviousSecretHash)
	if row.PreviousSecretUntil == nil || !tx.Now.Before(*row.PreviousSecretUntil) {
		previous = 0
	}
	if !found || current|previous != 1 {
		return Application{}, ErrBadCredentials
	}
	return fromRow(row), nil
}

// RotateSecret gives the application a new secret; the one before works for [SecretOverlap] more.
// It returns [problem.ErrNotFound].
func (s *Service) RotateSecret(ctx context.Context, tx postgres.Tx, applicationID string) (secret string, err error) {
	secret = tx.NewSecret("sk")
	found, err := updateSecret(ctx, tx, applicationID, id.DigestOf(secret))
	if err != nil {
		return "", err
	}
	if !found {
		return "", problem.ErrNotFound
	}
	return secret, nil
}

// SetSuspended stops an application from using the service at once, or lets it in again. It returns
// [problem.ErrNotFound].
func (s *Service) SetSuspended(ctx context.Context, tx postgres.Tx, applicationID string, suspended bool) error {
	found, err := updateSuspended(ctx, tx, applicationID, suspended)
	if err == nil && !found {
		return problem.ErrNotFound
	}
	return err
}

func (s *Service) find(ctx context.Context, tx postgres.Tx, applicationID string) (applicationRow, bool, error) {
	if !storable(applicationID) {
		return applicationRow{}, false, nil
	}
	return applicationByID(ctx, tx, applicationID)
}
