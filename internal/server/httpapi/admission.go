package httpapi

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/application"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/infra/access"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
)

// limitAddress limits how often one address opens the authorize page (T36).
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

// authenticate identifies the caller. Failures are counted by address, and callers above that rate limit get 429 (T36).
// A valid token always passes.
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
			// the caller is unknown
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

// limitRate counts the request for the client and for the application. The headers describe the tighter of the two
// limits.
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

// uses maps each operation to the part of the client's account that it uses. Operations that are not listed reveal
// nothing about a client.
var uses = map[string]access.Category{
	"getProfile": access.Profile,
	"getWallet":  access.Wallet, "listWalletTransactions": access.Wallet, "createTopupSession": access.Wallet,
	"createConsultation": access.Consultations, "listConsultations": access.Consultations,
	"getConsultation": access.Consultations, "cancelConsultation": access.Consultations,
	"getConsultationNote": access.Notes,
}

// countUse adds successful requests to the access log that the client sees.
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

// requireScope rejects a token without the scopes that the contract requires for the operation.
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
