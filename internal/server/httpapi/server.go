package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/gen/partner/server"
	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/telemetry"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/conformance"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/desk"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/status"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/access"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/infra/requestlog"
	"partnerd/internal/server/edge"
	"partnerd/openapi"
)

// Deps contains the dependencies of the server.
type Deps struct {
	DB            *postgres.DB
	Applications  *application.Service
	Portal        *portal.Service
	Webhooks      *webhook.Service
	Logger        *slog.Logger
	Metrics       *Metrics
	Tracer        *telemetry.Tracer // of requests; nil for none
	Accounts      *account.Service
	Access        *access.Log
	Requests      *requestlog.Log
	Conformance   *conformance.Service
	OAuth         *oauth.Service
	Catalog       *catalog.Service
	Wallet        *wallet.Service
	Payments      *payment.Service
	Consultations *consultation.Service
	Calls         telephony.Inbound // nil without a telephony provider
	Staff         *staff.Service
	Desk          *desk.Service
	Idempotency   *idempotency.Service
	Limiter       *ratelimit.Limiter
	Quotas        Quotas
	Ending        func() bool // reports that the process is shutting down; may be nil
	BaseURL       string
	Contact       string           // URL of the contact for partners; empty for none
	CursorKey     []byte           // secret; the same in every replica
	Test          bool             // sandbox
	Clock         *sandbox.Clock   // nil in live
	TestClients   *sandbox.Clients // nil in live
	Crews         *sandbox.Crews   // nil in live
	Inbox         *sandbox.Inbox   // nil in live
	Status        *status.Service
	Authorize     echo.HandlerFunc
	StatusPage    func(c echo.Context, code int, r status.Report) error
	ErrorPage     func(c echo.Context, status int) error // for paths that people open
}

// Quotas are requests per minute (decision H27). The settings of an application can override the first two.
type Quotas struct {
	ApplicationPerMinute  int // all clients of an application together
	ClientPerMinute       int // one client with one application
	UnauthorizedPerMinute int // rejected tokens from one address
	TokenFailurePerMinute int // failed client authentications at the token endpoint from one address
}

// Server implements the contracts.
type Server struct {
	deps     Deps
	doc      *document // Partner API
	platform *document // Platform API
	desk     *document // Desk API
	origins  *edge.Origins
	sandbox  *document // Sandbox API; nil in live
	ids      id.Minter
	cursors  cursors
	copies   map[string]edge.Document // published contracts, by path
}

var _ server.StrictServerInterface = (*Server)(nil)

// New reads the contracts and prepares the server. It fails if a contract cannot be enforced.
func New(d Deps) (*Server, error) {
	s := &Server{deps: d, ids: id.Minter{Test: d.Test}, cursors: cursors{d.CursorKey},
		copies: map[string]edge.Document{}}
	var err error
	if s.doc, err = readDocument(openapi.Partner, schemePartner); err != nil {
		return nil, err
	}
	if s.platform, err = readDocument(openapi.Platform, schemePlatform); err != nil {
		return nil, err
	}
	if s.desk, err = readDocument(openapi.Desk, schemeDesk); err != nil {
		return nil, err
	}
	published := map[string][]byte{"/openapi": openapi.Partner, "/openapi/platform": openapi.Platform,
		"/openapi/desk": openapi.Desk}
	if d.Clock != nil {
		if s.sandbox, err = readDocument(openapi.Sandbox, schemePlatform); err != nil {
			return nil, err
		}
		published["/openapi/sandbox"] = openapi.Sandbox
	}
	for path, source := range published {
		if err := s.publish(path, source); err != nil {
			return nil, err
		}
	}
	if s.origins, err = edge.NewOrigins(d.BaseURL); err != nil {
		return nil, err
	}
	return s, nil
}

// publish keeps a copy of a contract with the actual base URL, as YAML and as JSON.
func (s *Server) publish(path string, source []byte) error {
	asJSON, err := openapi.JSON(source)
	if err != nil {
		return fmt.Errorf("publish contract: %w", err)
	}
	copied := func(written []byte) []byte {
		return openapi.WithContact(openapi.Published(written, s.deps.BaseURL), s.deps.Contact)
	}
	s.copies[path+".yaml"] = edge.NewDocument("application/yaml", copied(source))
	s.copies[path+".json"] = edge.NewDocument("application/json", copied(asJSON))
	return nil
}

// Register adds every route, and defines the order in which errors are checked.
func (s *Server) Register(e *echo.Echo) {
	e.HTTPErrorHandler = s.onError
	if s.deps.Tracer != nil {
		e.Use(s.trace)
	}
	e.Use(s.begin, s.accessLog, unlessVersioned(limitHeader))

	known := []echo.MiddlewareFunc{s.authenticate, s.limitRate}
	partner := func(op *operation) []echo.MiddlewareFunc {
		return slices.Concat(bodyFirst(op), known,
			[]echo.MiddlewareFunc{s.countUse(op), requireScope(op), limitHeader, checkParameters(op), s.readKey(op),
				s.checkBody(op)})
	}
	middlewares := map[string][]echo.MiddlewareFunc{
		// The generated bindings of these three read parameters from places where secrets must not be. They also
		// respond to errors before the redirect rules of OAuth are known. Their handlers therefore take the bare
		// request.
		"authorize":   {s.limitAddress, instead(s.deps.Authorize)},
		"issueToken":  {instead(s.answerToken)},
		"revokeToken": {instead(s.answerRevocation)},
	}
	for name, op := range s.doc.operations {
		if !op.public {
			middlewares[name] = partner(op)
		}
	}
	server.RegisterHandlersWithOptions(e, server.NewStrictHandler(s, nil),
		server.RegisterHandlersOptions{OperationMiddlewares: middlewares})

	e.HEAD(authorizePath, s.deps.Authorize, s.limitAddress)
	for _, path := range append(s.doc.routes(isPartner), "/api/v1", "/api/v1/*") {
		e.RouteNotFound(path, unknown(s.doc), append(slices.Clone(known), limitHeader)...)
	}
	read := []string{http.MethodGet, http.MethodHead}
	e.Match(read, "/.well-known/oauth-authorization-server", s.metadata)
	e.Match(read, "/.well-known/jwks.json", s.jwks)
	for path, content := range s.copies {
		e.Match(read, path, func(c echo.Context) error { return public(c, "no-cache", content) })
	}
	s.registerPlatform(e)
	s.registerDesk(e)
	e.Match(read, "/healthz", s.health)
	e.Match(read, "/readyz", s.ready)
	e.Match(read, "/status", s.status)
	e.Match(read, "/status.json", s.status)
	e.POST("/payments/notices/:provider", s.paymentNotice)
	if s.deps.Calls != nil {
		e.POST(s.deps.Calls.Path()+":command/:kind", s.callNotice)
	}
}

// instead creates a middleware that responds with h and never calls the next handler.
func instead(h echo.HandlerFunc) echo.MiddlewareFunc {
	return func(echo.HandlerFunc) echo.HandlerFunc { return h }
}

// unknown responds to a path or method below a versioned prefix that is in none of its contracts (T20).
func unknown(contracts ...*document) echo.HandlerFunc {
	return func(c echo.Context) error {
		for _, d := range contracts {
			if methods := d.allowed(c.Request().URL.EscapedPath()); methods != nil {
				c.Response().Header().Set("Allow", strings.Join(methods, ", "))
				return problem.ErrMethodNotAllowed
			}
		}
		return problem.ErrNotFound
	}
}
