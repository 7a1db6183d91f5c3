package staff

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/boombuler/barcode/qr"
	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"partnerd/internal/base/id"
)

// period is how long a device shows one code (RFC 6238). Codes of the previous and the next period are accepted as
// well, because clocks differ.
const period = 30 * time.Second

// periodAt returns the number of the period that contains a time.
func periodAt(at time.Time) int64 { return at.Unix() / int64(period/time.Second) }

// acceptedStep returns the period of a code, among the periods accepted at now that come after last.
func acceptedStep(secret []byte, code Code, last int64, now time.Time) (int64, bool) {
	if code.device == "" {
		return 0, false
	}
	encoded := base32.StdEncoding.EncodeToString(secret)
	for step := periodAt(now) - 1; step <= periodAt(now)+1; step++ {
		if step > last && hotp.Validate(code.device, uint64(step), encoded) {
			return step, true
		}
	}
	return 0, false
}

const issuer = "partnerd" // shown by the device

// secretOf returns the 160-bit secret of a device that is set up in the session of token. Only the session's browser
// knows the token. So nothing has to be stored until a code is confirmed, and reloading the page shows the same secret.
func secretOf(token string) []byte {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("second factor"))
	return mac.Sum(nil)[:20]
}

// totpKey returns the key that transfers the secret to a device.
func totpKey(secret []byte, email string) (*otp.Key, error) {
	key, err := totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: email, Secret: secret})
	if err != nil {
		return nil, fmt.Errorf("write the secret of codes: %w", err)
	}
	return key, nil
}

// Factor is the data to set up a device that shows codes.
type Factor struct {
	Secret string // for typing, in groups of four
	Path   string // the same as a QR code: SVG path of its dark squares, one unit each
	Size   int    // length of a side in units
}

func factorOf(key *otp.Key) (Factor, error) {
	code, err := qr.Encode(key.URL(), qr.M, qr.Auto)
	if err != nil {
		return Factor{}, fmt.Errorf("draw the secret of codes: %w", err)
	}
	f := Factor{Size: code.Bounds().Dx()}
	for part := range slices.Chunk([]byte(key.Secret()), 4) {
		f.Secret += " " + string(part)
	}
	f.Secret = f.Secret[1:]
	var path strings.Builder
	for y := range f.Size {
		for x := range f.Size {
			if r, _, _, _ := code.At(x, y).RGBA(); r == 0 {
				fmt.Fprintf(&path, "M%d %dh1v1h-1z", x, y)
			}
		}
	}
	f.Path = path.String()
	return f, nil
}

// Recovery codes: how many a person gets, and the length without dashes. 16 characters hold 80 bits.
const (
	recoveryCodes  = 10
	recoveryLength = 16
)

const (
	digits           = "0123456789"
	recoveryAlphabet = digits + "abcdefghjkmnpqrstvwxyz" // no letters that look alike
	deviceLength     = 6
)

// lookalikes replaces letters that people misread and that no recovery code contains.
var lookalikes = strings.NewReplacer("o", "0", "i", "1", "l", "1")

// newRecoveryCode returns a code of the form xxxx-xxxx-xxxx-xxxx.
func newRecoveryCode() string {
	var raw [recoveryLength]byte
	rand.Read(raw[:])
	var b strings.Builder
	for i, r := range raw {
		if i > 0 && i%4 == 0 {
			b.WriteByte('-')
		}
		b.WriteByte(recoveryAlphabet[int(r)%len(recoveryAlphabet)])
	}
	return b.String()
}

// Code is what someone enters as the second factor: a code of the device, a recovery code, or neither. Rate limits and
// checks use the same Code, so that a text cannot count as one kind and pass as another.
type Code struct{ device, recovery string } // at most one is set

// ReadCode parses a code as people type it, with whitespace and dashes anywhere.
func ReadCode(typed string) Code {
	code := strings.Map(func(r rune) rune {
		switch {
		case r == '-' || unicode.IsSpace(r):
			return -1
		case 'A' <= r && r <= 'Z':
			return r + ('a' - 'A')
		}
		return r
	}, typed)
	if len(code) == deviceLength && strings.Trim(code, digits) == "" {
		return Code{device: code}
	}
	code = lookalikes.Replace(code)
	if len(code) == recoveryLength && strings.Trim(code, recoveryAlphabet) == "" {
		return Code{recovery: code}
	}
	return Code{}
}

// IsRecovery reports whether the code has the form of a recovery code, which has too many random bits to be guessed.
func (c Code) IsRecovery() bool { return c.recovery != "" }

// recoveryDigest returns the stored form of a recovery code.
func recoveryDigest(code Code) id.Digest { return id.DigestOf("recovery code\x00" + code.recovery) }
