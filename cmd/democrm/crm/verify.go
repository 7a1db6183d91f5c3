package crm

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"
)

// tolerance is the age from which a signature is rejected, so that a recorded request cannot be replayed later.
const tolerance = 300 * time.Second

// Verify checks X-Service-Signature against the raw bytes of the body. The key is the whole signing secret, including
// its prefix.
func Verify(secret, header string, body []byte, now time.Time) error {
	t, v1, ok := strings.Cut(header, ",v1=")
	seconds, found := strings.CutPrefix(t, "t=")
	sent, err := strconv.ParseInt(seconds, 10, 64)
	if !ok || !found || err != nil {
		return errors.New("malformed signature header")
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(seconds + "."))
	mac.Write(body)
	if !hmac.Equal([]byte(hex.EncodeToString(mac.Sum(nil))), []byte(v1)) { // constant time
		return errors.New("signature does not match")
	}
	if age := now.Sub(time.Unix(sent, 0)); age.Abs() >= tolerance {
		return errors.New("signature is too old or from the future")
	}
	return nil
}
