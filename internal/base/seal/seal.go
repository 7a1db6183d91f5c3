// Package seal encrypts data that must not be readable in a copy of the database: phone numbers, subjects,
// descriptions, webhook signing secrets, private signing keys and lawyers' notes.
//
// There are two kinds of key, both Tink keysets so that they can be rotated:
//
//   - [Box] is symmetric; the program seals and opens with it.
//   - [Drop] is the public key of a key pair; the program can seal notes and cannot open them (specification section 1:
//     the full note is never exposed).
//
// A Box can also use a data key ([NewDataKey]), which is never rotated: it is destroyed with what it sealed (package
// vault).
package seal

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/aead/subtle"
	"github.com/tink-crypto/tink-go/v2/core/cryptofmt"
	"github.com/tink-crypto/tink-go/v2/hybrid"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// Box seals and opens. It is safe for concurrent use.
type Box struct {
	aead    tink.AEAD
	parts   []Part // of a key made by [NewKey], oldest first
	sealing Part
}

// Part identifies one of the keys in a key made by [NewKey]. What it seals begins with its number.
type Part uint32

func (p Part) String() string { return fmt.Sprintf("%08x", uint32(p)) }

// partPrefix is the length of the prefix of what a part seals: a byte of Tink's, and the part.
const partPrefix = 1 + 4

// Mark returns the prefix of everything that the part sealed.
func (p Part) Mark() []byte {
	return binary.BigEndian.AppendUint32([]byte{cryptofmt.TinkStartByte}, uint32(p))
}

// PartOf returns the part that sealed a ciphertext. It returns false if no key made by [NewKey] sealed it.
func PartOf(ciphertext []byte) (Part, bool) {
	if len(ciphertext) < partPrefix || ciphertext[0] != cryptofmt.TinkStartByte {
		return 0, false
	}
	return Part(binary.BigEndian.Uint32(ciphertext[1:])), true
}

// Sealing returns the part that seals.
func (b *Box) Sealing() Part { return b.sealing }

// Has reports whether the key has the part, and so opens what it sealed.
func (b *Box) Has(p Part) bool { return slices.Contains(b.parts, p) }

// Parts returns the parts, oldest first.
func (b *Box) Parts() []Part { return slices.Clone(b.parts) }

// ErrOpen means that a ciphertext was sealed by another key or for another place, or was changed.
var ErrOpen = errors.New("the key does not open it")

var errOtherKind = errors.New("it is not a key of this kind, or it was changed")

// Drop only seals. It is safe for concurrent use.
type Drop struct{ encrypt tink.HybridEncrypt }

// NewKey returns a fresh key for [OpenBox], as text.
func NewKey() (string, error) {
	h, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return "", fmt.Errorf("make key: %w", err)
	}
	return encode(h)
}

// NewKeyPair returns a fresh key pair for notes, as text. The public key is for [OpenDrop].
func NewKeyPair() (public, private string, err error) {
	h, err := keyset.NewHandle(hybrid.DHKEM_X25519_HKDF_SHA256_HKDF_SHA256_AES_256_GCM_Key_Template())
	if err != nil {
		return "", "", fmt.Errorf("make key pair: %w", err)
	}
	p, err := h.Public()
	if err != nil {
		return "", "", fmt.Errorf("make key pair: %w", err)
	}
	if private, err = encode(h); err != nil {
		return "", "", err
	}
	public, err = encode(p)
	return public, private, err
}

// OpenBox reads a key made by [NewKey].
func OpenBox(key string) (*Box, error) {
	h, err := decode(key)
	if err != nil {
		return nil, err
	}
	a, err := aead.New(h)
	if err != nil {
		return nil, errOtherKind
	}
	info := h.KeysetInfo()
	b := &Box{aead: a, sealing: Part(info.GetPrimaryKeyId())}
	for _, k := range info.GetKeyInfo() {
		b.parts = append(b.parts, Part(k.GetKeyId()))
	}
	return b, nil
}

const dataKeySize = 32 // AES-256

// NewDataKey returns a fresh key for [OpenDataKey].
func NewDataKey() []byte {
	key := make([]byte, dataKeySize)
	rand.Read(key) // never fails
	return key
}

// OpenDataKey reads a key made by [NewDataKey].
func OpenDataKey(key []byte) (*Box, error) {
	if len(key) != dataKeySize {
		return nil, fmt.Errorf("read data key: it has %d bytes", len(key))
	}
	a, err := subtle.NewAESGCM(key)
	if err != nil {
		return nil, fmt.Errorf("read data key: %w", err)
	}
	return &Box{aead: a}, nil
}

