package httpapi

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/infra/requestlog"
	"partnerd/internal/server/edge"
)

// accessLog measures each request, and writes one line about it that names no query, header or body; about a probe that
// succeeds, one for who debugs. Probes are not measured: the answers of a balancer's would hide that callers' requests
// fail.
func (s *Server) accessLog(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := s.deps.DB.Clock().Now()
		err := next(c)
		if err != nil {
			c.Error(err)
		}
		r := requestOf(c.Request().Context())
		method, status, took := edge.Method(c.Request()), c.Response().Status, s.deps.DB.Clock().Now().Sub(start)
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

// consultationOf is the consultation that a request was about, as far as there is one: an identifier that names nothing
// is the caller's text.
func consultationOf(c echo.Context, r *request) string {
	status := c.Response().Status
	exists := status < http.StatusBadRequest || status == http.StatusConflict
	if r.consultation == "" && exists && strings.Contains(c.Path(), "/consultations/:id") {
		return c.Param("id")
	}
	return r.consultation
}

// logForPartner writes down a call whose application is known, for the people of that application.
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
