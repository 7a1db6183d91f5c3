package oauth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jwk"

	"partnerd/internal/base/seal"
	"partnerd/internal/infra/postgres"
)

// JWKSMaxAge is how long verifiers may cache the published keys.
const JWKSMaxAge = 5 * time.Minute

const (
	keyLead     = 2 * JWKSMaxAge                      // time from publishing a new key until it signs
	keyTail     = AccessTokenLifetime + 5*time.Minute // time a key stays published after the next one signs
	keysFresh   = time.Second                         // maximum age of keys in memory, so that every replica follows
	keysPatient = 100 * time.Millisecond              // minimum pause between rereads caused by unknown keys
	algorithm   = jwa.ES256
)

type signingKey struct {
	kid       string
	private   *ecdsa.PrivateKey
	public    json.RawMessage // as published
	signsFrom time.Time
	retiredAt *time.Time
}

func (k signingKey) publishedAt(now time.Time) bool {
	return k.retiredAt == nil || now.Before(*k.retiredAt)
}

type keyset struct {
	keys   []signingKey // by signsFrom
	readAt time.Time
}

func (s *keyset) find(kid string, now time.Time) (signingKey, bool) {
	for _, k := range s.keys {
		if k.kid == kid && k.publishedAt(now) {
			return k, true
		}
	}
	return signingKey{}, false
}

// signer returns the newest key that may sign. If a clock lags behind the one that created the only key, the oldest key
// signs, so that the service does not stop.
func (s *keyset) signer(now time.Time) (signingKey, error) {
	for i := len(s.keys) - 1; i >= 0; i-- {
		if k := s.keys[i]; k.publishedAt(now) && (i == 0 || !k.signsFrom.After(now)) {
			return k, nil
		}
	}
	return signingKey{}, errors.New("oauth: there is no signing key")
}

// keyring caches the signing keys of the database in memory.
type keyring struct {
	db      *postgres.DB
	box     *seal.Box
	mu      sync.Mutex // held while reading
	current atomic.Pointer[keyset]
}

func openKeyring(ctx context.Context, db *postgres.DB, box *seal.Box) (*keyring, error) {
	k := &keyring{db: db, box: box}
	err := db.InTx(ctx, func(tx postgres.Tx) error {
		if err := lockSigningKeys(ctx, tx); err != nil {
			return err
		}
		keys, err := publishedSigningKeys(ctx, tx)
		if err != nil || slices.ContainsFunc(keys, signingKeyRow.open) {
			return err
		}
		_, err = k.add(ctx, tx, tx.Now)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("prepare signing keys: %w", err)
	}
	return k, k.read(ctx)
}

// CheckKeys decrypts the published signing keys with box, and returns how many there are. It creates none.
func CheckKeys(ctx context.Context, tx postgres.Tx, box *seal.Box) (n int, err error) {
	keys, err := publishedSigningKeys(ctx, tx)
	if err != nil {
		return 0, err
	}
	for _, r := range keys {
		if _, err := (&keyring{box: box}).open(r); err != nil {
			return 0, fmt.Errorf("open signing key %s: %w", r.KID, err)
		}
	}
	return len(keys), nil
}

func (k *keyring) add(ctx context.Context, tx postgres.Tx, signsFrom time.Time) (kid string, err error) {
	raw, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make signing key: %w", err)
	}
	private, err := jwk.FromRaw(raw)
	if err != nil {
		return "", fmt.Errorf("make signing key: %w", err)
	}
	print, err := private.Thumbprint(crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("name signing key: %w", err)
	}
	kid = base64.RawURLEncoding.EncodeToString(print)
	err = errors.Join(private.Set(jwk.KeyIDKey, kid), private.Set(jwk.AlgorithmKey, algorithm),
		private.Set(jwk.KeyUsageKey, jwk.ForSignature))
	if err != nil {
		return "", fmt.Errorf("name signing key: %w", err)
	}
	public, err := private.PublicKey()
	if err != nil {
		return "", fmt.Errorf("make signing key: %w", err)
	}
	privateJSON, err1 := json.Marshal(private)
	publicJSON, err2 := json.Marshal(public)
	if err := errors.Join(err1, err2); err != nil {
		return "", fmt.Errorf("write signing key: %w", err)
	}
	sealed, err := k.box.Seal(keyPlace(kid), privateJSON)
	if err != nil {
		return "", err
	}
	return kid, insertSigningKey(ctx, tx, signingKeyRow{KID: kid, PrivateSealed: sealed, PublicJWK: publicJSON,
		SignsFrom: signsFrom, CreatedAt: tx.Now})
}

