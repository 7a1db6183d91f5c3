package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/edge"
	"partnerd/internal/idempotency"
)

// stored answers an idempotent operation with the very bytes that were kept, the first time as on every replay.
type stored idempotency.Response

// VisitCreateConsultationResponse implements the generated interface.
func (s stored) VisitCreateConsultationResponse(w http.ResponseWriter) error { return s.write(w) }

// VisitCreateTopupSessionResponse implements the generated interface.
func (s stored) VisitCreateTopupSessionResponse(w http.ResponseWriter) error { return s.write(w) }

func (s stored) write(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	if s.Replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(s.Status)
	_, err := w.Write(s.Body)
	return err
}

// writeJSON answers with exactly the media type of the contract.
func writeJSON(c echo.Context, status int, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write response: %w", err)
	}
	return c.Blob(status, "application/json", raw)
}

// public answers with what is the same for everybody.
func public(c echo.Context, cacheControl string, d edge.Document) error {
	c.Response().Header().Set("Cache-Control", cacheControl)
	d.ServeHTTP(c.Response(), c.Request())
	return nil
}
