package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
	"go.yaml.in/yaml/v3"

	"partnerd/gen/partner/server"
	"partnerd/internal/account"
	"partnerd/internal/catalog"
	"partnerd/internal/consultation"
	"partnerd/internal/id"
	"partnerd/internal/idempotency"
	"partnerd/internal/oauth"
	"partnerd/internal/payment"
	"partnerd/internal/postgres"
	"partnerd/internal/problem"
	"partnerd/internal/ratelimit"
	"partnerd/internal/wallet"
	"partnerd/openapi"
)

// exampleBase is the base address that the contract is written with; published copies carry the real one.
const exampleBase = "http://localhost:8080"

// Deps is what the server needs.
type Deps struct {
	DB            *postgres.DB
	Logger        *slog.Logger
	Accounts      *account.Service
	OAuth         *oauth.Service
	Catalog       *catalog.Service
	Wallet        *wallet.Service
	Payments      *payment.Service
	Consultations *consultation.Service
	Idempotency   *idempotency.Service
	Limiter       *ratelimit.Limiter
	Quotas        Quotas
	BaseURL       string
	CursorKey     []byte // secret; the same in every replica
	Test          bool   // sandbox
	Authorize     echo.HandlerFunc
	ErrorPage     func(c echo.Context, status int) error // for paths that people open
}

// Quotas are requests a minute (decision H27). An application may have its own instead of the first two.
type Quotas struct {
	ApplicationPerMinute  int // all clients of an application together
	ClientPerMinute       int // one client with one application
	UnauthorizedPerMinute int // refused tokens, one address
	TokenFailurePerMinute int // refused client authentications at the token endpoint, one address
}

// Server implements the contract.
type Server struct {
	deps       Deps
	doc        *document
	ids        id.Minter
	cursors    cursors
	openapi    []byte // YAML
	openapiAlt []byte // JSON
}

var _ server.StrictServerInterface = (*Server)(nil)

type catalogCheck = func(ctx context.Context, tx postgres.Tx, code string) (bool, error)

// New reads the contract and prepares the server. It fails when the contract cannot be enforced.
func New(d Deps) (*Server, error) {
	doc, err := readDocument(openapi.Partner)
	if err != nil {
		return nil, err
	}
	s := &Server{deps: d, doc: doc, ids: id.Minter{Test: d.Test}, cursors: cursors{d.CursorKey}}
	s.openapi = bytes.ReplaceAll(openapi.Partner, []byte(exampleBase), []byte(d.BaseURL))
	var tree any
	if err := yaml.Unmarshal(s.openapi, &tree); err != nil {
		return nil, fmt.Errorf("publish contract: %w", err)
	}
	if s.openapiAlt, err = json.Marshal(tree); err != nil {
		return nil, fmt.Errorf("publish contract: %w", err)
	}
	return s, nil
}

// Register adds every route, and the order in which faults are answered.
func (s *Server) Register(e *echo.Echo) {
	e.HTTPErrorHandler = s.onError
	e.Use(s.begin, s.accessLog, limitHeader)

	partner := func(op *operation) []echo.MiddlewareFunc {
		return []echo.MiddlewareFunc{s.authenticate, s.limitRate, requireScope(op), checkParameters(op), s.readKey(op), s.checkBody(op)}
	}
	middlewares := map[string][]echo.MiddlewareFunc{
		// The generated bindings of these three read parameters from places where secrets must not be, and answer
		// faults before the redirect rules of OAuth are known, so their handlers take the bare request.
		"authorize":   {instead(s.deps.Authorize)},
		"issueToken":  {instead(s.issueToken)},
		"revokeToken": {instead(s.revokeToken)},
	}
	for name, op := range s.doc.operations {
		if !op.public {
			middlewares[name] = partner(op)
		}
	}
	server.RegisterHandlersWithOptions(e, server.NewStrictHandler(s, nil), server.RegisterHandlersOptions{OperationMiddlewares: middlewares})

	e.Any("/api/v1", s.unknown, s.authenticate, s.limitRate)
	e.Any("/api/v1/*", s.unknown, s.authenticate, s.limitRate)
	e.GET("/.well-known/oauth-authorization-server", s.metadata)
	e.GET("/.well-known/jwks.json", s.jwks)
	e.GET("/openapi.yaml", func(c echo.Context) error { return c.Blob(http.StatusOK, "application/yaml", s.openapi) })
	e.GET("/openapi.json", func(c echo.Context) error { return c.Blob(http.StatusOK, "application/json", s.openapiAlt) })
	e.GET("/healthz", s.health)
	e.GET("/readyz", s.ready)
	e.POST("/payments/notices/:provider", s.paymentNotice)
}

// instead makes a middleware that answers with h and never calls on.
func instead(h echo.HandlerFunc) echo.MiddlewareFunc {
	return func(echo.HandlerFunc) echo.HandlerFunc { return h }
}

// unknown answers a path or method below /api/v1 that the contract does not have (T20).
func (s *Server) unknown(c echo.Context) error {
	if methods := s.doc.allowed(c.Request().URL.Path); methods != nil {
		c.Response().Header().Set("Allow", strings.Join(methods, ", "))
		return problem.ErrMethodNotAllowed
	}
	return problem.ErrNotFound
}
