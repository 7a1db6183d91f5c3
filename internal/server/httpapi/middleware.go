package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/base/telemetry"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/edge"
)

// maxHeader is the maximum size of a request's header fields in bytes. The server itself reads more, so that an
// oversized request gets our error response.
const maxHeader = 32 << 10

// isProbe reports whether route is called by load balancers and orchestrators, some of them every second.
func isProbe(route string) bool { return route == "/healthz" || route == "/readyz" }

// trace makes the request the root of a trace, unless it is a probe. Its attributes contain no path, query, header,
// body, address or user agent.
func (s *Server) trace(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		route := c.Path()
		if isProbe(route) {
			return next(c)
		}
		ctx, span := s.deps.Tracer.Serve(c.Request().Context(), knownMethod(edge.Method(c.Request())), route,
			c.Request().Header.Get(telemetry.HeaderParent))
		c.SetRequest(c.Request().WithContext(ctx))
		err := next(c)
		r, status := requestOf(c.Request().Context()), c.Response().Status
		if err != nil { // a panic that begin caught; other errors already got their response
			status = http.StatusInternalServerError
		}
		span.SetInt(telemetry.Status, int64(status))
		span.Set(telemetry.RequestID, r.ID)
		span.Set(telemetry.ApplicationID, r.Principal.ApplicationID)
		span.Set(telemetry.ClientID, r.Principal.ClientID)
		if status >= http.StatusInternalServerError {
			span.Fail(strconv.Itoa(status))
		}
		span.End(nil)
		return err
	}
}

// begin assigns the request its ID and headers, and converts a panic to an error.
func (s *Server) begin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		r := &request{ID: s.ids.New("req"), Address: c.RealIP(), UserAgent: c.Request().UserAgent()}
		ctx := context.WithValue(c.Request().Context(), requestKey{}, r)
		c.SetRequest(c.Request().WithContext(postgres.Resting(ctx, r)))
		if c.Request().ContentLength != 0 { // an oversized body is rejected immediately, and the connection ends
			c.Request().Body = http.MaxBytesReader(c.Response().Writer, c.Request().Body,
				bodyLimit(c.Request().URL.Path))
		}
		// Set at the last moment, because generated responses write their own zero values.
		c.Response().Before(func() { s.writeHeaders(c, r) })
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		return next(c)
	}
}

func (s *Server) writeHeaders(c echo.Context, r *request) {
	h := c.Response().Header()
	if strings.HasPrefix(s.deps.BaseURL, "https:") {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	h.Set("X-Request-Id", r.ID)
	h.Set("X-Content-Type-Options", "nosniff")
	if c.Request().ContentLength > bodyLimit(c.Request().URL.Path) {
		h.Set("Connection", "close")
	}
	path := c.Request().URL.Path
	if strings.HasPrefix(path, "/api/") && h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	if r.rate.Limit > 0 {
		h.Set("X-RateLimit-Limit", strconv.Itoa(r.rate.Limit))
		h.Set("X-RateLimit-Remaining", strconv.Itoa(r.rate.Remaining))
		h.Set("X-RateLimit-Reset", strconv.FormatInt((r.rate.Reset.UnixMilli()+999)/1000, 10))
	}
}

// limitHeader rejects a request with more than [maxHeader] bytes of header fields.
func limitHeader(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		size := len(c.Request().RequestURI)
		for name, values := range c.Request().Header {
			for _, v := range values {
				size += len(name) + len(v) + 4
			}
		}
		if size > maxHeader {
			return problem.ErrMalformed.Because("The request line and header are larger than %d bytes.", maxHeader)
		}
		return next(c)
	}
}

// isPartner reports whether a path belongs to the versioned API, where the token is checked before everything else (T5,
// T20).
func isPartner(path string) bool { return path == "/api/v1" || strings.HasPrefix(path, "/api/v1/") }

// isPlatform does the same for the Platform API and the credentials of the application.
func isPlatform(path string) bool {
	return path == "/api/platform/v1" || strings.HasPrefix(path, "/api/platform/v1/")
}

// unlessVersioned skips a middleware on routes where the caller must be identified first.
func unlessVersioned(m echo.MiddlewareFunc) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		other := m(next)
		return func(c echo.Context) error {
			if path := c.Request().URL.Path; isPartner(path) || isPlatform(path) || isDesk(path) {
				return next(c)
			}
			return other(c)
		}
	}
}
