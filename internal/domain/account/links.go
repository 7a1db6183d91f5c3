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

// SignUp is a sign-up whose e-mail address is to be confirmed.
type SignUp struct {
	Email string
	Name  string
	Next  string // path on this site to go to afterwards; may be empty
}

// RequestSignUp has a link mailed to the address; to one that has an account already goes a mail that says so. The
// password is chosen with the link, so nobody can prepare an account for the owner of an address. It returns
// [ErrInvalid]. lang is the language of the mail.
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
	// Not the name: it would let strangers write to any address through us.
	return s.send(ctx, tx, r.Email, r.Lang, "signup", s.link("/signup/confirm", token))
}

// newLink stores a link unless the address has had too many; the token is empty then. found is the client of the
// address. A link to sign up as somebody who exists, or for the password of a client who is disabled, is stored too and
// counts, and can never be used.
func (s *SelfService) newLink(ctx context.Context, tx postgres.Tx,
	r linkRow,
) (token string, found *clientRow, err error) {
	n, err := countLinks(ctx, tx, r.Kind, r.Email)
	if err != nil || n >= linksPerHour {
		return "", nil, err
	}
	// so that a link which ends with something else is not made at the same time
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

// PendingSignUp returns what a link confirms, and leaves the link as it is. It returns [ErrBadLink].
func (s *SelfService) PendingSignUp(ctx context.Context, tx postgres.Tx, token string) (SignUp, error) {
	r, err := links.Find(ctx, tx, kindSignUp, token)
	return r.signUp(), err
}

// SignUp uses a link and creates the client. It returns [ErrInvalid] (the link can be used again with a better
// password), [ErrBadLink] or [ErrEmailTaken]; after any of them tx must be rolled back.
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

// RequestReset has a link mailed with which the client of the address can choose a new password. A client who is
// disabled is told so instead, and nothing is sent to strangers; nobody can tell from here. It returns [ErrInvalid] for
// what is no address.
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

// PendingReset returns whose password a link can set, and leaves the link as it is. It returns [ErrBadLink].
func (s *SelfService) PendingReset(ctx context.Context, tx postgres.Tx, token string) (Client, error) {
	r, err := links.Find(ctx, tx, kindReset, token)
	if err != nil {
		return Client{}, err
	}
	return s.deps.Accounts.Get(ctx, tx, r.ClientID)
}

// Reset uses a link: it sets the password, ends all browser sessions, and the passkeys and the phone number that also
// names, and tells the client. Whoever calls it ends the links to applications in the same transaction
// (oauth.Service.Recover). It returns [ErrInvalid] (the link can be used again) or [ErrBadLink]; after any of them tx
// must be rolled back.
func (s *SelfService) Reset(ctx context.Context, tx postgres.Tx, token, plain, lang string,
	also Recovery,
) (Client, error) {
	c, _, err := s.lockLink(ctx, tx, kindReset, token)
	if err != nil {
		return Client{}, err
	}
	return s.recoverAccount(ctx, tx, c, plain, lang, also)
}

// ChangePassword sets a new password for a client who knows the present one, ends all other browser sessions and tells
// the client. It returns [ErrBadCredentials] or [ErrInvalid].
func (s *SelfService) ChangePassword(ctx context.Context, tx postgres.Tx,
	clientID, present, plain, session, lang string,
) (Client, error) {
	// one that another act replaces meanwhile does not count any more
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
	if !password.Verify(row.PasswordHash, present) || row.DisabledAt != nil {
		return Client{}, ErrBadCredentials
	}
	return s.setPassword(ctx, tx, fromRow(row), plain, session, lang)
}

// setPassword keeps no session but the one with the token session, which may be empty, and no known browser. The client
// must be locked.
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

// checkNewPassword returns [ErrInvalid] with the [password.Weakness] of a password that may not be chosen.
func (s *SelfService) checkNewPassword(plain, email, name string) error {
	if err := password.OfClients.Check(plain, email, name, s.deps.Mail.Service); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}