// read replaces the keys in memory with those of the database.
func (k *keyring) read(ctx context.Context) error {
	tx := k.db.Read()
	rows, err := publishedSigningKeys(ctx, tx)
	if err != nil {
		return err
	}
	set := &keyset{readAt: tx.Now}
	for _, r := range rows {
		key, err := k.open(r)
		if err != nil {
			return err
		}
		set.keys = append(set.keys, key)
	}
	k.current.Store(set)
	return nil
}

// open decrypts a key unless it is already in memory. The kid is a digest of the key, so it never changes.
func (k *keyring) open(r signingKeyRow) (signingKey, error) {
	out := signingKey{kid: r.KID, public: r.PublicJWK, signsFrom: r.SignsFrom, retiredAt: r.RetiredAt}
	if current := k.current.Load(); current != nil {
		for _, known := range current.keys {
			if known.kid == r.KID {
				out.private = known.private
				return out, nil
			}
		}
	}
	plain, err := k.box.Open(keyPlace(r.KID), r.PrivateSealed)
	if err != nil {
		return out, fmt.Errorf("read signing key (is this the key that the database was made with?): %w", err)
	}
	parsed, err := jwk.ParseKey(plain)
	if err != nil {
		return out, fmt.Errorf("read signing key: %w", err)
	}
	out.private = &ecdsa.PrivateKey{}
	if err := parsed.Raw(out.private); err != nil {
		return out, fmt.Errorf("read signing key: %w", err)
	}
	return out, nil
}

// set returns the keys in memory, reread after a second. All callers wait for that read, so that even an idle replica
// never signs or accepts what the database no longer allows.
func (k *keyring) set(ctx context.Context) (*keyset, error) {
	if !k.olderThan(keysFresh) {
		return k.current.Load(), nil
	}
	return k.reread(ctx, keysFresh)
}

// olderThan also returns true for keys read in the future, after the clock was set back.
func (k *keyring) olderThan(d time.Duration) bool {
	age := k.db.Clock().Now().Sub(k.current.Load().readAt)
	return age >= d || age < 0
}

func (k *keyring) reread(ctx context.Context, age time.Duration) (*keyset, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.olderThan(age) { // no concurrent caller has done so
		if err := k.read(ctx); err != nil {
			return nil, err
		}
	}
	return k.current.Load(), nil
}

// signer returns the keys and the one that signs now.
func (k *keyring) signer(ctx context.Context) (*keyset, signingKey, error) {
	set, err := k.set(ctx)
	if err != nil {
		return nil, signingKey{}, err
	}
	key, err := set.signer(k.db.Clock().Now())
	return set, key, err
}

// find returns the key with the given ID. Another replica may just have created it, so an unknown key is looked up in
// the database, at most once per [keysPatient].
func (k *keyring) find(ctx context.Context, kid string) (signingKey, bool, error) {
	set, err := k.set(ctx)
	if err != nil {
		return signingKey{}, false, err
	}
	now := k.db.Clock().Now()
	if key, ok := set.find(kid, now); ok {
		return key, true, nil
	}
	if set, err = k.reread(ctx, keysPatient); err != nil {
		return signingKey{}, false, err
	}
	key, ok := set.find(kid, now)
	return key, ok, nil
}

// JWKS returns the published keys as a JSON Web Key Set (RFC 7517). Verifiers may cache it for [JWKSMaxAge].
func (s *Service) JWKS(ctx context.Context) ([]byte, error) {
	set, err := s.keys.set(ctx)
	if err != nil {
		return nil, err
	}
	published := []json.RawMessage{}
	for _, k := range set.keys {
		if k.publishedAt(s.db.Clock().Now()) {
			published = append(published, k.public)
		}
	}
	return json.Marshal(map[string]any{"keys": published})
}

func keyPlace(kid string) string { return "signing_key:" + kid }
