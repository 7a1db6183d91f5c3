package oauth

import (
	"context"
	"slices"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// KeyState is where a signing key is in its life.
type KeyState string

// The states, in their order. A key that signs is published before and after, so that no verifier ever meets a token
// whose key it cannot know.
const (
	KeyNext    KeyState = "NEXT"    // published, signs later
	KeySigning KeyState = "SIGNING" // signs
	KeyOld     KeyState = "OLD"     // published while tokens of it may live
	KeyRetired KeyState = "RETIRED" // tokens of it are refused
)

// Key is a signing key as operators see it.
type Key struct {
	ID        string     `json:"kid"`
	State     KeyState   `json:"state"`
	CreatedAt time.Time  `json:"createdAt"`
	SignsFrom time.Time  `json:"signsFrom"`
	RetiredAt *time.Time `json:"retiredAt,omitempty"` // may lie in the future
}

// SigningKeys lists every key that the database knows, the newest first. Retired ones are forgotten after [Retention].
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

// RotateSigningKey adds a signing key. It is published now and signs after twice [JWKSMaxAge]; the older ones stay
// published until no token of theirs can be valid. Every replica follows within a second.
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

// RetireSigningKey ends a key at once, because it is no longer secret: within a second every replica refuses tokens
// that it signed, and their applications refresh. Where no key is left that signs, the next one signs from now on, or a
// new one does; verifiers that keep the published keys learn of it within [JWKSMaxAge]. It returns
// [problem.ErrNotFound] for a key that does not exist or is retired.
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

// open tells whether nothing ends the key.
func (r signingKeyRow) open() bool { return r.RetiredAt == nil }

// replaceSigningKey sees to it that a key signs now and one that nothing ends signs in future.
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
