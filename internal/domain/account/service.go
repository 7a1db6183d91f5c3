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

// Service keeps clients and their browser sessions. Safe for concurrent use.
type Service struct {
	box  *seal.Box // seals what a browser is given to keep
	keys *vault.Keys
}

// New makes the service; phone numbers are sealed with the keys of their clients, and those with box.
func New(box *seal.Box) *Service { return &Service{box, vault.New(box)} }

// Create adds a client. It returns [ErrInvalid] or [ErrEmailTaken]; after the latter the transaction cannot go on.
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

// ByEmail returns the client of exactly that address, whatever the case, or [problem.ErrNotFound].
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

// VerifiedPhone returns the number to call the client on, in E.164; ok is false when there is none that was verified.
func (s *Service) VerifiedPhone(ctx context.Context, tx postgres.Tx,
	clientID string,
) (e164 string, ok bool, err error) {
	e164, ok, _, err = s.verifiedPhone(ctx, tx, clientID)
	return e164, ok, err
}

// PhoneToKeep is [Service.VerifiedPhone] for who keeps a copy of the number: with the key that is to seal it.
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

// verifiedPhone also returns the client's key as it is stored.
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

// SetPhone replaces the client's number; an empty one removes it.
// It returns [problem.ErrNotFound] or [ErrInvalid].
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

// TimeZone returns where the client lives, for the hours of the day.
func (s *Service) TimeZone(ctx context.Context, tx postgres.Tx, clientID string) (*time.Location, error) {
	zones, err := s.TimeZones(ctx, tx, clientID)
	return zones[clientID], err
}

// TimeZones returns the zones of several clients by their ids. It returns [problem.ErrNotFound] unless there are all of
// them.
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

// SetTimeZone changes it to a zone of the IANA database, for example Europe/Paris. It returns [ErrInvalid] or
// [problem.ErrNotFound].
func (s *Service) SetTimeZone(ctx context.Context, tx postgres.Tx, clientID, name string) error {
	if _, err := zoneOf(name); err != nil {
		return err
	}
	return updateTimeZone(ctx, tx, clientID, name)
}

// SetLanguage has the client's messages come in one of the product's languages from now on. It returns [ErrInvalid].
func (s *Service) SetLanguage(ctx context.Context, tx postgres.Tx, clientID, lang string) error {
	if text.Known(lang) != lang {
		return fmt.Errorf("%w: %.20q is not a language of the service", ErrInvalid, lang)
	}
	return updateLanguage(ctx, tx, clientID, lang, false)
}

// LearnLanguage is [Service.SetLanguage] for a client whose language is not known yet.
func (s *Service) LearnLanguage(ctx context.Context, tx postgres.Tx, clientID, lang string) error {
	return updateLanguage(ctx, tx, clientID, text.Known(lang), true)
}

// Lock returns a client, disabled or not, and lets nobody else change what it may do until tx ends. It comes first in
// its transaction. It returns [problem.ErrNotFound].
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

// SetDisabled shuts a client out of pages and API, or lets it in again. What shutting out ends stays ended: the browser
// sessions, the marks of known browsers, and the links that were mailed, but for those that give back an old address.
// Whoever shuts a client out ends the links to applications too, in the same transaction (oauth.Service.UnlinkAll). It
// returns [problem.ErrNotFound] for a client who is unknown or erased.
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

// CheckPassword returns the client whose credentials these are, or [ErrBadCredentials] after the same work whether the
// address is unknown or the password wrong. [ErrDisabled] with the client is for whoever knows the password of a
// disabled one. Give it a handle of [postgres.DB.Read]: hashing takes tens of milliseconds, during which no transaction
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

// SignIn opens a browser session of [SessionLifetime] and returns its token for the cookie. It returns
// [ErrBadCredentials] for a client who is disabled.
func (s *Service) SignIn(ctx context.Context, tx postgres.Tx, clientID string) (token string, err error) {
	return s.SignInFrom(ctx, tx, clientID, Device{})
}

// Session returns who is signed in with token, or [ErrNoSession].
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

// SignOut ends the session of token. One that has ended already is no error.
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
