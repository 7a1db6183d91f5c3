package application

import (
	"context"
	"crypto/subtle"
	"reflect"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// Service manages applications. Safe for concurrent use.
type Service struct{ reserved string }

// New creates the service.
func New() *Service { return &Service{} }

// Reserve sets a name that applications cannot take: the service's own. On the consent page such an application would
// pass for the service. An application that already has the name keeps it.
func (s *Service) Reserve(name string) { s.reserved = name }

// Create registers an application and returns its secret, which cannot be read again. It returns [ErrInvalid].
func (s *Service) Create(ctx context.Context, tx postgres.Tx, n NewApplication) (Application, string, error) {
	n, err := checked(n, "", s.reserved)
	if err != nil {
		return Application{}, "", err
	}
	a := Application{
		ID: tx.NewID(id.Application), Name: n.Name, RedirectURIs: n.RedirectURIs, Scopes: n.Scopes,
		ContactEmail: n.ContactEmail, RecordingEnabled: n.RecordingEnabled, RatePerMinute: n.RatePerMinute,
		ClientRatePerMinute: n.ClientRatePerMinute, CreatedAt: tx.Now, UpdatedAt: tx.Now,
	}
	secret := tx.NewSecret("sk")
	if err := insertApplication(ctx, tx, a, id.DigestOf(secret)); err != nil {
		return Application{}, "", err
	}
	return a, secret, nil
}

// Get returns an application, suspended or not, or [problem.ErrNotFound].
func (s *Service) Get(ctx context.Context, tx postgres.Tx, applicationID string) (Application, error) {
	return s.read(ctx, tx, byIDSQL, applicationID)
}

// Hold is [Service.Get] with a lock that keeps the application unchanged until tx ends. A suspension either commits
// first and is seen, or waits for tx.
func (s *Service) Hold(ctx context.Context, tx postgres.Tx, applicationID string) (Application, error) {
	return s.read(ctx, tx, heldSQL, applicationID)
}

func (s *Service) read(ctx context.Context, tx postgres.Tx, q postgres.Statement,
	applicationID string,
) (Application, error) {
	row, found, err := s.find(ctx, tx, q, applicationID)
	if err == nil && !found {
		err = problem.ErrNotFound
	}
	if err != nil {
		return Application{}, err
	}
	return fromRow(row), nil
}

// List returns every application, suspended or not, oldest first.
func (s *Service) List(ctx context.Context, tx postgres.Tx) ([]Application, error) {
	return applications(ctx, tx)
}

// Update changes an application and returns its old and its new state, which are equal if there is nothing to change.
// The change applies from the next request. live says whether the deployment is live, see [NewApplication]. It returns
// [ErrInvalid] or [problem.ErrNotFound].
func (s *Service) Update(ctx context.Context, tx postgres.Tx, applicationID string, c Change,
	live bool,
) (before, after Application, err error) {
	if err := lockApplication(ctx, tx, applicationID); err != nil {
		return before, after, err
	}
	if before, err = s.Get(ctx, tx, applicationID); err != nil {
		return before, after, err
	}
	n := c.changed(before)
	if reflect.DeepEqual(n, Change{}.changed(before)) {
		return before, before, nil
	}
	n.Live = live
	if n, err = checked(n, before.Name, s.reserved); err != nil {
		return before, after, err
	}
	if err := updateApplication(ctx, tx, applicationID, n); err != nil {
		return before, after, err
	}
	after, err = s.Get(ctx, tx, applicationID)
	return before, after, err
}

// Authenticate returns the application, suspended or not, if secret is its current secret, or its previous one within
// the overlap. Otherwise it returns [ErrBadCredentials]. Secrets are compared as digests, in constant time.
func (s *Service) Authenticate(ctx context.Context, tx postgres.Tx, applicationID, secret string) (Application, error) {
	row, found, err := s.find(ctx, tx, byIDSQL, applicationID)
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

// Premise requires that these credentials are valid, as in [Service.Authenticate], and that the application is not
// suspended. Otherwise the statement fails with refusal.
func Premise(applicationID string, secret id.Digest, now time.Time, refusal error) postgres.Premise {
	return postgres.Premise{Statement: holdsSQL, Args: []any{applicationID, secret, now}, Otherwise: refusal}
}

var ruleOverlap = problem.DeclareRule("overlap", problem.IssueInvalidValue, "Secrets can overlap for 0 to %d days.")

// Rotation says how to replace a secret.
type Rotation struct {
	Overlap     time.Duration // how long the current secret goes on working, 0 to [MaxSecretOverlap]
	EndPrevious bool          // ends a previous secret that still works
	// KeepPrevious ends the current secret immediately, for example because it leaked, and keeps the previous one until
	// its time. It requires a previous secret that still works, and excludes Overlap and EndPrevious.
	KeepPrevious bool
}

var ruleKeep = problem.DeclareRule("secret.keep", problem.IssueInvalidValue,
	"Keeping the previous secret ends the current one immediately. Choose no overlap, and do not end the previous secret.")

// RotateSecret gives the application a new secret and returns when the previous one stops working. The current secret
// becomes the previous one for the overlap, unless r keeps the existing previous one.
//
// At most two secrets work at a time. If the previous secret still works, the rotation is rejected unless r ends or
// keeps it. It returns [ErrInvalid], [problem.ErrNotFound], [problem.ErrPreviousSecret] or
// [problem.ErrNoPreviousSecret].
func (s *Service) RotateSecret(ctx context.Context, tx postgres.Tx, applicationID string,
	r Rotation,
) (secret string, until time.Time, err error) {
	if r.Overlap < 0 || r.Overlap > MaxSecretOverlap {
		return "", until, problem.Refuse(ErrInvalid, ruleOverlap.At("overlapSeconds", int(MaxSecretOverlap.Hours()/24)))
	}
	if r.KeepPrevious && (r.EndPrevious || r.Overlap > 0) {
		return "", until, problem.Refuse(ErrInvalid, ruleKeep.At("keepPrevious"))
	}
	secret = tx.NewSecret("sk")
	done, err := updateSecret(ctx, tx, applicationID, id.DigestOf(secret), r)
	if err != nil {
		return "", until, err
	}
	a, err := s.Get(ctx, tx, applicationID)
	switch {
	case err != nil:
		return "", until, err
	case done:
		return secret, *a.PreviousSecretUntil, nil
	case r.KeepPrevious:
		return "", until, problem.ErrNoPreviousSecret
	}
	return "", until, problem.PreviousSecretWorks(*a.PreviousSecretUntil)
}

// EndPreviousSecret ends the overlap of a rotation immediately. Without an overlap it does nothing. It returns
// [problem.ErrNotFound].
func (s *Service) EndPreviousSecret(ctx context.Context, tx postgres.Tx, applicationID string) error {
	if err := lockApplication(ctx, tx, applicationID); err != nil {
		return err
	}
	a, err := s.Get(ctx, tx, applicationID)
	if err != nil || a.PreviousSecretUntil == nil || !tx.Now.Before(*a.PreviousSecretUntil) {
		return err
	}
	return endPreviousSecret(ctx, tx, applicationID)
}

// SetSuspended suspends an application immediately, or reinstates it. It returns [problem.ErrNotFound].
func (s *Service) SetSuspended(ctx context.Context, tx postgres.Tx, applicationID string, suspended bool) error {
	found, err := updateSuspended(ctx, tx, applicationID, suspended)
	if err == nil && !found {
		return problem.ErrNotFound
	}
	return err
}

func (s *Service) find(ctx context.Context, tx postgres.Tx, q postgres.Statement,
	applicationID string,
) (applicationRow, bool, error) {
	if !storable(applicationID) {
		return applicationRow{}, false, nil
	}
	return oneApplication(ctx, tx, q, applicationID)
}
