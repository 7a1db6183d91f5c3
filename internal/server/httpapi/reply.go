package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/gen/partner/server"
	"partnerd/internal/base/id"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/server/edge"
)

// stored responds to an idempotent operation with the stored bytes, the first time and on every replay.
type stored idempotency.Response

// VisitCreateConsultationResponse implements the generated interface.
func (s stored) VisitCreateConsultationResponse(w http.ResponseWriter) error { return s.write(w) }

// VisitCreateTopupSessionResponse implements the generated interface.
func (s stored) VisitCreateTopupSessionResponse(w http.ResponseWriter) error { return s.write(w) }

// keep converts a stored response, and records the error in it for the request log.
func keep(r *request, response idempotency.Response) stored {
	if response.Status >= http.StatusBadRequest {
		_ = json.Unmarshal(response.Body, &r.refusal) // these bytes were written by us
	}
	return stored(response)
}

// replayedHeader marks the replay of a response to an earlier request with the same key.
const replayedHeader = "Idempotent-Replayed"

func (s stored) write(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	if s.Replayed {
		w.Header().Set(replayedHeader, "true")
	}
	w.WriteHeader(s.Status)
	_, err := w.Write(s.Body)
	return err
}

// writeJSON responds with exactly the media type of the contract.
func writeJSON(c echo.Context, status int, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write response: %w", err)
	}
	return c.Blob(status, "application/json", raw)
}

// keepable describes a list of the catalogue. Callers may cache the list, because it reveals nothing about a client,
// and revalidate it by its tag. r is the response for a caller that has it. unchanged reports whether ifNoneMatch names
// the current tag (RFC 9110 section 13.1.2).
func keepable(list any, ifNoneMatch *string) (r server.NotModifiedResponse, unchanged bool, err error) {
	raw, err := json.Marshal(list)
	if err != nil {
		return r, false, fmt.Errorf("tag list: %w", err)
	}
	r.Headers.ETag = `"` + id.DigestOf(string(raw)).String()[:24] + `"`
	r.Headers.CacheControl, r.Headers.Vary = "private, no-cache", "Accept-Language"
	if ifNoneMatch == nil {
		return r, false, nil
	}
	for _, tag := range strings.Split(*ifNoneMatch, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		unchanged = unchanged || tag == r.Headers.ETag || tag == "*"
	}
	return r, unchanged, nil
}

// public responds with content that is the same for every caller.
func public(c echo.Context, cacheControl string, d edge.Document) error {
	c.Response().Header().Set("Cache-Control", cacheControl)
	d.ServeHTTP(c.Response(), c.Request())
	return nil
}
