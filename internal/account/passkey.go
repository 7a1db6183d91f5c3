package account

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"partnerd/internal/id"
	"partnerd/internal/passkey"
	"partnerd/internal/postgres"
	"partnerd/internal/text"
)

// Passkey is a key pair on a device of the client, of which we hold the public half.
type Passkey struct {
	ID         string
	Name       string // given by the client, 1 to 60 code points
	CreatedAt  time.Time
	LastUsedAt *time.Time
}

const (
	challengeLifetime = 10 * time.Minute
	maxPasskeys       = 20
	maxPasskeyName    = 60 // code points
)

// Challenge is what a browser is asked to sign. Token comes back with the answer, which counts once.
type Challenge struct {
	Token   string
	Options json.RawMessage // of navigator.credentials, with bytes as base64url
}

// HasPasskeys tells whether this deployment can offer them.
func (s *SelfService) HasPasskeys() bool { return s.passkeys != nil }

// BeginPasskey makes a challenge to register a passkey. It returns [ErrTooMany] when the client has 20.
func (s *SelfService) BeginPasskey(ctx context.Context, tx postgres.Tx, clientID string) (Challenge, error) {
	_, holder, err := s.holder(ctx, tx, clientID)
	if err != nil {
		return Challenge{}, err
	}
	if len(holder.Kept) >= maxPasskeys {
		return Challenge{}, ErrTooMany
	}
	q, err := s.passkeys.Register(holder)
	if err != nil {
		return Challenge{}, err
	}
	return s.challenge(ctx, tx, clientID, q)
}

// AddPasskey judges the browser's answer to [SelfService.BeginPasskey], keeps the passkey and tells the client. It
// returns [ErrPasskey], [ErrInvalid], or [ErrTooMany] when the client has 20; after each tx must be rolled back.
func (s *SelfService) AddPasskey(ctx context.Context, tx postgres.Tx, clientID, token, name string, answer []byte, lang string) error {
	name = norm.NFC.String(strings.TrimSpace(name))
	if !text.IsName(name, maxPasskeyName) {
		return fmt.Errorf("%w: the name must have 1 to %d characters, none of them a control character", ErrInvalid, maxPasskeyName)
	}
	challenge, err := deleteChallenge(ctx, tx, id.DigestOf(token), clientID)
	if err != nil {
		return err
	}
	if _, err := lockClient(ctx, tx, clientID); err != nil {
		return err
	}
	c, holder, err := s.holder(ctx, tx, clientID)
	if err != nil {
		return err
	}
	if len(holder.Kept) >= maxPasskeys {
		return ErrTooMany
	}
	key, err := s.passkeys.Registered(holder, challenge, answer)
	if err != nil {
		return err
	}
	err = insertPasskey(ctx, tx, passkeyRow{ID: tx.NewID(id.Passkey), ClientID: clientID, CredentialID: key.CredentialID, Credential: key.Kept, Name: name})
	if postgres.IsUnique(err, "client_passkeys_credential_id_key") {
		return fmt.Errorf("%w: it is registered already", ErrPasskey)
	}
	if err != nil {
		return err
	}
	return s.notify(ctx, tx, c, lang, "passkey.added")
}

// BeginPasskeySignIn makes a challenge for a sign-in without a name: the passkey says whose it is.
func (s *SelfService) BeginPasskeySignIn(ctx context.Context, tx postgres.Tx) (Challenge, error) {
	q, err := s.passkeys.SignIn()
	if err != nil {
		return Challenge{}, err
	}
	return s.challenge(ctx, tx, "", q)
}

// PasskeySignIn judges the browser's answer to [SelfService.BeginPasskeySignIn] and returns who it is and with which
// passkey. It returns [ErrPasskey], also for a client who is disabled; the challenge is spent then too, so tx should commit.
func (s *SelfService) PasskeySignIn(ctx context.Context, tx postgres.Tx, token string, answer []byte) (c Client, passkeyID string, err error) {
	challenge, err := deleteChallenge(ctx, tx, id.DigestOf(token), "")
	if err != nil {
		return Client{}, "", err
	}
	key, err := s.passkeys.SignedIn(challenge, answer, func(holderID string) (h passkey.Holder, err error) {
		c, h, err = s.holder(ctx, tx, holderID)
		return h, err
	})
	if err != nil {
		return Client{}, "", err
	}
	passkeyID, err = updatePasskey(ctx, tx, key.CredentialID, key.Kept)
	return c, passkeyID, err
}

// Passkeys lists the client's passkeys, the oldest first.
func (s *SelfService) Passkeys(ctx context.Context, tx postgres.Tx, clientID string) ([]Passkey, error) {
	rows, err := listPasskeys(ctx, tx, clientID)
	if err != nil {
		return nil, err
	}
	out := make([]Passkey, len(rows))
	for i, r := range rows {
		out[i] = Passkey{ID: r.ID, Name: r.Name, CreatedAt: r.CreatedAt, LastUsedAt: r.LastUsedAt}
	}
	return out, nil
}

// RemovePasskey forgets one of the client's passkeys, which ends the browser sessions that it opened, and tells the
// client. One that is gone is no error.
func (s *SelfService) RemovePasskey(ctx context.Context, tx postgres.Tx, clientID, passkeyID, lang string) error {
	c, err := s.deps.Accounts.Get(ctx, tx, clientID)
	if err != nil {
		return err
	}
	removed, err := deletePasskey(ctx, tx, clientID, passkeyID)
	if err != nil || !removed {
		return err
	}
	return s.notify(ctx, tx, c, lang, "passkey.removed")
}

func (s *SelfService) challenge(ctx context.Context, tx postgres.Tx, clientID string, q passkey.Question) (Challenge, error) {
	c := Challenge{Token: tx.NewSecret("chl"), Options: q.Options}
	return c, insertChallenge(ctx, tx, challengeRow{TokenHash: id.DigestOf(c.Token), ClientID: clientID, Challenge: q.Challenge, ExpiresAt: tx.Now.Add(challengeLifetime)})
}

// holder returns [ErrPasskey] for a client who cannot sign in.
func (s *SelfService) holder(ctx context.Context, tx postgres.Tx, clientID string) (Client, passkey.Holder, error) {
	if !storable(clientID) {
		return Client{}, passkey.Holder{}, ErrPasskey
	}
	row, found, err := clientByID(ctx, tx, clientID)
	if err != nil {
		return Client{}, passkey.Holder{}, err
	}
	if !found || row.DisabledAt != nil {
		return Client{}, passkey.Holder{}, ErrPasskey
	}
	h := passkey.Holder{ID: row.ID, Email: row.Email, Name: row.Name}
	rows, err := listPasskeys(ctx, tx, clientID)
	for _, r := range rows {
		h.Kept = append(h.Kept, r.Credential)
	}
	return fromRow(row), h, err
}
