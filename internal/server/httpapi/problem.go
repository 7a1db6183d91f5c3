package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/gen/partner/models"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
)

// Problems that the HTTP layer itself raises.
var (
	errKeyRequired = problem.Declare(problem.Malformed, "IDEMPOTENCY_KEY_REQUIRED",
		"The header Idempotency-Key is required.")
	errScope = problem.Declare(problem.Forbidden, "INSUFFICIENT_SCOPE",
		"The access token lacks the scope that this operation requires.")
	errRate     = problem.ErrRateLimited
	errInternal = problem.Declare(0, "INTERNAL_ERROR",
		"An internal error occurred. If it persists, contact support with the X-Request-Id.")
)

var statuses = map[problem.Kind]int{
	problem.Malformed: http.StatusBadRequest, problem.Unauthorized: http.StatusUnauthorized,
	problem.Forbidden: http.StatusForbidden, problem.NotFound: http.StatusNotFound,
	problem.MethodNotAllowed: http.StatusMethodNotAllowed, problem.Conflict: http.StatusConflict,
	problem.Unprocessable: http.StatusUnprocessableEntity, problem.RateLimited: http.StatusTooManyRequests,
	problem.Unavailable: http.StatusServiceUnavailable,
	errInternal.Kind:    http.StatusInternalServerError,
}

// unavailableFor is the Retry-After of a 503 whose cause specifies none.
const unavailableFor = time.Second

const authorizePath = "/api/oauth/authorize" // the only path below /api that people open

// onError handles every failed request. Pages get a page, OAuth endpoints the OAuth format, all others {code, message,
// issues}. An error that is not a problem is logged and becomes a 500 without details.
func (s *Server) onError(err error, c echo.Context) {
	if c.Response().Committed {
		s.deps.Logger.Error("response broke off", "requestId", requestOf(c.Request().Context()).ID, "error", err)
		return
	}
	p := s.toProblem(err, c)
	requestOf(c.Request().Context()).refusal = refusal{p.Code, p.Issues}
	setRetryAfter(c.Response().Header(), p.RetryAfter)
	path := c.Request().URL.Path
	switch {
	case path == authorizePath:
		err = s.deps.ErrorPage(c, statuses[p.Kind])
	case strings.HasPrefix(path, "/api/oauth/"):
		err = s.writeOAuthError(c, err, p)
	case strings.HasPrefix(path, "/api/"), strings.HasPrefix(path, "/.well-known/"),
		strings.HasPrefix(path, "/payments/"):
		err = s.writeProblem(c, p)
	default:
		err = s.deps.ErrorPage(c, statuses[p.Kind])
	}
	if err != nil {
		s.deps.Logger.Warn("error not delivered", "error", err)
	}
}

// toProblem returns what the caller may know about err.
func (s *Server) toProblem(err error, c echo.Context) *problem.Error {
	if p, ok := problem.As(err); ok {
		if p.Kind == problem.Unavailable && p.RetryAfter == 0 {
			p = p.After(unavailableFor)
		}
		return p
	}
	if errors.Is(err, staff.ErrNoSession) { // the session ended during the request
		return errNoSession
	}
	var he *echo.HTTPError
	if errors.As(err, &he) && he.Code < 500 {
		switch he.Code {
		case http.StatusNotFound:
			return problem.ErrNotFound
		case http.StatusMethodNotAllowed:
			return problem.ErrMethodNotAllowed
		default:
			return problem.ErrMalformed
		}
	}
	var oe *oauth.Error
	if errors.As(err, &oe) {
		return problem.ErrMalformed.Because("%s", oe.Description)
	}
	if errors.Is(err, portal.ErrSuspended) { // suspended after its credentials were checked
		return errCredentials
	}
	r := requestOf(c.Request().Context())
	if errors.Is(err, context.Canceled) && c.Request().Context().Err() != nil {
		s.deps.Logger.Info("caller left", "requestId", r.ID)
		return problem.ErrUnavailable.After(unavailableFor)
	}
	s.deps.Logger.Error("request failed", "requestId", r.ID, "method", c.Request().Method, "route", c.Path(),
		"error", err)
	if postgres.IsLockTimeout(err) || postgres.IsUnavailable(err) || errors.Is(err, context.DeadlineExceeded) {
		return problem.ErrUnavailable.After(unavailableFor)
	}
	return errInternal
}

const basicChallenge = `Basic realm="partnerd", charset="UTF-8"`

func (s *Server) writeProblem(c echo.Context, p *problem.Error) error {
	h := c.Response().Header()
	switch {
	case isDesk(c.Request().URL.Path):
		if p.Kind == problem.Unauthorized || p.Kind == problem.Forbidden {
			h.Set("WWW-Authenticate", sessionChallenge)
		}
	case p.Kind == problem.Unauthorized:
		if isPlatform(c.Request().URL.Path) {
			h.Set("WWW-Authenticate", basicChallenge)
			break
		}
		challenge := `Bearer realm="partnerd"`
		if c.Request().Header.Get("Authorization") != "" { // RFC 6750 section 3.1: no code without credentials
			challenge += `, error="invalid_token"`
		}
		h.Set("WWW-Authenticate", challenge)
	case p.Kind == problem.Forbidden && isPlatform(c.Request().URL.Path): // other credentials would not help
	case p.Kind == problem.Forbidden:
		h.Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="partnerd", error="insufficient_scope", scope=%q`,
			requestOf(c.Request().Context()).scope))
	default: // other problems have no challenge
	}
	body := models.APIError{ActionURL: s.remedy(c, p.Code), Code: models.ErrorCode(p.Code), Message: p.Message}
	for _, x := range p.Issues {
		body.Issues = append(body.Issues, models.Issue{Path: x.Path, Code: models.IssueCode(x.Code),
			Message: x.Message})
	}
	return writeJSON(c, statuses[p.Kind], body)
}

// remedies maps a problem to the account page on which the client can solve it.
var remedies = map[string]string{"PHONE_REQUIRED": "/account/phone", "INSUFFICIENT_FUNDS": "/account/wallet"}

// remedy returns the URL of that page, or nil if there is none. The page links back to the application of the request.
func (s *Server) remedy(c echo.Context, code string) *string {
	page, ok := remedies[code]
	if !ok {
		return nil
	}
	address := s.deps.BaseURL + page +
		"?" + url.Values{"application": {requestOf(c.Request().Context()).Principal.ApplicationID}}.Encode()
	return &address
}

// writeOAuthError responds with the fields of RFC 6749 and with ours (decision H8).
func (s *Server) writeOAuthError(c echo.Context, err error, p *problem.Error) error {
	status, code, description := statuses[p.Kind], "invalid_request", p.Message
	var oe *oauth.Error
	switch {
	case errors.As(err, &oe):
		status, code, description = oe.Status, oe.Code, oe.Description
	case p.Kind == errInternal.Kind:
		code = "server_error"
	case p.Kind == problem.RateLimited, p.Kind == problem.Unavailable:
		code = "temporarily_unavailable"
	}
	r := requestOf(c.Request().Context())
	r.refusal.Code = code
	if oe != nil && oe.Fault.Why != "" {
		r.refusal.Issues = []problem.Issue{{Path: oe.Fault.Parameter, Code: "invalid_value", Message: oe.Fault.Why}}
	}
	neverStore(c)
	return writeJSON(c, status, models.OAuthError{Error: models.OAuthErrorCode(code), Code: models.OAuthErrorCode(code),
		ErrorDescription: description, Message: description})
}

func setRetryAfter(h http.Header, d time.Duration) {
	if d > 0 {
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(d.Seconds())))))
	}
}
