package account

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"partnerd/internal/base/id"
	"partnerd/internal/base/password"
	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// SignUp is a sign-up whose email address is not confirmed yet.
type SignUp struct {
	Email string
	Name  string
	Next  string // path on this site to open afterwards; may be empty
}

// RequestSignUp emails a link to the address, or a notice if the address already has an account. The password is chosen
// through the link, so no one can prepare an account for the owner of an address. lang is the language of the email. It
// returns [ErrInvalid].
func (s *SelfService) RequestSignUp(ctx context.Context, tx postgres.Tx, r SignUp, lang string) error {
	n, err := checked(NewClient{Email: r.Email, Name: r.Name, Password: strings.Repeat("x", password.OfClients.Length)})
	if err != nil {
		return err
	}
	return s.insertJob(ctx, tx, signUpJob, linkRequest{Email: n.Email, Name: n.Name, Next: r.Next, Lang: lang})
}

func (s *SelfService) mailSignUp(ctx context.Context, tx postgres.Tx, r linkRequest) error {
	token, found, err := s.newLink(ctx, tx, linkRow{Kind: kindSignUp, Email: r.Email, Name: r.Name, NextPath: r.Next,
		ExpiresAt: tx.Now.Add(SignUpLifetime)})
	if err != nil || token == "" {
		return err
	}
	if found != nil && found.DisabledAt != nil {
		return s.mailDisabled(ctx, tx, *found, r.Lang)
	}
	if found != nil {
		return s.send(ctx, tx, found.Email, fromRow(*found).Speaks(r.Lang), "signup.exists", s.deps.BaseURL+"/login",
			s.deps.BaseURL+"/password/forgot")
	}
	// Leave out the name, which would let strangers write to any address through us.
	return s.send(ctx, tx, r.Email, r.Lang, "signup", s.link("/signup/confirm", token))
}

// newLink stores a link. If the address has reached its hourly limit, it stores nothing and token is empty. found is
// the client with the address. Two kinds of links are stored and counted but never sent: a sign-up for an existing
// client, and a reset for a disabled client.
func (s *SelfService) newLink(ctx context.Context, tx postgres.Tx,
	r linkRow,
) (token string, found *clientRow, err error) {
	n, err := countLinks(ctx, tx, r.Kind, r.Email)
	if err != nil || n >= linksPerHour {
		return "", nil, err
	}
	// lock the client, so that no link is created while the client's links are being ended
	row, ok, err := clientByEmailForUpdate(ctx, tx, r.Email)
	if err != nil {
		return "", nil, err
	}
	if ok {
		found = &row
	}
	if r.Kind == kindReset {
		if !ok || row.ErasedAt != nil {
			return "", nil, nil
		}
		r.ClientID = row.ID
	}
	token = tx.NewSecret("lnk")
	r.TokenHash = id.DigestOf(token)
	return token, found, insertLink(ctx, tx, r)
}

func (s *SelfService) link(path, token string) string {
	return s.deps.BaseURL + path + "?" + url.Values{"token": {token}}.Encode()
}

// PendingSignUp returns the sign-up that a link confirms, without using the link. It returns [ErrBadLink].
func (s *SelfService) PendingSignUp(ctx context.Context, tx postgres.Tx, token string) (SignUp, error) {
	r, err := links.Find(ctx, tx, kindSignUp, token)
	return r.signUp(), err
}

// SignUp uses a link and creates the client. It returns [ErrInvalid] (the link still works with a better password),
// [ErrBadLink] or [ErrEmailTaken]. After any of these errors tx must be rolled back.
func (s *SelfService) SignUp(ctx context.Context, tx postgres.Tx, token, plain string) (Client, string, error) {
	r, err := links.Use(ctx, tx, kindSignUp, token)
	if err != nil {
		return Client{}, "", err
	}
	up := r.signUp()
	if err := s.checkNewPassword(plain, up.Email, up.Name); err != nil {
		return Client{}, "", err
	}
	c, err := s.deps.Accounts.Create(ctx, tx, NewClient{Email: up.Email, Name: up.Name, Password: plain})
	if err != nil {
		return Client{}, "", err
	}
	if err := endSignUps(ctx, tx, c.Email); err != nil {
		return Client{}, "", err
	}
	return c, up.Next, s.deps.Opened(ctx, tx, c.ID)
}

