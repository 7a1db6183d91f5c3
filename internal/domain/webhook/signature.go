package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Tolerance is the difference in time, past or future, at which an endpoint rejects a signature (specification section
// 6.4).
const Tolerance = 300 * time.Second

// Errors of [Verify].
var (
	ErrSignatureMalformed = errors.New("signature header is not of the form t=<seconds>,v1=<hexadecimal>")
	ErrSignatureExpired   = errors.New("signature timestamp is too far from the current time")
	ErrSignatureMismatch  = errors.New("signature does not match the body")
)

var signatureHeader = regexp.MustCompile(`^t=([0-9]{10}),v1=([0-9a-f]{64})$`)

// Sign returns the value of X-Service-Signature for a body sent at t. The key is the whole secret, including its
// prefix.
func Sign(secret string, t time.Time, body []byte) string {
	seconds := strconv.FormatInt(t.Unix(), 10)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(mac(secret, seconds, body))
}

// Verify verifies a signature as the specification requires of endpoints (section 6.4). body must be the raw bytes of
// the request. It returns nil, [ErrSignatureMalformed], [ErrSignatureExpired] or [ErrSignatureMismatch].
func Verify(secret, header string, body []byte, now time.Time) error {
	m := signatureHeader.FindStringSubmatch(header)
	if m == nil {
		return ErrSignatureMalformed
	}
	seconds, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSignatureMalformed, err)
	}
	given, err := hex.DecodeString(m[2])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSignatureMalformed, err)
	}
	if !hmac.Equal(given, mac(secret, m[1], body)) {
		return ErrSignatureMismatch
	}
	if now.Sub(time.Unix(seconds, 0)).Abs() >= Tolerance {
		return ErrSignatureExpired
	}
	return nil
}

func mac(secret, seconds string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(seconds))
	h.Write([]byte{'.'})
	h.Write(body)
	return h.Sum(nil)
}
