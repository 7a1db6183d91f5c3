package account

import (
	"context"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
)

// FreshSignIn is how long after a sign-in a client may change the security settings of the account.
const FreshSignIn = 15 * time.Minute

// Device describes the origin of a sign-in, so that the client can recognise it.
type Device struct {
	UserAgent string // at most 300 bytes are kept
	Address   string
	PasskeyID string // passkey that signed in; empty for other sign-ins. Not read back
}

// BrowserSession is a sign-in that has not ended.
type BrowserSession struct {
	ID         string // names the session, and cannot be used to sign in
	Device     Device
	SignedInAt time.Time
	LastUsedAt time.Time // to the minute
	Current    bool      // whether it is the caller's session
}

// SignInFrom is [Service.SignIn] with a device by which the client can recognise the browser. It also returns
// [ErrBadCredentials] if the passkey has been removed, and the transaction is then aborted.
func (s *Service) SignInFrom(ctx context.Context, tx postgres.Tx, clientID string, d Device) (token string, err error) {
	token = tx.NewSecret("brs")
	if err := insertSession(ctx, tx, id.DigestOf(token), clientID, d); err != nil {
		return "", err
	}
	return token, nil
}

// SignedIn is the token of the browser session in which a client acts.
type SignedIn string

// Premise implements [postgres.Rests]: an action requires that the session is valid and the account is not closed.
// Otherwise it fails with [ErrNoSession].
func (token SignedIn) Premise(now time.Time) (postgres.Premise, bool) {
	args := []any{id.DigestOf(string(token)), now}
	return postgres.Premise{Statement: signedInSQL, Args: args, Otherwise: ErrNoSession}, true
}

// SignedInAt returns when the session with token began, or [ErrNoSession].
func (s *Service) SignedInAt(ctx context.Context, tx postgres.Tx, token string) (time.Time, error) {
	return sessionStart(ctx, tx, id.DigestOf(token))
}

// Sessions lists the client's sign-ins, most recently used first; token is that of the caller's session.
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

// EndSession ends one of the client's sign-ins. It is not an error if the session has ended or belongs to another
// client.
func (s *Service) EndSession(ctx context.Context, tx postgres.Tx, clientID, sessionID string) error {
	return sessions.EndOne(ctx, tx, clientID, sessionID)
}

// EndSessions ends all of the client's sign-ins and returns their number.
func (s *Service) EndSessions(ctx context.Context, tx postgres.Tx, clientID string) (int, error) {
	return sessions.EndOthers(ctx, tx, clientID, id.Digest{})
}

// EndOtherSessions ends all of the client's sign-ins except the one with token, and returns their number.
func (s *Service) EndOtherSessions(ctx context.Context, tx postgres.Tx, clientID, token string) (int, error) {
	return sessions.EndOthers(ctx, tx, clientID, id.DigestOf(token))
}
