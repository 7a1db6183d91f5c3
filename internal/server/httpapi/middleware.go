package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/text/language"

	"partnerd/internal/base/problem"
	"partnerd/internal/base/telemetry"
	texts "partnerd/internal/base/text"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/infra/access"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/infra/requestlog"
	"partnerd/internal/server/edge"
)

// maxHeader is how many bytes of header fields a request may have. The server itself reads more, so that a caller who
// sends too many gets an answer of ours.
const maxHeader = 32 << 10

// isProbe tells whether balancers and orchestrators ask the route, some every second.
func isProbe(route string) bool { return route == "/healthz" || route == "/readyz" }

// trace makes the request the root of a trace, but those of probes. What it tells of the request names no path, query,
// header, body, address or agent.
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
		if err != nil { // a panic, which begin has caught; what fails otherwise has been answered
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

// begin gives the request its identity and its headers, and turns a panic into an error.
func (s *Server) begin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		r := &request{ID: s.ids.New("req"), Address: c.RealIP(), UserAgent: c.Request().UserAgent()}
		ctx := context.WithValue(c.Request().Context(), requestKey{}, r)
		c.SetRequest(c.Request().WithContext(postgres.Resting(ctx, r)))
		if c.Request().ContentLength != 0 { // who sends more is answered at once, and the connection ends
			c.Request().Body = http.MaxBytesReader(c.Response().Writer, c.Request().Body,
				bodyLimit(c.Request().URL.Path))
		}
		// Set at the last moment: the generated responses write zeros of their own.
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

// limitHeader refuses a request with more than [maxHeader] bytes of header fields.
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

// isPartner tells whether a path belongs to the versioned API, where the token comes before every other check (T5,
// T20).
func isPartner(path string) bool { return path == "/api/v1" || strings.HasPrefix(path, "/api/v1/") }

// isPlatform tells the same of the Platform API and the credentials of the application.
func isPlatform(path string) bool {
	return path == "/api/platform/v1" || strings.HasPrefix(path, "/api/platform/v1/")
}

// unlessVersioned leaves a middleware out where the caller has to be known first.
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

// limitAddress bounds how often one address opens the authorize page (T36).
func (s *Server) limitAddress(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx := c.Request().Context()
		d := s.deps.Limiter.Allow(ctx, "authorize "+requestOf(ctx).network(), s.deps.Quotas.UnauthorizedPerMinute,
			s.deps.DB.Clock().Now())
		if !d.Allowed {
			return errRate.After(d.RetryAfter)
		}
		return next(c)
	}
}

// authenticate finds out who calls. Failures are counted by address, and callers above that quota get 429 (T36); a
// valid token always passes.
func (s *Server) authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, now := c.Request().Context(), s.deps.DB.Clock().Now()
		r := requestOf(ctx)
		token, err := bearer(c.Request().Header)
		if err == nil {
			r.Principal, err = s.deps.OAuth.Authenticate(ctx, token)
		}
		switch {
		case errors.Is(err, oauth.ErrUnauthorized):
			r.rate = s.deps.Limiter.Allow(ctx, "401 "+r.network(), s.deps.Quotas.UnauthorizedPerMinute, now)
			if !r.rate.Allowed {
				return errRate.After(r.rate.RetryAfter)
			}
			return err
		case err != nil:
			// the caller is not known
			r.rate = s.deps.Limiter.Peek(ctx, "401 "+r.network(), s.deps.Quotas.UnauthorizedPerMinute, now)
			return err
		}
		p := r.Principal
		r.rests = func(time.Time) (postgres.Premise, bool) { return p.Premise(), true }
		return next(c)
	}
}

func bearer(h http.Header) (string, error) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", oauth.ErrUnauthorized
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if token = strings.TrimLeft(token, " "); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", oauth.ErrUnauthorized
	}
	return token, nil
}

