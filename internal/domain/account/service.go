package account

import (
	"context"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/password"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/seal"
	"partnerd/internal/base/text"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/vault"
)

// Service manages clients and their browser sessions. Safe for concurrent use.
type Service struct {
	box  *seal.Box // seals the cookie of known browsers
	keys *vault.Keys
}

// New creates the service. Phone numbers are sealed with the keys of their clients, and those keys with box.
func New(box *seal.Box) *Service { return &Service{box, vault.New(box)} }

// Create adds a client. It returns [ErrInvalid] or [ErrEmailTaken]; after the latter the transaction is aborted.
func (s *Service) Create(ctx context.Context, tx postgres.Tx, n NewClient) (Client, error) {
	n, err := checked(n)
	if err != nil {
		return Client{}, err
	}
	row := clientRow{ID: tx.NewID(id.Client), Email: n.Email, Name: n.Name, PasswordHash: password.Hash(n.Password),
		CreatedAt: tx.Now, UpdatedAt: tx.Now}
	key, err := s.keys.Create(ctx, tx, row.ID)
	if err != nil {
		return Client{}, err
	}
	if err := setPhone(&row, key, n.Phone, n.PhoneVerified, tx); err != nil {
		return Client{}, err
	}
	err = insertClient(ctx, tx, &row)
	if postgres.IsUnique(err, "clients_email_key") {
		return Client{}, ErrEmailTaken
	}
	if err == nil && n.TimeZone != "" {
		row.TimeZone, err = n.TimeZone, updateTimeZone(ctx, tx, row.ID, n.TimeZone)
	}
	if err != nil {
		return Client{}, err
	}
	return fromRow(row), nil
}

// Get returns a client, or [problem.ErrNotFound].
func (s *Service) Get(ctx context.Context, tx postgres.Tx, clientID string) (Client, error) {
	row, err := s.row(ctx, tx, clientID)
	return fromRow(row), err
}

// ByEmail returns the client with exactly that address, ignoring case, or [problem.ErrNotFound].
func (s *Service) ByEmail(ctx context.Context, tx postgres.Tx, email string) (Client, error) {
	if !text.IsEmail(email) {
		return Client{}, problem.ErrNotFound
	}
	r, found, err := clientByEmail(ctx, tx, email)
	if err == nil && !found {
		err = problem.ErrNotFound
	}
	if err != nil {
		return Client{}, err
	}
	return fromRow(r), nil
}

// VerifiedPhone returns the client's verified number in E.164; ok is false if there is none.
func (s *Service) VerifiedPhone(ctx context.Context, tx postgres.Tx,
	clientID string,
) (e164 string, ok bool, err error) {
	e164, ok, _, err = s.verifiedPhone(ctx, tx, clientID)
	return e164, ok, err
}

// PhoneToKeep is [Service.VerifiedPhone] for callers that store a copy. It also returns the key to seal the copy with.
func (s *Service) PhoneToKeep(ctx context.Context, tx postgres.Tx,
	clientID string,
) (e164 string, ok bool, key vault.Key, err error) {
	e164, ok, stored, err := s.verifiedPhone(ctx, tx, clientID)
	if err != nil || !ok {
		return "", false, vault.Key{}, err
	}
	key, err = s.keys.ForWriting(ctx, tx, clientID, stored)
	return e164, err == nil, key, err
}

// verifiedPhone also returns the client's key in its stored form.
func (s *Service) verifiedPhone(ctx context.Context, tx postgres.Tx,
	clientID string,
) (e164 string, ok bool, stored []byte, err error) {
	p, err := s.phone(ctx, tx, clientID)
	if err != nil || p.VerifiedAt == nil {
		return "", false, nil, err
	}
	key, err := s.keys.Of(clientID, p.KeySealed)
	if err != nil {
		return "", false, nil, err
	}
	plain, err := key.Open(phonePlace(clientID), p.Sealed)
	return string(plain), err == nil, p.KeySealed, err
}

func (s *Service) phone(ctx context.Context, tx postgres.Tx, clientID string) (phone, error) {
	if !storable(clientID) {
		return phone{}, problem.ErrNotFound
	}
	return phoneOf(ctx, tx, clientID)
}

// SetPhone replaces the client's number; an empty one removes it. It returns [problem.ErrNotFound] or [ErrInvalid].
func (s *Service) SetPhone(ctx context.Context, tx postgres.Tx, clientID, number string, verified bool) error {
	was, err := s.phone(ctx, tx, clientID)
	if err != nil {
		return err
	}
	if number != "" {
		if number, err = e164(number); err != nil {
			return err
		}
	} else if verified {
		return fmt.Errorf("%w: a verified phone needs a number", ErrInvalid)
	}
	key, err := s.keys.ForWriting(ctx, tx, clientID, was.KeySealed)
	if err != nil {
		return err
	}
	row := clientRow{ID: clientID}
	if err := setPhone(&row, key, number, verified, tx); err != nil {
		return err
	}
	return updatePhone(ctx, tx, row)
}

// TimeZone returns the client's time zone, for hours of the day.
func (s *Service) TimeZone(ctx context.Context, tx postgres.Tx, clientID string) (*time.Location, error) {
	zones, err := s.TimeZones(ctx, tx, clientID)
	return zones[clientID], err
}

// TimeZones returns the time zones of several clients by ID. It returns [problem.ErrNotFound] if any client is unknown.
func (s *Service) TimeZones(ctx context.Context, tx postgres.Tx,
	clientIDs ...string,
) (map[string]*time.Location, error) {
	names, err := timeZones(ctx, tx, clientIDs)
	if err != nil {
		return nil, err
	}
	zones, loaded := map[string]*time.Location{}, map[string]*time.Location{}
	for _, client := range clientIDs {
		name, ok := names[client]
		if !ok {
			return nil, problem.ErrNotFound
		}
		if loaded[name] == nil {
			if loaded[name], err = zoneOf(name); err != nil {
				return nil, err
			}
		}
		zones[client] = loaded[name]
	}
	return zones, nil
}