// RequestReset emails a link with which the client at the address can choose a new password. A disabled client is
// notified instead, and an unknown address gets nothing; the caller cannot tell which. It returns [ErrInvalid] if email
// is not an address.
func (s *SelfService) RequestReset(ctx context.Context, tx postgres.Tx, email, lang string) error {
	email, err := normalEmail(email)
	if err != nil {
		return err
	}
	return s.insertJob(ctx, tx, resetJob, linkRequest{Email: email, Lang: lang})
}

func (s *SelfService) mailReset(ctx context.Context, tx postgres.Tx, r linkRequest) error {
	token, found, err := s.newLink(ctx, tx, linkRow{Kind: kindReset, Email: r.Email,
		ExpiresAt: tx.Now.Add(ResetLifetime)})
	if err != nil || token == "" {
		return err
	}
	if found.DisabledAt != nil {
		return s.mailDisabled(ctx, tx, *found, r.Lang)
	}
	return s.send(ctx, tx, found.Email, fromRow(*found).Speaks(r.Lang), "reset", found.Name,
		s.link("/password/reset", token))
}

// PendingReset returns the client whose password a link can set, without using the link. It returns [ErrBadLink].
func (s *SelfService) PendingReset(ctx context.Context, tx postgres.Tx, token string) (Client, error) {
	r, err := links.Find(ctx, tx, kindReset, token)
	if err != nil {
		return Client{}, err
	}
	return s.deps.Accounts.Get(ctx, tx, r.ClientID)
}

// Reset uses a link and sets the password. It ends all browser sessions, and the passkeys and the phone number that
// also selects, and notifies the client. The caller must end the connections to applications in the same transaction
// (oauth.Service.Recover). It returns [ErrInvalid] (the link still works) or [ErrBadLink]. After either error tx must
// be rolled back.
func (s *SelfService) Reset(ctx context.Context, tx postgres.Tx, token, plain, lang string,
	also Recovery,
) (Client, error) {
	c, _, err := s.lockLink(ctx, tx, kindReset, token)
	if err != nil {
		return Client{}, err
	}
	return s.recoverAccount(ctx, tx, c, plain, lang, also)
}

// ChangePassword sets a new password if current is the current one. It ends all other browser sessions and notifies the
// client. It returns [ErrBadCredentials] or [ErrInvalid].
func (s *SelfService) ChangePassword(ctx context.Context, tx postgres.Tx,
	clientID, current, plain, session, lang string,
) (Client, error) {
	// lock the client first: a password that a concurrent action replaces is no longer valid
	row, found, err := clientForUpdate(ctx, tx, clientID)
	if err != nil {
		return Client{}, err
	}
	if !found {
		return Client{}, problem.ErrNotFound
	}
	if err := s.checkNewPassword(plain, row.Email, row.Name); err != nil {
		return Client{}, err
	}
	if !password.Verify(row.PasswordHash, current) || row.DisabledAt != nil {
		return Client{}, ErrBadCredentials
	}
	return s.setPassword(ctx, tx, fromRow(row), plain, session, lang)
}

// setPassword ends every session except the one with the token session, which may be empty, and every known browser.
// The client must be locked.
func (s *SelfService) setPassword(ctx context.Context, tx postgres.Tx, c Client,
	plain, session, lang string,
) (Client, error) {
	c.browserEpoch++
	err := errors.Join(
		updatePassword(ctx, tx, c.ID, password.Hash(plain), c.browserEpoch),
		endLinks(ctx, tx, c.ID, kindReset, kindEmail),
	)
	if err != nil {
		return Client{}, err
	}
	if _, err := sessions.EndOthers(ctx, tx, c.ID, id.DigestOf(session)); err != nil {
		return Client{}, err
	}
	return c, s.notify(ctx, tx, c, lang, "password")
}

// checkNewPassword returns [ErrInvalid], wrapping the [password.Weakness], if the password is not allowed.
func (s *SelfService) checkNewPassword(plain, email, name string) error {
	if err := password.OfClients.Check(plain, email, name, s.deps.Mail.Service); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}
