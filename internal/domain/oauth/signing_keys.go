package oauth

import (
	"context"
	"slices"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// KeyState is the state of a signing key.
type KeyState string

// The states, in order. A key is published before and after the time in which it signs, so that no verifier meets a
// token with an unknown key.
const (
	KeyNext    KeyState = "NEXT"    // published, signs later
	KeySigning KeyState = "SIGNING" // signs
	KeyOld     KeyState = "OLD"     // published while its tokens may be valid
	KeyRetired KeyState = "RETIRED" // its tokens are rejected
)

// Key is a signing key as operators see it.
type Key struct {
	ID        string     `json:"kid"`
	State     KeyState   `json:"state"`
	CreatedAt time.Time  `json:"createdAt"`
	SignsFrom time.Time  `json:"signsFrom"`
	RetiredAt *time.Time `json:"retiredAt,omitempty"` // may be in the future
}

// SigningKeys lists every key in the database, newest first. Retired keys are deleted after [Retention].
func (s *Service) SigningKeys(ctx context.Context, tx postgres.Tx) ([]Key, error) {
	rows, err := allSigningKeys(ctx, tx)
	keys, signing := make([]Key, len(rows)), false
	for i, r := range rows {
		keys[i] = Key{ID: r.KID, CreatedAt: r.CreatedAt, SignsFrom: r.SignsFrom, RetiredAt: r.RetiredAt}
		k := &keys[i]
		switch {
		case k.RetiredAt != nil && !tx.Now.Before(*k.RetiredAt):
			k.State = KeyRetired
		case tx.Now.Before(k.SignsFrom):
			k.State = KeyNext
		case signing:
			k.State = KeyOld
		default:
			k.State, signing = KeySigning, true
		}
	}
	return keys, err
}

// RotateSigningKey adds a signing key. It is published now and signs after twice [JWKSMaxAge]. The older keys stay
// published until none of their tokens can be valid. Every replica follows within a second.
func (s *Service) RotateSigningKey(ctx context.Context, tx postgres.Tx) (kid string, err error) {
	if err := lockSigningKeys(ctx, tx); err != nil {
		return "", err
	}
	from := tx.Now.Add(keyLead)
	if err := retireOpenSigningKeys(ctx, tx, from.Add(keyTail)); err != nil {
		return "", err
	}
	return s.keys.add(ctx, tx, from)
}

// RetireSigningKey ends a compromised key immediately. Within a second every replica rejects tokens signed by it, so
// that applications refresh them. If no key is left to sign, the next key, or a new one, signs from now on. Verifiers
// that cache the published keys notice the change within [JWKSMaxAge].
//
// It returns [problem.ErrNotFound] for a key that does not exist or is retired.
func (s *Service) RetireSigningKey(ctx context.Context, tx postgres.Tx, kid string) error {
	if err := lockSigningKeys(ctx, tx); err != nil {
		return err
	}
	found, err := retireSigningKey(ctx, tx, kid)
	if err != nil {
		return err
	}
	if !found {
		return problem.ErrNotFound
	}
	return s.replaceSigningKey(ctx, tx)
}

// open reports whether the key has no end.
func (r signingKeyRow) open() bool { return r.RetiredAt == nil }

// replaceSigningKey ensures that a key signs now and that a key without an end signs in the future.
func (s *Service) replaceSigningKey(ctx context.Context, tx postgres.Tx) error {
	keys, err := publishedSigningKeys(ctx, tx)
	if err != nil {
		return err
	}
	signs := slices.ContainsFunc(keys, func(r signingKeyRow) bool { return !tx.Now.Before(r.SignsFrom) })
	from := tx.Now
	if signs {
		from = tx.Now.Add(keyLead)
	}
	slices.Reverse(keys)
	newest := slices.IndexFunc(keys, signingKeyRow.open)
	switch {
	case newest < 0:
		if _, err := s.keys.add(ctx, tx, from); err != nil {
			return err
		}
	case signs:
		from = keys[newest].SignsFrom
	default:
		return promoteSigningKey(ctx, tx, keys[newest].KID)
	}
	return keepSigningKeys(ctx, tx, from.Add(keyTail))
}
