package idempotency

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
)

// Retention is how long a key is kept after its operation ran (specification section 8).
const Retention = 24 * time.Hour

// Problems of this package.
var (
	// ErrConflict rejects a key that was used with another body (specification section 7).
	ErrConflict = problem.Declare(problem.Conflict, "IDEMPOTENCY_CONFLICT",
		"This Idempotency-Key was already used with a different request body. Send a new key for a new operation.")
	// ErrInProgress rejects a duplicate of a request that is still running after 5 s (decision H51).
	ErrInProgress = problem.Declare(problem.Conflict, "IDEMPOTENCY_IN_PROGRESS",
		"A request with this Idempotency-Key is still running. Try again to get its response.").After(time.Second)
)

// ErrKept rejects a second response: another transaction has already performed the operation.
var ErrKept = errors.New("a response is kept under this key already")

// Request identifies an idempotent request.
type Request struct {
	ApplicationID, ClientID string
	Endpoint                string // operationId
	Key                     string // 1 to 255 printable ASCII characters
	Fingerprint             id.Digest
}

// place returns the place for which a stored response is sealed.
func (r Request) place() string {
	return fmt.Sprintf("idempotency_keys.body:%q", []string{r.ApplicationID, r.ClientID, r.Endpoint, r.Key})
}

// Response is the operation's response, new or replayed.
type Response struct {
	Status   int
	Body     []byte // JSON
	Replayed bool
}

// Fingerprint returns a digest of a request. The same path with the same JSON value has the same digest, whatever the
// order of keys and the whitespace (decision H52). body must be one JSON value.
func Fingerprint(path string, body []byte) (id.Digest, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // 1e2 and 100 stay different, and no digit is lost
	var v any
	if err := d.Decode(&v); err != nil {
		return id.Digest{}, fmt.Errorf("read body: %w", err)
	}
	canonical, err := json.Marshal(v)
	if err != nil {
		return id.Digest{}, fmt.Errorf("write canonical body: %w", err)
	}
	return id.DigestOf(path + "\n" + string(canonical)), nil
}
