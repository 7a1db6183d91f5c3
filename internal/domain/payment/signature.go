package payment

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// SignatureHeader is the HTTP header of a notice's signature: t=<unix seconds>,v1=<lowercase hex HMAC-SHA256 over
// "<t>.<body>">.
const SignatureHeader = "X-Payment-Signature"

// tolerance is the maximum difference between a signature's time and ours, exclusive.
const tolerance = 300 * time.Second

// SignNotice returns the value of [SignatureHeader] for a body sent at t.
func SignNotice(secret string, t time.Time, body []byte) string {
	stamp := strconv.FormatInt(t.Unix(), 10)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(noticeMAC(secret, stamp, body))
}

// verifyNotice checks a signature in constant time. With an empty secret no signature is valid.
func verifyNotice(secret, header string, body []byte, now time.Time) error {
	stamp, mac, ok := strings.Cut(header, ",")
	stamp, okT := strings.CutPrefix(stamp, "t=")
	mac, okV := strings.CutPrefix(mac, "v1=")
	given, err := hex.DecodeString(mac)
	if !ok || !okT || !okV || err != nil || secret == "" {
		return ErrBadSignature
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || !hmac.Equal(given, noticeMAC(secret, stamp, body)) {
		return ErrBadSignature
	}
	if now.Sub(time.Unix(seconds, 0)).Abs() >= tolerance {
		return ErrBadSignature
	}
	return nil
}

func noticeMAC(secret, stamp string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(stamp))
	h.Write([]byte("."))
	h.Write(body)
	return h.Sum(nil)
}
