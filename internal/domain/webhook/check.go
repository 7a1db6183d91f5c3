package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// Finding is the result of [Service.CheckSignature].
type Finding string

// The findings. The first one that applies is returned.
const (
	SignatureRight    Finding = "RIGHT"           // valid now
	SignatureOld      Finding = "TIMESTAMP"       // valid, but the timestamp is too old or in the future
	HeaderMalformed   Finding = "HEADER"          // not of the form t=…,v1=…
	BodyChanged       Finding = "BODY"            // the signature is ours, but for other bytes
	SecretDiffers     Finding = "SECRET"          // these bytes were sent, but signed with another secret
	SignatureMismatch Finding = "BODY_OR_SECRET"  // neither the body nor the secret matches
	PreviousSecret    Finding = "PREVIOUS_SECRET" // valid with the replaced secret, which is still in force
)

// Check is the result of [Service.CheckSignature], with details.
type Check struct {
	Finding Finding
	Age     time.Duration // of the timestamp, negative if in the future; 0 if unreadable
	// for BODY, if we have the event: offset of the first byte that differs; otherwise -1
	DiffersAt int
}

// CheckSignature says which verification step fails for a message that an application received. header is the value of
// X-Service-Signature, body is the body as the application's program saw it. The secrets are not exposed. It returns
// NOT_FOUND.
func (s *Service) CheckSignature(ctx context.Context, tx postgres.Tx, applicationID, header string,
	body []byte,
) (Check, error) {
	endpoint, err := selectEndpoint(ctx, tx, applicationID)
	if err != nil {
		return Check{}, err
	}
	secret, previous, err := s.openSecrets(applicationID, endpoint.secrets(tx.Now))
	if err != nil {
		return Check{}, err
	}
	c := Check{Finding: HeaderMalformed, DiffersAt: -1}
	at, ok := timeOf(header)
	if !ok {
		return c, nil
	}
	now := s.cfg.Now()
	c.Age = now.Sub(at).Truncate(time.Second)
	signed := func(secret string, body []byte) bool { // at any time
		return secret != "" && Verify(secret, header, body, at) == nil
	}
	switch {
	case !signed(secret, body) && !signed(previous, body):
		sent, err := s.sentBody(ctx, tx, applicationID, body)
		if err != nil {
			return Check{}, err
		}
		c.Finding = whatDiffers(body, sent, func(b []byte) bool { return signed(secret, b) || signed(previous, b) })
		if c.Finding == BodyChanged && sent != nil {
			c.DiffersAt = firstDifference(body, sent)
		}
	case now.Sub(at).Abs() >= Tolerance:
		c.Finding = SignatureOld
	case !signed(secret, body):
		c.Finding = PreviousSecret
	default:
		c.Finding = SignatureRight
	}
	return c, nil
}

// timeOf parses the time of a signature.
func timeOf(header string) (time.Time, bool) {
	m := signatureHeader.FindStringSubmatch(header)
	if m == nil {
		return time.Time{}, false
	}
	var seconds int64
	for _, digit := range m[1] {
		seconds = 10*seconds + int64(digit-'0')
	}
	return time.Unix(seconds, 0), true
}

// sentBody returns the body of the event named by a received body, or nil if there is none.
func (s *Service) sentBody(ctx context.Context, tx postgres.Tx, applicationID string, body []byte) ([]byte, error) {
	var named struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(body, &named) != nil || named.ID == "" || strings.ContainsRune(named.ID, 0) {
		return nil, nil
	}
	e, err := selectEvent(ctx, tx, applicationID, named.ID)
	if errors.Is(err, problem.ErrNotFound) {
		return nil, nil
	}
	return e.Body, err
}

// whatDiffers checks whether the signature matches other bytes than those received.
func whatDiffers(body, sent []byte, signed func([]byte) bool) Finding {
	if sent != nil && bytes.Equal(body, sent) {
		return SecretDiffers
	}
	var compact bytes.Buffer
	_ = json.Compact(&compact, body) // leaves nothing if body is not JSON
	trimmed := bytes.TrimSpace(body)
	for _, other := range [][]byte{sent, trimmed, append(bytes.Clone(trimmed), '\n'), compact.Bytes(),
		bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))} {
		if other != nil && signed(other) {
			return BodyChanged
		}
	}
	return SignatureMismatch
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// HeadersOf returns the [Headers] and signatures of an attempt of a delivery. The signatures use the current secrets,
// so they differ from those that were sent if a secret was rotated in the meantime. It returns NOT_FOUND.
func (s *Service) HeadersOf(ctx context.Context, tx postgres.Tx, d Delivery, a Attempt, e StoredEvent,
	applicationID string,
) (http.Header, error) {
	endpoint, err := selectEndpoint(ctx, tx, applicationID)
	if err != nil {
		return nil, err
	}
	secret, previous, err := s.openSecrets(applicationID, endpoint.secrets(tx.Now))
	if err != nil {
		return nil, err
	}
	h := Headers(d.Type, d.ID, d.Sequence, a.Number, e.Test())
	h.Set(HeaderSignature, Sign(secret, a.StartedAt, e.Body))
	if previous != "" {
		h.Set(HeaderSignaturePrevious, Sign(previous, a.StartedAt, e.Body))
	}
	return h, nil
}
