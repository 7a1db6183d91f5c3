package httpapi

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/gen/platform/server"
	"partnerd/internal/base/id"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
)

// platform implements the Platform API, with which an application manages its own webhooks. It has no access to
// clients.
type platform struct{ *Server }

var _ server.StrictServerInterface = platform{}

// errCredentials is the same problem as for an invalid access token.
var errCredentials = oauth.ErrUnauthorized.Because("The application credentials are missing or invalid.")

// registerPlatform adds the routes of the Platform API. Errors are checked in the same order as in the Partner API.
func (s *Server) registerPlatform(e *echo.Echo) {
	known := []echo.MiddlewareFunc{s.authenticateApplication, s.limitApplication, limitHeader}
	middlewares := map[string][]echo.MiddlewareFunc{}
	for name, op := range s.platform.operations {
		if !op.public {
			middlewares[name] = s.keyed(op, known)
		}
	}
	server.RegisterHandlersWithOptions(e, server.NewStrictHandler(platform{s}, nil),
		server.RegisterHandlersOptions{OperationMiddlewares: middlewares})
	contracts, paths := []*document{s.platform}, append(s.platform.routes(isPlatform), "/api/platform/v1",
		"/api/platform/v1/*")
	if s.sandbox != nil {
		s.registerSandbox(e, known)
		contracts, paths = append(contracts, s.sandbox), append(paths, s.sandbox.routes(isPlatform)...)
	}
	for _, path := range paths {
		e.RouteNotFound(path, unknown(contracts...), known...)
	}
}

// keyed returns the middlewares of an operation of an application: read the body, identify the caller, check the
// request.
func (s *Server) keyed(op *operation, known []echo.MiddlewareFunc) []echo.MiddlewareFunc {
	return slices.Concat(bodyFirst(op), known, []echo.MiddlewareFunc{checkParameters(op), s.readKey(op),
		s.checkBody(op), s.once(op)})
}

// authenticateApplication identifies the calling application. Failed authentications are counted by address, together
// with those at the token endpoint. A suspended application is rejected like an unknown one (T16).
func (s *Server) authenticateApplication(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, now := c.Request().Context(), s.deps.DB.Clock().Now()
		r := requestOf(ctx)
		bucket, quota := "token from "+r.network(), s.deps.Quotas.TokenFailurePerMinute
		name, secret, ok := c.Request().BasicAuth()
		ok = ok && len(c.Request().Header.Values("Authorization")) == 1
		var app application.Application
		err := application.ErrBadCredentials
		if ok {
			app, err = s.deps.Applications.Authenticate(ctx, s.deps.DB.Read(), name, secret)
		}
		if err == nil && app.Suspended {
			err = application.ErrBadCredentials
		}
		if errors.Is(err, application.ErrBadCredentials) {
			if r.rate = s.deps.Limiter.Allow(ctx, bucket, quota, now); !r.rate.Allowed {
				return errRate.After(r.rate.RetryAfter)
			}
			return errCredentials
		}
		if err != nil {
			r.rate = s.deps.Limiter.Peek(ctx, bucket, quota, now) // the caller is unknown
			return err
		}
		r.Principal = oauth.Principal{ApplicationID: app.ID, RatePerMinute: app.RatePerMinute}
		given := id.DigestOf(secret)
		r.rests = func(now time.Time) (postgres.Premise, bool) {
			return application.Premise(app.ID, given, now, errCredentials), true
		}
		return next(c)
	}
}

// limitApplication counts the request for the application, separately from its requests to the Partner API.
func (s *Server) limitApplication(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx := c.Request().Context()
		r := requestOf(ctx)
		r.rate = s.deps.Limiter.Allow(ctx, "platform "+r.Principal.ApplicationID,
			cmp.Or(r.Principal.RatePerMinute, s.deps.Quotas.ApplicationPerMinute), s.deps.DB.Clock().Now())
		if !r.rate.Allowed {
			return errRate.After(r.rate.RetryAfter)
		}
		return next(c)
	}
}

// limitPosts counts a call against the rate limit of its purpose. The headers describe the tighter of the two limits.
func (p platform) limitPosts(ctx context.Context, purpose ratelimit.Purpose) error {
	return p.limitPurpose(ctx, purpose, ratelimit.PostsPerMinute)
}

func (s *Server) limitPurpose(ctx context.Context, purpose ratelimit.Purpose, perMinute int) error {
	r := requestOf(ctx)
	var d ratelimit.Decision
	err := s.deps.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		d, err = ratelimit.TakeFor(ctx, tx, purpose, r.Principal.ApplicationID, perMinute)
		return err
	})
	if err != nil {
		return err
	}
	if r.rate = tighter(r.rate, d); !d.Allowed {
		return errRate.After(d.RetryAfter)
	}
	return nil
}
