package httpapi

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/clock"
	"partnerd/internal/infra/requestlog"
	"partnerd/internal/server/edge"
)

// accessLog measures each request and logs one line about it, without query, headers or body. Successful probes are
// logged only at debug level. Probes are not measured, because a load balancer's successful probes would hide failing
// requests of callers.
func (s *Server) accessLog(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := s.deps.DB.Clock().Now()
		err := next(c)
		if err != nil {
			c.Error(err)
		}
		r := requestOf(c.Request().Context())
		method, status := edge.Method(c.Request()), c.Response().Status
		took := clock.Since(s.deps.DB.Clock(), start) // the log's table rejects a negative duration
		if !r.stream && !isProbe(c.Path()) {
			s.deps.Metrics.observe(c.Path(), method, status, took)
		}
		s.logForPartner(c, r, took)
		level := slog.LevelInfo
		if isProbe(c.Path()) && status < http.StatusBadRequest {
			level = slog.LevelDebug
		}
		s.deps.Logger.Log(c.Request().Context(), level, "request", "requestId", r.ID, "method", method,
			"route", c.Path(), "status", status, "durationMs", float64(took.Microseconds())/1000,
			"application", r.Principal.ApplicationID, "client", r.Principal.ClientID,
			"consultation", consultationOf(c, r))
		return nil
	}
}

// consultationOf returns the ID of the consultation that a request was about. An ID of no existing consultation is left
// out, because it is text of the caller.
func consultationOf(c echo.Context, r *request) string {
	status := c.Response().Status
	exists := status < http.StatusBadRequest || status == http.StatusConflict
	if r.consultation == "" && exists && strings.Contains(c.Path(), "/consultations/:id") {
		return c.Param("id")
	}
	return r.consultation
}

// logForPartner records a call of a known application for the request log of its team.
func (s *Server) logForPartner(c echo.Context, r *request, took time.Duration) {
	if r.Principal.ApplicationID == "" {
		return
	}
	s.deps.Requests.Add(requestlog.Entry{
		ID: r.ID, ApplicationID: r.Principal.ApplicationID, At: s.deps.DB.Clock().Now(), Method: c.Request().Method,
		Path: c.Request().URL.EscapedPath(), Status: c.Response().Status, Code: r.refusal.Code,
		Issues: requestlog.RedactIssues(r.refusal.Issues), Duration: took, Body: requestlog.Redact(r.body),
		Keyed: c.Request().Header.Get(idempotencyHeader) != "", Replayed: c.Response().Header().
			Get(replayedHeader) != "", Refreshed: r.refreshed,
	})
}