// limitRate counts the request for the client and for the application; the headers describe the tighter of the two.
func (s *Server) limitRate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, now := c.Request().Context(), s.deps.DB.Clock().Now()
		r := requestOf(ctx)
		p := r.Principal
		said := s.deps.Limiter.AllowEach(ctx, now,
			ratelimit.Bucket{Key: "client " + p.ApplicationID + " " + p.ClientID,
				PerMinute: cmp.Or(p.ClientRatePerMinute, s.deps.Quotas.ClientPerMinute)},
			ratelimit.Bucket{Key: "application " + p.ApplicationID,
				PerMinute: cmp.Or(p.RatePerMinute, s.deps.Quotas.ApplicationPerMinute)})
		r.rate = said[0]
		for _, d := range said[1:] {
			r.rate = tighter(r.rate, d)
		}
		if !r.rate.Allowed {
			return errRate.After(r.rate.RetryAfter)
		}
		return next(c)
	}
}

func tighter(a, b ratelimit.Decision) ratelimit.Decision {
	if !b.Allowed || a.Allowed && b.Remaining < a.Remaining {
		return b
	}
	return a
}

// uses says which operation uses which part of the client's account. The others tell nothing about a client.
var uses = map[string]access.Category{
	"getProfile": access.Profile,
	"getWallet":  access.Wallet, "listWalletTransactions": access.Wallet, "createTopupSession": access.Wallet,
	"createConsultation": access.Consultations, "listConsultations": access.Consultations,
	"getConsultation": access.Consultations, "cancelConsultation": access.Consultations,
	"getConsultationNote": access.Notes,
}

// countUse adds what succeeded to the log that the client sees.
func (s *Server) countUse(op *operation) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		category, ok := uses[op.id]
		if !ok {
			return next
		}
		return func(c echo.Context) error {
			err := next(c)
			if err == nil && c.Response().Status < http.StatusMultipleChoices {
				p := requestOf(c.Request().Context()).Principal
				s.deps.Access.Count(p.ClientID, p.ApplicationID, category, s.deps.DB.Clock().Now())
			}
			return err
		}
	}
}

// requireScope refuses a token without the scopes that the contract names for the operation.
func requireScope(op *operation) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := requestOf(c.Request().Context())
			for _, scope := range op.scopes {
				if !r.Principal.Has(scope) {
					r.scope = application.FormatScopes(op.scopes)
					return errScope.Because("The access token lacks the scope %s.", scope)
				}
			}
			return next(c)
		}
	}
}

var pathID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// checkParameters refuses bad path, query and header parameters: 404 for a path (decision H47), 400 for the others
// (decision H26), also for query parameters that the operation does not have, so that a misspelt filter is not lost in
// silence. It also writes defaults into the query.
func checkParameters(op *operation) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			query, err := url.ParseQuery(c.Request().URL.RawQuery)
			if err != nil {
				return problem.ErrMalformed.Because("The query string is malformed.")
			}
			var issues []problem.Issue
			for name := range query {
				if op.parameter("query", name) == nil {
					issues = append(issues, problem.Issue{Path: name, Code: problem.IssueUnknownField,
						Message: "There is no such parameter."})
				}
			}
			for _, p := range op.parameters {
				var values []string
				switch p.in {
				case "path":
					if !pathID.MatchString(c.Param(p.name)) {
						return problem.ErrNotFound
					}
					continue
				case "query":
					values = query[p.name]
				case "header":
					continue // readKey checks the only one that has rules
				}
				if len(values) == 0 && p.fallback != "" {
					query.Set(p.name, p.fallback)
					continue
				}
				if p.trimmed && len(values) == 1 {
					values = []string{texts.Trimmed(values[0])}
					query.Set(p.name, values[0])
				}
				issues = append(issues, p.check(values)...)
			}
			if len(issues) > 0 {
				return problem.ErrMalformed.Because("The request has invalid parameters; see issues.").With(issues...)
			}
			c.Request().URL.RawQuery = query.Encode()
			return next(c)
		}
	}
}

