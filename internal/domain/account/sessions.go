package account

import (
	"context"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
)

// FreshSignIn is how long after a sign-in a client may change what protects the account.
const FreshSignIn = 15 * time.Minute

// Device is where a sign-in comes from, as far as the client can recognise it.
type Device struct {
	UserAgent string // at most 300 bytes are kept
	Address   string
	PasskeyID string // that signed in; empty for another way. Not read back
}

// BrowserSession is one sign-in that has not ended.
type BrowserSession struct {
	ID         string // names it; does not sign anybody in
	Device     Device
	SignedInAt time.Time
	LastUsedAt time.Time // to the minute
	Current    bool      // the one that asks
}

// SignInFrom is [Service.SignIn] with what the client will recognise the browser by. It returns [ErrBadCredentials] too
// when the passkey was removed meanwhile; the transaction cannot go on then.
func (s *Service) SignInFrom(ctx context.Context, tx postgres.Tx, clientID string, d Device) (token string, err error) {
	token = tx.NewSecret("brs")
	if err := insertSession(ctx, tx, id.DigestOf(token), clientID, d); err != nil {
		return "", err
	}
	return token, nil
}

// SignedIn is a client who acts in the browser session of a token.
type SignedIn string

// Premise implements [postgres.Rests]: an act rests on the session, and on an account that is not closed. It fails with
// [ErrNoSession].
func (token SignedIn) Premise(now time.Time) (postgres.Premise, bool) {
	args := []any{id.DigestOf(string(token)), now}
	return postgres.Premise{Statement: signedInSQL, Args: args, Otherwise: ErrNoSession}, true
}

// SignedInAt returns when the session of token began, or [ErrNoSession].
func (s *Service) SignedInAt(ctx context.Context, tx postgres.Tx, token string) (time.Time, error) {
	return sessionStart(ctx, tx, id.DigestOf(token))
}

// Sessions lists the client's sign-ins, the most recently used first; token is that of the one who asks.
func (s *Service) Sessions(ctx context.Context, tx postgres.Tx, clientID, token string) ([]BrowserSession, error) {
	rows, err := listSessions(ctx, tx, clientID)
	if err != nil {
		return nil, err
	}
	current := id.DigestOf(token)
	out := make([]BrowserSession, len(rows))
	for i, r := range rows {
		out[i] = BrowserSession{ID: r.TokenHash.String(), Device: Device{UserAgent: r.UserAgent, Address: r.Address},
			SignedInAt: r.CreatedAt, LastUsedAt: r.CreatedAt, Current: r.TokenHash == current}
		if r.LastUsedAt != nil {
			out[i].LastUsedAt = *r.LastUsedAt
		}
	}
	return out, nil
}

// EndSession ends one of the client's sign-ins. One that is over, or somebody else's, is no error.
func (s *Service) EndSession(ctx context.Context, tx postgres.Tx, clientID, sessionID string) error {
	return sessions.EndOne(ctx, tx, clientID, sessionID)
}

// EndSessions ends all of the client's sign-ins and tells how many those were.
func (s *Service) EndSessions(ctx context.Context, tx postgres.Tx, clientID string) (int, error) {
	return sessions.EndOthers(ctx, tx, clientID, id.Digest{})
}

// EndOtherSessions ends all of the client's sign-ins but the one of token, and tells how many those were.
func (s *Service) EndOtherSessions(ctx context.Context, tx postgres.Tx, clientID, token string) (int, error) {
	return sessions.EndOthers(ctx, tx, clientID, id.DigestOf(token))
}
