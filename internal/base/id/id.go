// Package id generates IDs and secrets (decisions H46, H58).
package id

import (
	"crypto/rand"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"partnerd/internal/base/clock"
)

// Prefixes of IDs.
const (
	Application  = "app"
	Client       = "cli"
	Lawyer       = "law"
	Consultation = "con"
	Transaction  = "txn"
	Hold         = "hld"
	TopUp        = "top"
	TopUpRefund  = "trf"
	Event        = "evt"
	Delivery     = "dlv"
	Offer        = "off"
	Call         = "cal"
	Grant        = "ses"
	Notice       = "ntc"
	Audit        = "aud"
	Passkey      = "pky"
	Staff        = "stf"
	Invitation   = "inv" // also the link of a sign-up
	TextMessage  = "sms"
	Message      = "msg"
	Proposal     = "prp"
)

// Minter generates the IDs of one deployment. Test marks those of a sandbox, so that they are not mistaken for live
// ones.
type Minter struct{ Test bool }

// crockford preserves the order of the bytes and has no ambiguous letters.
var crockford = newEncoding("0123456789abcdefghjkmnpqrstvwxyz")

// New returns prefix_<26 characters>, or prefix_test_<26 characters> in a sandbox: 48 bits of milliseconds, then 80
// random bits. IDs sort by creation time and cannot be guessed.
func (m Minter) New(prefix string) string {
	var b [16]byte
	rand.Read(b[:])
	ms := clock.System{}.Now().UnixMilli()
	binary.BigEndian.PutUint16(b[:2], uint16(ms>>32))
	binary.BigEndian.PutUint32(b[2:6], uint32(ms))
	return m.mark(prefix) + crockford(b[:])
}

// Secret returns prefix_<43 characters> (with the sandbox mark if it applies): 256 random bits.
func (m Minter) Secret(prefix string) string {
	var b [32]byte
	rand.Read(b[:])
	return m.mark(prefix) + base64.RawURLEncoding.EncodeToString(b[:])
}

func (m Minter) mark(prefix string) string {
	if m.Test {
		return prefix + "_test_"
	}
	return prefix + "_"
}

// Digest is the SHA-256 of a secret with full entropy, stored in the database instead of the secret.
type Digest [sha256.Size]byte

// DigestOf returns the digest of secret.
func DigestOf(secret string) Digest { return sha256.Sum256([]byte(secret)) }

// Value implements driver.Valuer. (A bare []byte after a parenthesis would be expanded by GORM.)
func (d Digest) Value() (driver.Value, error) { return d[:], nil }

// Scan implements sql.Scanner.
func (d *Digest) Scan(src any) error {
	b, ok := src.([]byte)
	if !ok || len(b) != len(d) {
		return fmt.Errorf("scan digest: %T is not %d bytes", src, len(d))
	}
	copy(d[:], b)
	return nil
}

// String returns lowercase hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest parses the text of [Digest.String]; ok is false for anything else.
func ParseDigest(text string) (d Digest, ok bool) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(d) {
		return d, false
	}
	return Digest(raw), true
}

// GormDataType returns the column type.
func (Digest) GormDataType() string { return "bytea" }

func newEncoding(alphabet string) func([]byte) string {
	return func(b []byte) string {
		var out strings.Builder
		var acc uint32
		var bits uint
		for _, c := range b {
			acc = acc<<8 | uint32(c)
			for bits += 8; bits >= 5; bits -= 5 {
				out.WriteByte(alphabet[acc>>(bits-5)&31])
			}
			acc &= 1<<bits - 1
		}
		if bits > 0 {
			out.WriteByte(alphabet[acc<<(5-bits)&31])
		}
		return out.String()
	}
}
