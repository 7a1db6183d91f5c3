package staff

import (
	"context"
	"errors"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
)

// Device is where a sign-in comes from, as far as the person can recognise it.
type Device struct{ UserAgent, Address string }

// Session returns the sign-in of token, or [ErrNoSession], also while its second factor is missing. Give it a handle of
// [postgres.DB.Read]: it notes the use, and a transaction that goes on would make others of the session wait.
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

// InSession is somebody who acts in their session at the portal, the operators' desk or their own security page.
type InSession Session

// Premise implements [postgres.Rests]: an act rests on the session until it commits. It fails with [ErrNoSession].
func (s InSession) Premise(now time.Time) (postgres.Premise, bool) {
	digest, ok := id.ParseDigest(s.ID)
	return postgres.Premise{Statement: inSessionSQL, Args: []any{digest, now}, Otherwise: ErrNoSession}, ok
}

// Premise is what an act of a lawyer in the session rests on: the session lasts, and, when employed, the lawyer is not
// suspended. It comes last: whoever suspends a lawyer locks the lawyer before the sessions, as the acts of a desk do.
func (s Session) Premise(now time.Time, employed bool) (postgres.Premise, bool) {
	digest, ok := id.ParseDigest(s.ID)
	p := postgres.Premise{Statement: lastsSQL, Args: []any{digest, now}, Otherwise: ErrNoSession, Last: true}
	if employed {
		p.Statement = employedSQL
	}
	return p, ok
}

// KeepLease notes in a session the epoch of the duty that the lawyer has begun in it; 0 when he ends it. It returns
// [ErrNoSession] for one that has ended: tx must be rolled back then.
func (s *Service) KeepLease(ctx context.Context, tx postgres.Tx, sessionID string, epoch int64) error {
	digest, ok := id.ParseDigest(sessionID)
	if !ok {
		return ErrNoSession
	}
	return updateLease(ctx, tx, digest, epoch)
}

// SignOut ends the session of token. One that has ended already is no error.
func (s *Service) SignOut(ctx context.Context, tx postgres.Tx, token string) error {
	_, err := sessions.End(ctx, tx, id.DigestOf(token))
	return err
}

// OpenSession is a sign-in as the list of them shows it.
type OpenSession struct {
	ID         string // names it; does not sign anybody in
	Device     Device
	SignedInAt time.Time
	LastUsedAt time.Time // to the minute
}

// Sessions lists a person's sign-ins, the most recently used first.
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

// EndSession ends one of a person's sign-ins. One that is over, or somebody else's, is no error.
func (s *Service) EndSession(ctx context.Context, tx postgres.Tx, staffID, sessionID string) error {
	return sessions.EndOne(ctx, tx, staffID, sessionID)
}

// EndSessions ends all of a person's sign-ins but one (empty: none is kept), and tells how many those were.
func (s *Service) EndSessions(ctx context.Context, tx postgres.Tx, staffID, exceptID string) (int, error) {
	except, _ := id.ParseDigest(exceptID)
	return sessions.EndOthers(ctx, tx, staffID, except)
}

// EndAllSessions signs out everybody who works here or for a partner, and tells how many sessions those were.
func EndAllSessions(ctx context.Context, tx postgres.Tx) (int, error) {
	return sessions.EndAll(ctx, tx)
}

// EndLawyerSessions ends all sign-ins of a lawyer; one who was never invited has none. Whoever suspends him does so in
// the same transaction.
func (s *Service) EndLawyerSessions(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	r, err := personByLawyer(ctx, tx, lawyerID)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := lockPerson(ctx, tx, r.ID); err != nil { // whoever signs in at this moment is seen here, or comes after
		return err
	}
	_, err = sessions.EndOthers(ctx, tx, r.ID, id.Digest{})
	return err
}

// FormToken ties a form, or a request of the desk's own script (header X-CSRF-Token), to the session of token.
func FormToken(token string) string { return id.DigestOf("partnerd staff form\x00" + token).String() }