func (p parameter) check(values []string) []problem.Issue {
	switch {
	case len(values) == 0 && p.required:
		return []problem.Issue{{Path: p.name, Code: problem.IssueRequired, Message: "Is required."}}
	case len(values) == 0:
		return nil
	case len(values) > 1:
		return []problem.Issue{{Path: p.name, Code: problem.IssueInvalidValue, Message: "Must be given once."}}
	}
	if p.trimmed && !texts.IsFree(values[0], false) {
		return []problem.Issue{{Path: p.name, Code: problem.IssueInvalidValue, Message: unfitMessage(false)}}
	}
	var value any = values[0]
	if p.integer {
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil {
			return []problem.Issue{{Path: p.name, Code: problem.IssueInvalidType, Message: "Must be an integer."}}
		}
		value = n
	}
	if p.boolean {
		b, err := strconv.ParseBool(values[0])
		if err != nil || values[0] != strconv.FormatBool(b) {
			return []problem.Issue{{Path: p.name, Code: problem.IssueInvalidType, Message: "Must be true or false."}}
		}
		value = b
	}
	return issuesOf(p.schema.Validate(value), p.name)
}

// readKey binds the Idempotency-Key to the request; a body changes the fingerprint.
func (s *Server) readKey(op *operation) echo.MiddlewareFunc {
	header := op.parameter("header", idempotencyHeader)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		if header == nil {
			return next
		}
		return func(c echo.Context) error {
			values := c.Request().Header.Values(idempotencyHeader)
			if header.required && (len(values) == 0 || len(values) == 1 && values[0] == "") {
				return errKeyRequired.With(problem.Issue{Path: idempotencyHeader, Code: problem.IssueRequired,
					Message: "Is required."})
			}
			if issues := header.check(values); len(issues) > 0 {
				return problem.ErrMalformed.Because("The header Idempotency-Key is not valid.").With(issues...)
			}
			if len(values) == 1 {
				r := requestOf(c.Request().Context())
				r.Idempotency = idempotency.Request{ApplicationID: r.Principal.ApplicationID,
					ClientID: r.Principal.ClientID, Endpoint: op.id, Key: values[0],
					Fingerprint: fingerprintOf(c.Request())}
			}
			return next(c)
		}
	}
}

// checkBody reads and validates a JSON body. An invalid one is 422, unless its key says something else first (T5).
func (s *Server) checkBody(op *operation) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		if op.body == nil {
			return next
		}
		return func(c echo.Context) error {
			ctx := c.Request().Context()
			raw, value, refusal := readBody(c.Request())
			if raw == nil {
				return refusal
			}
			if refusal == nil {
				var issues []problem.Issue
				value, issues = op.body.check(raw, value)
				// The contract cannot say which codes there are, because the catalog changes, nor where a browser may
				// return to.
				unlisted, err := s.deps.Catalog.Unlisted(ctx, s.deps.DB.Read(), textOf(value, "competence"),
					textOf(value, "language"))
				if err != nil {
					return err
				}
				issues = append(issues, unlisted...)
				if !slices.ContainsFunc(issues, func(i problem.Issue) bool { return i.Path == "returnUrl" }) {
					issues = append(issues, s.deps.Payments.UnusableReturn(textOf(value, "returnUrl"))...)
				}
				if len(issues) > 0 {
					refusal = problem.ErrValidation.With(issues...)
				}
			}
			return s.passBody(c, raw, value, refusal, next)
		}
	}
}

func (s *Server) passBody(c echo.Context, raw []byte, value map[string]any, refusal error,
	next echo.HandlerFunc,
) error {
	r := requestOf(c.Request().Context())
	r.body = value
	if r.Idempotency.Key != "" {
		var err error
		if r.Idempotency.Fingerprint, err = idempotency.Fingerprint(target(c.Request()), raw); err != nil {
			return fmt.Errorf("fingerprint: %w", err)
		}
		if refusal != nil {
			response, err := s.deps.Idempotency.Refuse(c.Request().Context(), r.Idempotency, refusal)
			if err != nil {
				return err
			}
			return keep(r, response).write(c.Response())
		}
	}
	if refusal != nil {
		return refusal
	}
	c.Request().Body = validatedBody{c.Request().Body, value}
	return next(c)
}

// textOf is the text at a property, nil when there is none: the schema has refused what is something else.
func textOf(value map[string]any, property string) *string {
	text, ok := value[property].(string)
	if !ok {
		return nil
	}
	return &text
}

func acceptedLanguage(header *string) language.Tag {
	if header == nil {
		return language.English
	}
	tag, _ := language.MatchStrings(labels, *header)
	return tag
}

var labels = language.NewMatcher([]language.Tag{language.English, language.French})