// SetTimeZone sets the client's time zone to an IANA name such as Europe/Paris. It returns [ErrInvalid] or
// [problem.ErrNotFound].
func (s *Service) SetTimeZone(ctx context.Context, tx postgres.Tx, clientID, name string) error {
	if _, err := zoneOf(name); err != nil {
		return err
	}
	return updateTimeZone(ctx, tx, clientID, name)
}

// SetLanguage sets the language of messages to the client. It returns [ErrInvalid] for a language that the product does
// not support.
func (s *Service) SetLanguage(ctx context.Context, tx postgres.Tx, clientID, lang string) error {
	if text.Known(lang) != lang {
		return fmt.Errorf("%w: %.20q is not a language of the service", ErrInvalid, lang)
	}
	return updateLanguage(ctx, tx, clientID, lang, false)
}

// LearnLanguage is [Service.SetLanguage] for a client whose language is not known yet; it does not change a known
// language.
func (s *Service) LearnLanguage(ctx context.Context, tx postgres.Tx, clientID, lang string) error {
	return updateLanguage(ctx, tx, clientID, text.Known(lang), true)
}

// Lock returns a client, disabled or not. Until tx ends, no one else can change what the client may do. It must come
// first in its transaction. It returns [problem.ErrNotFound].
func (s *Service) Lock(ctx context.Context, tx postgres.Tx, clientID string) (Client, error) {
	if !storable(clientID) {
		return Client{}, problem.ErrNotFound
	}
	row, found, err := clientForUpdate(ctx, tx, clientID)
	if err == nil && !found {
		err = problem.ErrNotFound
	}
	return fromRow(row), err
}

// SetDisabled disables a client on the pages and in the API, or enables the client again. Disabling permanently ends
// the browser sessions, the marks of known browsers, and emailed links except those that restore an old address. The
// caller must end the connections to applications in the same transaction (oauth.Service.UnlinkAll). It returns
// [problem.ErrNotFound] for a client who is unknown or erased.
func (s *Service) SetDisabled(ctx context.Context, tx postgres.Tx, clientID string, disabled bool) error {
	c, err := s.Lock(ctx, tx, clientID)
	if err != nil {
		return err
	}
	found, err := updateDisabled(ctx, tx, clientID, disabled, c.browserEpoch+1)
	if err == nil && !found {
		err = problem.ErrNotFound
	}
	if err != nil || !disabled {
		return err
	}
	if _, err := s.EndSessions(ctx, tx, clientID); err != nil {
		return err
	}
	return endLinks(ctx, tx, clientID, kindReset, kindEmail)
}

// CheckPassword returns the client with these credentials, or [ErrBadCredentials]. It does the same work whether the
// address is unknown or the password wrong. If the password of a disabled client is right, it returns the client and
// [ErrDisabled]. Pass a handle of [postgres.DB.Read]: hashing takes tens of milliseconds, during which no transaction
// should be open.
func (s *Service) CheckPassword(ctx context.Context, tx postgres.Tx, email, plain string) (Client, error) {
	email = strings.TrimSpace(email)
	var row clientRow
	if storable(email) && len(email) <= text.MaxEmail {
		var err error
		if row, _, err = clientByEmail(ctx, tx, email); err != nil {
			return Client{}, err
		}
	}
	if !password.Verify(row.PasswordHash, plain) {
		return Client{}, ErrBadCredentials
	}
	if row.DisabledAt != nil {
		return fromRow(row), ErrDisabled
	}
	return fromRow(row), nil
}

// SignIn opens a browser session that lasts [SessionLifetime] and returns the token for its cookie. It returns
// [ErrBadCredentials] for a disabled client.
func (s *Service) SignIn(ctx context.Context, tx postgres.Tx, clientID string) (token string, err error) {
	return s.SignInFrom(ctx, tx, clientID, Device{})
}

// Session returns the client signed in with token, or [ErrNoSession].
func (s *Service) Session(ctx context.Context, tx postgres.Tx, token string) (Client, error) {
	if token == "" {
		return Client{}, ErrNoSession
	}
	row, found, err := clientBySession(ctx, tx, id.DigestOf(token))
	if err != nil {
		return Client{}, err
	}
	if !found {
		return Client{}, ErrNoSession
	}
	return fromRow(row), sessions.Touch(ctx, tx, id.DigestOf(token))
}

// SignOut ends the session with token. A session that has already ended is not an error.
func (s *Service) SignOut(ctx context.Context, tx postgres.Tx, token string) error {
	_, err := sessions.End(ctx, tx, id.DigestOf(token))
	return err
}

func (s *Service) row(ctx context.Context, tx postgres.Tx, clientID string) (clientRow, error) {
	if !storable(clientID) {
		return clientRow{}, problem.ErrNotFound
	}
	row, found, err := clientByID(ctx, tx, clientID)
	if err == nil && !found {
		err = problem.ErrNotFound
	}
	return row, err
}

func setPhone(row *clientRow, key vault.Key, phone string, verified bool, tx postgres.Tx) (err error) {
	row.PhoneSealed, row.PhoneVerifiedAt = nil, nil
	if phone == "" {
		return nil
	}
	if row.PhoneSealed, err = key.Seal(phonePlace(row.ID), []byte(phone)); err != nil {
		return err
	}
	if verified {
		row.PhoneVerifiedAt = &tx.Now
	}
	return nil
}

func phonePlace(clientID string) string { return "client.phone:" + clientID }
