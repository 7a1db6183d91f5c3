package sdk

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"partner-sdk/generated/partner"
)

// tolerance is the age at which a signature is too old, or too far ahead.
const tolerance = 300 * time.Second

// WebhookError is why a request is not from the service: respond with 400.
type WebhookError string

// The reasons.
const (
	Malformed WebhookError = "malformed"
	Mismatch  WebhookError = "mismatch"
	Expired   WebhookError = "expired"
)

// Error implements the interface error.
func (e WebhookError) Error() string { return "the webhook is rejected: " + string(e) }

// Webhook is a genuine webhook.
type Webhook struct {
	ID       string                // the same for every delivery of an event: ignore an event that you have handled
	Type     string                // type of the event
	Event    *partner.WebhookEvent // nil when the type is newer than this package: respond with 2xx and continue
	Sequence int64                 // counts the events of a consultation from 1; 0: none. The signature does not cover it.
	Test     bool                  // whether you requested it as a test. The signature does not cover it.
}

var header = regexp.MustCompile(`\At=([0-9]{10}),v1=([0-9a-f]{64})\z`)

// CheckSignature checks one signature of a body, as the bytes that were received. It returns nil or a [WebhookError].
func CheckSignature(secret, signature string, body []byte, now time.Time) error {
	parts := header.FindStringSubmatch(signature)
	if parts == nil {
		return Malformed
	}
	given, err := hex.DecodeString(parts[2])
	if err != nil {
		return Malformed
	}
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte(parts[1] + "."))
	sum.Write(body)
	if !hmac.Equal(sum.Sum(nil), given) {
		return Mismatch
	}
	seconds, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return Malformed
	}
	if age := now.Sub(time.Unix(seconds, 0)); age >= tolerance || age <= -tolerance {
		return Expired
	}
	return nil
}

// ReadWebhook reads a webhook that the service signed with one of your secrets, or returns a [WebhookError]. body is the
// bytes that were received, before anything parsed them. During a rotation give both secrets: one of the two signatures of
// the request has to match one of them.
func ReadWebhook(secrets []string, h http.Header, body []byte, now time.Time) (Webhook, error) {
	var faults []error
	for _, name := range []string{"X-Service-Signature", "X-Service-Signature-Previous"} {
		for _, secret := range secrets {
			faults = append(faults, CheckSignature(secret, h.Get(name), body, now))
		}
	}
	if !slices.Contains(faults, nil) {
		for _, reason := range []error{Expired, Mismatch} {
			if slices.Contains(faults, reason) {
				return Webhook{}, reason
			}
		}
		return Webhook{}, Malformed
	}
	var content struct{ ID, Type string }
	var event partner.WebhookEvent
	if json.Unmarshal(body, &content) != nil || json.Unmarshal(body, &event) != nil {
		return Webhook{}, Malformed
	}
	sequence, _ := strconv.ParseInt(h.Get("X-Service-Sequence"), 10, 64) // none: 0
	w := Webhook{ID: content.ID, Type: content.Type, Sequence: sequence, Test: h.Get("X-Service-Test") == "true"}
	if _, err := event.ValueByDiscriminator(); err == nil {
		w.Event = &event
	}
	return w, nil
}
