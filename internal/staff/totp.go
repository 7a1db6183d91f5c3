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

	"github.com/boombuler/barcode/qr"
	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"partnerd/internal/id"
)

// period is how long a device shows one code (RFC 6238). A code of the period before or after is taken too, because clocks
// differ.
const period = 30 * time.Second

// stepOf is the number of the period at an instant.
func stepOf(at time.Time) int64 { return at.Unix() / int64(period/time.Second) }

// acceptedStep finds the period whose code this is, among those that may be used at now and come after last.
func acceptedStep(secret []byte, code string, last int64, now time.Time) (int64, bool) {
	encoded := base32.StdEncoding.EncodeToString(secret)
	for step := stepOf(now) - 1; step <= stepOf(now)+1; step++ {
		if step > last && hotp.Validate(code, uint64(step), encoded) {
			return step, true
		}
	}
	return 0, false
}

const issuer = "partnerd" // as a device names us

// secretOf is what a device that is set up in the session of token computes its codes from: 160 bits. Only the browser of the
// session knows the token, so nothing has to be kept until a code is confirmed, and the page shows the same again.
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

const recoveryAlphabet = "0123456789abcdefghjkmnpqrstvwxyz" // no letters that read alike

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

// recoveryDigest is that of a code as people type it; ok is false for what cannot be one.
func recoveryDigest(typed string) (digest id.Digest, ok bool) {
	code := strings.NewReplacer("-", "", " ", "", "\u00a0", "", "o", "0", "i", "1", "l", "1").Replace(strings.ToLower(typed))
	return id.DigestOf("recovery code\x00" + code), len(code) == recoveryLength
}

// withoutSpaces is a code of a device as people type it.
func withoutSpaces(code string) string { return strings.Join(strings.Fields(code), "") }
