package staff

import (
	"context"
	"errors"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
)

// Device describes where a sign-in comes from, so that the person can recognise it.
type Device struct{ UserAgent, Address string }

// Session returns the session of token, or [ErrNoSession], also while the second factor is missing. Pass a handle of
// [postgres.DB.Read], because Session records the use. In a longer transaction, that would block other requests of the
// session.
func (s *Service) Session(ctx context.Context, tx postgres.Tx, token string) (Session, error) {
	if token == "" {
		return Session{}, ErrNoSession
	}
	digest := id.DigestOf(token)
	r, err := sessionOf(ctx, tx, digest, true)
	if err != nil {
		return Session{}, err
	}
	return Session{ID: digest.String(), Person: r.Row.person(), LeaseEpoch: r.LeaseEpoch, SignedInAt: r.SignedInAt},
		sessions.Touch(ctx, tx, digest)
}

// InSession is the session of a person who acts at the portal, the operators' desk or their own security page.
type InSession Session

// Premise implements [postgres.Rests]: the session must last until the action commits. It fails with [ErrNoSession].
func (s InSession) Premise(now time.Time) (postgres.Premise, bool) {
	digest, ok := id.ParseDigest(s.ID)
	return postgres.Premise{Statement: inSessionSQL, Args: []any{digest, now}, Otherwise: ErrNoSession}, ok
}

// Premise requires that the session lasts until a lawyer's action commits and, if employed is set, that the lawyer is
// not suspended. It is checked last, because suspending a lawyer and the actions of a desk both lock the lawyer before
// the sessions.
func (s Session) Premise(now time.Time, employed bool) (postgres.Premise, bool) {
	digest, ok := id.ParseDigest(s.ID)
	p := postgres.Premise{Statement: lastsSQL, Args: []any{digest, now}, Otherwise: ErrNoSession, Last: true}
	if employed {
		p.Statement = employedSQL
	}
	return p, ok
}

// KeepLease stores in a session the epoch of the duty that the lawyer began in it, or 0 when the duty ends. It returns
// [ErrNoSession] if the session has ended; the caller must then roll back tx.
func (s *Service) KeepLease(ctx context.Context, tx postgres.Tx, sessionID string, epoch int64) error {
	digest, ok := id.ParseDigest(sessionID)
	if !ok {
		return ErrNoSession
	}
	return updateLease(ctx, tx, digest, epoch)
}

// SignOut ends the session of token. It succeeds if the session has already ended.
func (s *Service) SignOut(ctx context.Context, tx postgres.Tx, token string) error {
	_, err := sessions.End(ctx, tx, id.DigestOf(token))
	return err
}

// OpenSession is a session as the list of sessions shows it.
type OpenSession struct {
	ID         string // cannot be used to sign in
	Device     Device
	SignedInAt time.Time
	LastUsedAt time.Time // to the minute
}

// Sessions lists a person's sessions, most recently used first.
func (s *Service) Sessions(ctx context.Context, tx postgres.Tx, staffID string) ([]OpenSession, error) {
	rows, err := listSessions(ctx, tx, staffID)
	if err != nil {
		return nil, err
	}
	out := make([]OpenSession, len(rows))
	for i, r := range rows {
		out[i] = OpenSession{r.TokenHash.String(), Device{r.UserAgent, r.Address}, r.CreatedAt, r.LastUsedAt}
	}
	return out, nil
}

// EndSession ends one of a person's sessions. It succeeds if the session has ended or belongs to someone else.
func (s *Service) EndSession(ctx context.Context, tx postgres.Tx, staffID, sessionID string) error {
	return sessions.EndOne(ctx, tx, staffID, sessionID)
}

// EndSessions ends all of a person's sessions except exceptID (empty: all), and returns how many.
func (s *Service) EndSessions(ctx context.Context, tx postgres.Tx, staffID, exceptID string) (int, error) {
	except, _ := id.ParseDigest(exceptID)
	return sessions.EndOthers(ctx, tx, staffID, except)
}

// EndAllSessions ends every session of staff and partners' people, and returns how many.
func EndAllSessions(ctx context.Context, tx postgres.Tx) (int, error) {
	return sessions.EndAll(ctx, tx)
}

// EndLawyerSessions ends all sessions of a lawyer. It succeeds for a lawyer who was never invited. When suspending a
// lawyer, call it in the same transaction.
func (s *Service) EndLawyerSessions(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	r, err := personByLawyer(ctx, tx, lawyerID)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := lockPerson(ctx, tx, r.ID); err != nil { // a concurrent sign-in is either seen here or comes later
		return err
	}
	_, err = sessions.EndOthers(ctx, tx, r.ID, id.Digest{})
	return err
}

// FormToken binds a form, or a request of the desk's script (header X-CSRF-Token), to the session of token.
func FormToken(token string) string { return id.DigestOf("partnerd staff form\x00" + token).String() }
