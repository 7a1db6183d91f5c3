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

// period is how long a device shows one code (RFC 6238). A code of the period before or after is taken too, because
// clocks differ.
const period = 30 * time.Second

// stepOf is the number of the period at an instant.
func stepOf(at time.Time) int64 { return at.Unix() / int64(period/time.Second) }

// acceptedStep finds the period whose code this is, among those that may be used at now and come after last.
func acceptedStep(secret []byte, code Code, last int64, now time.Time) (int64, bool) {
	if code.device == "" {
		return 0, false
	}
	encoded := base32.StdEncoding.EncodeToString(secret)
	for step := stepOf(now) - 1; step <= stepOf(now)+1; step++ {
		if step > last && hotp.Validate(code.device, uint64(step), encoded) {
			return step, true
		}
	}
	return 0, false
}

const issuer = "partnerd" // as a device names us

// secretOf is what a device that is set up in the session of token computes its codes from: 160 bits. Only the browser
// of the session knows the token, so nothing has to be kept until a code is confirmed, and the page shows the same
// again.
func secretOf(token string) []byte {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("second factor"))
	return mac.Sum(nil)[:20]
}

// addressOf tells a device the secret.
func addressOf(secret []byte, email string) (*otp.Key, error) {
	key, err := totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: email, Secret: secret})
	if err != nil {
		return nil, fmt.Errorf("write the secret of codes: %w", err)
	}
	return key, nil
}

// Factor is what sets a device up that shows codes.
type Factor struct {
	Secret string // for typing, in groups of four
	Path   string // the same as a QR code: the SVG path of its dark squares, each of one unit
	Size   int    // units of one side
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

// Recovery codes: how many a person gets, and the length of one without its dashes. 16 letters hold 80 bits.
const (
	recoveryCodes  = 10
	recoveryLength = 16
)

const (
	digits           = "0123456789"
	recoveryAlphabet = digits + "abcdefghjkmnpqrstvwxyz" // no letters that read alike
	deviceLength     = 6
)

// alike are letters that people read in a recovery code and that are in none.
var alike = strings.NewReplacer("o", "0", "i", "1", "l", "1")

// newRecoveryCode is written xxxx-xxxx-xxxx-xxxx.
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

// Code is what somebody enters as the second factor: a code of the device, a recovery code, or text that is neither.
// Whoever counts a try and whoever checks it read the same Code, so that no text counts as one kind and passes as
// another.
type Code struct{ device, recovery string } // at most one is set

// ReadCode reads a code as people type it, with white space and dashes anywhere.
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
	code = alike.Replace(code)
	if len(code) == recoveryLength && strings.Trim(code, recoveryAlphabet) == "" {
		return Code{recovery: code}
	}
	return Code{}
}

// IsRecovery tells whether the code has the form of a recovery code, which has too many random bits to be guessed.
func (c Code) IsRecovery() bool { return c.recovery != "" }

// recoveryDigest is what is kept of a recovery code.
func recoveryDigest(code Code) id.Digest { return id.DigestOf("recovery code\x00" + code.recovery) }
