package vault

import (
	"context"
	"errors"

	"partnerd/internal/base/seal"
	"partnerd/internal/infra/postgres"
)

// version is the first byte of what a client's key sealed.
const version = 2

// ErrNoKey means that the client is unknown or erased.
var ErrNoKey = errors.New("the client has no key and gets none")

// Keys creates, opens and destroys the clients' keys. It is safe for concurrent use.
type Keys struct{ master *seal.Box }

// New returns the service. Keys are sealed with master.
func New(master *seal.Box) *Keys { return &Keys{master} }

// Key opens what is sealed for one client. It seals only if it comes from [Keys.Create] or [Keys.ForWriting].
type Key struct{ master, client *seal.Box } // client is nil if there is no key

// Create creates the key of a client who is added in the same transaction.
func (k *Keys) Create(ctx context.Context, tx postgres.Tx, clientID string) (Key, error) {
	data := seal.NewDataKey()
	sealed, err := k.master.Seal(place(clientID), data)
	if err != nil {
		return Key{}, err
	}
	if err := insertKey(ctx, tx, clientID, sealed); err != nil {
		return Key{}, err
	}
	return k.Of(clientID, sealed)
}

// Of returns the client's key from the value that [Stored] selected: nil for a client without a key.
func (k *Keys) Of(clientID string, stored []byte) (Key, error) {
	if stored == nil {
		return Key{master: k.master}, nil
	}
	data, err := k.master.Open(place(clientID), stored)
	if err != nil {
		return Key{}, err
	}
	box, err := seal.OpenDataKey(data)
	return Key{k.master, box}, err
}

// ForWriting is [Keys.Of] for a key that must seal. If stored is nil, it finds the key, or creates it for a client of
// an older release. It returns [ErrNoKey].
func (k *Keys) ForWriting(ctx context.Context, tx postgres.Tx, clientID string, stored []byte) (Key, error) {
	if stored != nil {
		return k.Of(clientID, stored)
	}
	fresh, err := k.master.Seal(place(clientID), seal.NewDataKey())
	if err != nil {
		return Key{}, err
	}
	if stored, err = keyOrInsert(ctx, tx, clientID, fresh); err != nil {
		return Key{}, err
	}
	return k.Of(clientID, stored)
}

// Destroy makes everything that the client's key sealed unreadable. The caller must have locked the client.
func (k *Keys) Destroy(ctx context.Context, tx postgres.Tx, clientID string) error {
	return deleteKey(ctx, tx, clientID)
}

// Seal encrypts plaintext for a place, as [seal.Box.Seal] does.
func (k Key) Seal(place string, plaintext []byte) ([]byte, error) {
	if k.client == nil {
		return nil, ErrNoKey
	}
	c, err := k.client.Seal(place, plaintext)
	if err != nil {
		return nil, err
	}
	return append([]byte{version}, c...), nil
}

// Open decrypts what [Key.Seal] sealed for the same place, or the master key in an older release.
func (k Key) Open(place string, ciphertext []byte) ([]byte, error) {
	if len(ciphertext) == 0 || ciphertext[0] != version {
		return k.master.Open(place, ciphertext)
	}
	if k.client == nil {
		return nil, ErrNoKey
	}
	return k.client.Open(place, ciphertext[1:])
}

func place(clientID string) string { return "client.key:" + clientID }
