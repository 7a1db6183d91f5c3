package passkey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"partnerd/internal/base/id"
	"partnerd/internal/base/text"
	"partnerd/internal/infra/postgres"
)

const maxName = 60 // code points

// Limits of passkeys.
const (
	Max               = 20 // per person
	ChallengeLifetime = 10 * time.Minute
)

// Errors of passkeys. ErrRefused means that a response does not match the challenge, or no passkey of the person.
var (
	ErrRefused = errors.New("the passkey was not accepted")
	ErrTooMany = fmt.Errorf("the person has %d passkeys, and may have no more", Max)
	ErrName    = fmt.Errorf("the name of a passkey must have 1 to %d characters, none of them a control character",
		maxName)
)

// Person is an owner of passkeys.
type Person struct{ ID, Email, Name string }

// Passkey is a key pair on a person's device, of which we store the public key.
type Passkey struct {
	ID         string
	Name       string // chosen by the person, 1 to 60 code points
	CreatedAt  time.Time
	LastUsedAt *time.Time
}

// Challenge is what a browser is asked to sign. Token is sent back with the response, which is accepted once, within
// [ChallengeLifetime].
type Challenge struct {
	Token   string
	Options json.RawMessage // for navigator.credentials, with bytes as base64url
}

// Ring stores the passkeys of one kind of people, and the challenges that wait for a response.
type Ring struct {
	site   *site // nil if the site has no domain name to bind passkeys to
	tables Tables
}

// NewRing returns a ring for the site at baseURL.
func NewRing(baseURL string, tables Tables) (*Ring, error) {
	s, err := newSite(baseURL)
	return &Ring{s, tables}, err
}

// Offered reports whether this site can offer passkeys. A site whose host is an IP address cannot.
func (r *Ring) Offered() bool { return r.site != nil }

// Begin creates a challenge to register a passkey of a person. It returns [ErrTooMany].
func (r *Ring) Begin(ctx context.Context, tx postgres.Tx, p Person) (Challenge, error) {
	h, err := r.holder(ctx, tx, p)
	if err != nil {
		return Challenge{}, err
	}
	if len(h.kept) >= Max {
		return Challenge{}, ErrTooMany
	}
	q, err := r.site.register(h)
	if err != nil {
		return Challenge{}, err
	}
	return r.challenge(ctx, tx, p.ID, q)
}

// Add verifies the browser's response to [Ring.Begin] and stores the passkey. The person must be locked. It returns
// [ErrName], [ErrRefused] or [ErrTooMany]; after each of them tx must be rolled back.
func (r *Ring) Add(ctx context.Context, tx postgres.Tx, p Person, token, name string, answer []byte) error {
	name = norm.NFC.String(strings.TrimSpace(name))
	if !text.IsName(name, maxName) {
		return ErrName
	}
	challenge, err := r.takeChallenge(ctx, tx, id.DigestOf(token), p.ID)
	if err != nil {
		return err
	}
	h, err := r.holder(ctx, tx, p)
	if err != nil {
		return err
	}
	if len(h.kept) >= Max {
		return ErrTooMany
	}
	key, err := r.site.registered(h, challenge, answer)
	if err != nil {
		return err
	}
	return r.insert(ctx, tx, p.ID, name, key)
}

// BeginSignIn creates a challenge for a sign-in without a user name: the passkey identifies its owner.
func (r *Ring) BeginSignIn(ctx context.Context, tx postgres.Tx) (Challenge, error) {
	q, err := r.site.signIn()
	if err != nil {
		return Challenge{}, err
	}
	return r.challenge(ctx, tx, "", q)
}

// SignIn verifies the browser's response to [Ring.BeginSignIn] and returns the ID of the passkey used. find returns the
// person with an ID, which may come from a stranger, or [ErrRefused] if no such person may sign in. SignIn returns
// [ErrRefused]; the challenge is spent even then, so tx should commit.
func (r *Ring) SignIn(ctx context.Context, tx postgres.Tx, token string, answer []byte,
	find func(personID string) (Person, error),
) (passkeyID string, err error) {
	challenge, err := r.takeChallenge(ctx, tx, id.DigestOf(token), "")
	if err != nil {
		return "", err
	}
	key, err := r.site.signedIn(challenge, answer, func(personID string) (holder, error) {
		p, err := find(personID)
		if err != nil {
			return holder{}, err
		}
		return r.holder(ctx, tx, p)
	})
	if err != nil {
		return "", err
	}
	return r.use(ctx, tx, key)
}

// List returns a person's passkeys, oldest first.
func (r *Ring) List(ctx context.Context, tx postgres.Tx, personID string) ([]Passkey, error) {
	rows, err := r.rows(ctx, tx, personID)
	list := make([]Passkey, len(rows))
	for i, k := range rows {
		list[i] = Passkey{ID: k.ID, Name: k.Name, CreatedAt: k.CreatedAt, LastUsedAt: k.LastUsedAt}
	}
	return list, err
}

// Remove deletes one of a person's passkeys and reports whether it existed.
func (r *Ring) Remove(ctx context.Context, tx postgres.Tx, personID, passkeyID string) (bool, error) {
	n, err := r.delete(ctx, tx, personID, []string{passkeyID})
	return n == 1, err
}

// RemoveThose deletes the passkeys of a person for which ends returns true. The person must be locked. It deletes their
// challenges first, so a passkey being added is either seen here or not added.
func (r *Ring) RemoveThose(ctx context.Context, tx postgres.Tx, personID string, ends func(Passkey) bool) error {
	if err := r.deleteChallenges(ctx, tx, personID); err != nil {
		return err
	}
	list, err := r.List(ctx, tx, personID)
	if err != nil {
		return err
	}
	var over []string
	for _, k := range list {
		if ends(k) {
			over = append(over, k.ID)
		}
	}
	_, err = r.delete(ctx, tx, personID, over)
	return err
}

func (r *Ring) challenge(ctx context.Context, tx postgres.Tx, personID string, q question) (Challenge, error) {
	c := Challenge{Token: tx.NewSecret("chl"), Options: q.options}
	return c, r.insertChallenge(ctx, tx, personID, ChallengeRow{TokenHash: id.DigestOf(c.Token), Challenge: q.challenge,
		ExpiresAt: tx.Now.Add(ChallengeLifetime)})
}

func (r *Ring) holder(ctx context.Context, tx postgres.Tx, p Person) (holder, error) {
	h := holder{Person: p}
	rows, err := r.rows(ctx, tx, p.ID)
	for _, k := range rows {
		h.kept = append(h.kept, k.Credential)
	}
	return h, err
}
