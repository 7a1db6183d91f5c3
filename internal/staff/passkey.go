package staff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"partnerd/internal/id"
	"partnerd/internal/passkey"
	"partnerd/internal/postgres"
	"partnerd/internal/text"
)

const (
	challengeLifetime = 10 * time.Minute
	maxPasskeys       = 20
	maxPasskeyName    = 60 // code points
)

// Faults of passkeys.
var (
	ErrPasskey = passkey.ErrRefused
	ErrTooMany = errors.New("the person has as many passkeys as there may be")
)

// Passkey is a key pair on a device of the person, of which we hold the public half.
type Passkey struct {
	ID         string
	Name       string // given by the person, 1 to 60 code points
	CreatedAt  time.Time
	LastUsedAt *time.Time
}

// Challenge is what a browser is asked to sign. Token comes back with the answer, which counts once.
type Challenge struct {
	Token   string
	Options json.RawMessage // of navigator.credentials, with bytes as base64url
}

// HasPasskeys tells whether this deployment can offer them.
func (s *Service) HasPasskeys() bool { return s.passkeys != nil }

// BeginPasskey makes a challenge to register a passkey. It returns [ErrTooMany] when the person has 20.
func (s *Service) BeginPasskey(ctx context.Context, tx postgres.Tx, staffID string) (Challenge, error) {
	r, err := personByID(ctx, tx, staffID)
	if err != nil {
		return Challenge{}, err
	}
	h, err := holder(ctx, tx, r)
	if err != nil {
		return Challenge{}, err
	}
	if len(h.Kept) >= maxPasskeys {
		return Challenge{}, ErrTooMany
	}
	q, err := s.passkeys.Register(h)
	if err != nil {
		return Challenge{}, err
	}
	return challenge(ctx, tx, staffID, q)
}

// AddPasskey judges the browser's answer to [Service.BeginPasskey], keeps the passkey and tells the person. It returns
// [ErrPasskey], [ErrInvalid], or [ErrTooMany] when the person has 20; after each tx must be rolled back.
func (s *Service) AddPasskey(ctx context.Context, tx postgres.Tx, staffID, token, name string, answer []byte) error {
	name = norm.NFC.String(strings.TrimSpace(name))
	if !text.IsName(name, maxPasskeyName) {
		return fmt.Errorf("%w: the name must have 1 to %d characters, none of them a control character", ErrInvalid, maxPasskeyName)
	}
	r, err := lockPerson(ctx, tx, staffID)
	if err != nil {
		return err
	}
	asked, err := takeChallenge(ctx, tx, id.DigestOf(token), staffID)
	if err != nil {
		return err
	}
	h, err := holder(ctx, tx, r)
	if err != nil {
		return err
	}
	if len(h.Kept) >= maxPasskeys {
		return ErrTooMany
	}
	key, err := s.passkeys.Registered(h, asked, answer)
	if err != nil {
		return err
	}
	err = insertPasskey(ctx, tx, passkeyRow{ID: tx.NewID(id.Passkey), StaffID: staffID, CredentialID: key.CredentialID, Credential: key.Kept, Name: name})
	if err != nil {
		return err
	}
	return s.notify(ctx, tx, r, "passkey.added")
}

// BeginPasskeySignIn makes a challenge for a sign-in without a name: the passkey says whose it is.
func (s *Service) BeginPasskeySignIn(ctx context.Context, tx postgres.Tx) (Challenge, error) {
	q, err := s.passkeys.SignIn()
	if err != nil {
		return Challenge{}, err
	}
	return challenge(ctx, tx, "", q)
}

// PasskeySignIn judges the browser's answer to [Service.BeginPasskeySignIn] and opens a complete session: the passkey has verified
// its user. It returns [ErrPasskey], also for who is disabled; the challenge is spent then too, so tx should commit.
func (s *Service) PasskeySignIn(ctx context.Context, tx postgres.Tx, token string, answer []byte, d Device) (session string, p Person, err error) {
	asked, err := takeChallenge(ctx, tx, id.DigestOf(token), "")
	if err != nil {
		return "", Person{}, err
	}
	var r staffRow
	key, err := s.passkeys.SignedIn(asked, answer, func(holderID string) (passkey.Holder, error) {
		if !text.IsName(holderID, 100) { // an identifier is not longer
			return passkey.Holder{}, ErrPasskey
		}
		var err error
		if r, err = lockPerson(ctx, tx, holderID); errors.Is(err, ErrNotFound) || err == nil && r.person().State != Active {
			err = ErrPasskey
		}
		if err != nil {
			return passkey.Holder{}, err
		}
		return holder(ctx, tx, r)
	})
	if err != nil {
		return "", Person{}, err
	}
	passkeyID, err := updatePasskey(ctx, tx, key)
	if err != nil {
		return "", Person{}, err
	}
	session, err = openSession(ctx, tx, r, sessionRow{Complete: true, PasskeyID: passkeyID}, d)
	return session, r.person(), err
}

// Passkeys lists a person's passkeys, the oldest first.
func (s *Service) Passkeys(ctx context.Context, tx postgres.Tx, staffID string) ([]Passkey, error) {
	rows, err := listPasskeys(ctx, tx, staffID)
	if err != nil {
		return nil, err
	}
	out := make([]Passkey, len(rows))
	for i, r := range rows {
		out[i] = Passkey{ID: r.ID, Name: r.Name, CreatedAt: r.CreatedAt, LastUsedAt: r.LastUsedAt}
	}
	return out, nil
}

// RemovePasskey forgets one of a person's passkeys, which ends the sessions that it opened, and tells the person. One that is
// gone is no error.
func (s *Service) RemovePasskey(ctx context.Context, tx postgres.Tx, staffID, passkeyID string) error {
	r, err := lockPerson(ctx, tx, staffID)
	if err != nil {
		return err
	}
	removed, err := deletePasskey(ctx, tx, staffID, passkeyID)
	if err != nil || !removed {
		return err
	}
	return s.notify(ctx, tx, r, "passkey.removed")
}

func challenge(ctx context.Context, tx postgres.Tx, staffID string, q passkey.Question) (Challenge, error) {
	c := Challenge{Token: tx.NewSecret("chl"), Options: q.Options}
	return c, insertChallenge(ctx, tx, challengeRow{TokenHash: id.DigestOf(c.Token), StaffID: staffID, Challenge: q.Challenge, ExpiresAt: tx.Now.Add(challengeLifetime)})
}

func holder(ctx context.Context, tx postgres.Tx, r staffRow) (passkey.Holder, error) {
	h := passkey.Holder{ID: r.ID, Email: r.Email, Name: r.Name}
	rows, err := listPasskeys(ctx, tx, r.ID)
	for _, k := range rows {
		h.Kept = append(h.Kept, k.Credential)
	}
	return h, err
}