// OpenDrop reads the public key of a pair made by [NewKeyPair].
func OpenDrop(public string) (*Drop, error) {
	h, err := decode(public)
	if err != nil {
		return nil, err
	}
	e, err := hybrid.NewHybridEncrypt(h)
	if err != nil {
		return nil, errOtherKind
	}
	return &Drop{e}, nil
}

// Seal encrypts plaintext for a place, for example "client.phone:cli_…". [Box.Open] needs the same place, so a
// ciphertext that was moved to another row or column does not open.
func (b *Box) Seal(place string, plaintext []byte) ([]byte, error) {
	c, err := b.aead.Encrypt(plaintext, []byte(place))
	if err != nil {
		return nil, fmt.Errorf("seal %s: %w", place, err)
	}
	return c, nil
}

// Open decrypts what [Box.Seal] sealed for the same place.
func (b *Box) Open(place string, ciphertext []byte) ([]byte, error) {
	p, err := b.aead.Decrypt(ciphertext, []byte(place))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w: %w", place, ErrOpen, err)
	}
	return p, nil
}

// Seal encrypts plaintext for a place; only the holder of the private key can open it.
func (d *Drop) Seal(place string, plaintext []byte) ([]byte, error) {
	c, err := d.encrypt.Encrypt(plaintext, []byte(place))
	if err != nil {
		return nil, fmt.Errorf("seal %s: %w", place, err)
	}
	return c, nil
}

func encode(h *keyset.Handle) (string, error) {
	var buf bytes.Buffer
	if err := insecurecleartextkeyset.Write(h, keyset.NewBinaryWriter(&buf)); err != nil {
		return "", fmt.Errorf("write key: %w", err)
	}
	return base64.StdEncoding.EncodeToString(buf.Bytes()), nil
}

// decode replaces the library's errors about an invalid key, because they name internals of the library.
func decode(key string) (*keyset.Handle, error) {
	key = strings.TrimSpace(key)
	if key == "" {
		return nil, errors.New("it is empty")
	}
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		return nil, errors.New("it is not base64, so it was cut off or changed")
	}
	h, err := insecurecleartextkeyset.Read(keyset.NewBinaryReader(bytes.NewReader(raw)))
	if err != nil {
		return nil, errors.New("it is no key, so it was cut off or changed")
	}
	return h, nil
}

// ExtendKey adds a fresh part to a key made by [NewKey]. Existing data opens as before, and the older part keeps
// sealing. Every replica must have the new part before any of them seals with it, see [PromoteKey].
func ExtendKey(key string) (string, error) {
	return changed(key, func(m *keyset.Manager, _ *keyset.Handle) error {
		_, err := m.Add(aead.AES256GCMKeyTemplate())
		return err
	})
}

// PromoteKey makes the newest part of a key from [ExtendKey] the sealing one. The older parts still open.
func PromoteKey(key string) (string, error) {
	return changed(key, func(m *keyset.Manager, h *keyset.Handle) error {
		newest, err := h.Entry(h.Len() - 1)
		if err != nil {
			return err
		}
		return m.SetPrimary(newest.KeyID())
	})
}

// TrimKey removes all parts but the sealing one. What an older part sealed can no longer be opened.
func TrimKey(key string) (string, error) {
	return changed(key, func(m *keyset.Manager, h *keyset.Handle) error {
		sealing := h.KeysetInfo().GetPrimaryKeyId()
		for _, k := range h.KeysetInfo().GetKeyInfo() {
			if k.GetKeyId() == sealing {
				continue
			}
			if err := m.Delete(k.GetKeyId()); err != nil {
				return err
			}
		}
		return nil
	})
}

func changed(key string, change func(m *keyset.Manager, h *keyset.Handle) error) (string, error) {
	h, err := decode(key)
	if err != nil {
		return "", err
	}
	m := keyset.NewManagerFromHandle(h)
	if err := change(m, h); err != nil {
		return "", fmt.Errorf("change key: %w", err)
	}
	if h, err = m.Handle(); err != nil {
		return "", fmt.Errorf("change key: %w", err)
	}
	return encode(h)
}

// Derive returns a 32-byte secret for one purpose, derived from the oldest part of a key made by [NewKey]. It therefore
// stays the same when the key is extended. It changes when that part is removed, so secrets that must not change are
// stored (deployment.Secret).
func Derive(key, purpose string) ([]byte, error) {
	h, err := decode(key)
	if err != nil {
		return nil, err
	}
	oldest := insecurecleartextkeyset.KeysetMaterial(h).GetKey()[0].GetKeyData().GetValue()
	b, err := hkdf.Key(sha256.New, oldest, nil, "partnerd "+purpose, 32)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	return b, nil
}
