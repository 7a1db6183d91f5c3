package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/gen/partner/models"
	"partnerd/gen/partner/server"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/server/edge"
)

const (
	failuresOfApplication = 10 // limit of failures per application, in multiples of that per address
	maxApplicationID      = 64 // longer IDs identify nothing and are not worth storing
)

// answerToken handles POST /api/oauth/token (specification section 4.1).
func (s *Server) answerToken(c echo.Context) error {
	neverStore(c)
	form, refused := oauth.ParseForm(c.Request())
	if refused != nil {
		return challenge(c, refused)
	}
	key, refused := s.tokenKey(c.Request().Header)
	if refused != nil {
		return refused
	}
	t, err := s.deps.OAuth.Token(c.Request().Context(), form, key)
	r := requestOf(c.Request().Context())
	r.Principal.ApplicationID, r.refreshed = t.ApplicationID, err == nil && form.Get("grant_type") == oauth.GrantRefresh
	if err != nil {
		return s.countTokenFailure(c, form.Get("client_id"), err)
	}
	if t.Replayed {
		c.Response().Header().Set(replayedHeader, "true")
	}
	return writeJSON(c, http.StatusOK, tokenView(t))
}

// tokenKey reads the optional Idempotency-Key of a token request (trap T24).
func (s *Server) tokenKey(h http.Header) (string, *oauth.Error) {
	values := h.Values(idempotencyHeader)
	if len(values) == 0 {
		return "", nil
	}
	if len(s.doc.operations["issueToken"].parameter("header", idempotencyHeader).check(values)) > 0 {
		return "", &oauth.Error{Status: http.StatusBadRequest, Code: oauth.CodeInvalidRequest,
			Description: "The header Idempotency-Key must be sent once and have 1 to 255 printable ASCII characters."}
	}
	return values[0], nil
}

// answerRevocation handles POST /api/oauth/revoke (RFC 7009).
func (s *Server) answerRevocation(c echo.Context) error {
	neverStore(c)
	form, refused := oauth.ParseForm(c.Request())
	if refused != nil {
		return challenge(c, refused)
	}
	if err := s.deps.OAuth.Revoke(c.Request().Context(), form); err != nil {
		return s.countTokenFailure(c, form.Get("client_id"), err)
	}
	return c.NoContent(http.StatusOK)
}

// countTokenFailure slows down callers who guess the secret of an application. Only failed authentications count,
// because an expired code or refresh token is harmless. A caller with the right secret is never slowed down, even at
// the address of someone who guesses. Only the response to a failed authentication is limited.
func (s *Server) countTokenFailure(c echo.Context, applicationID string, err error) error {
	var refused *oauth.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
		return err
	}
	ctx := c.Request().Context()
	if requestOf(ctx).Principal.ApplicationID != "" { // its credentials are right, but it is suspended
		return challenge(c, refused)
	}
	network, quota, now := requestOf(ctx).network(), s.deps.Quotas.TokenFailurePerMinute, s.deps.DB.Clock().Now()
	buckets := []ratelimit.Bucket{{Key: "token from " + network, PerMinute: quota}}
	if len(applicationID) <= maxApplicationID {
		buckets = append(buckets, ratelimit.Bucket{Key: "token of " + applicationID,
			PerMinute: quota * failuresOfApplication})
	}
	said := s.deps.Limiter.AllowEach(ctx, now, buckets...)
	d := said[len(said)-1]
	if len(said) == 2 && !d.Allowed && s.deps.Limiter.Allow(ctx, "warn "+applicationID, 1, now).Allowed {
		s.deps.Logger.Warn("many refused authentications from many addresses", "application", applicationID)
	}
	if !d.Allowed {
		return errRate.After(d.RetryAfter)
	}
	return challenge(c, refused)
}

// challenge sends the response to a failed authentication in the scheme that the application used (RFC 6749 section
// 5.2).
func challenge(c echo.Context, refused *oauth.Error) error {
	if refused.Status == http.StatusUnauthorized && oauth.UsesBasic(c.Request().Header) {
		c.Response().Header().Set("WWW-Authenticate", basicChallenge)
	}
	return refused
}

func (s *Server) metadata(c echo.Context) error {
	raw, err := json.Marshal(s.deps.OAuth.Metadata())
	if err != nil {
		return fmt.Errorf("write metadata: %w", err)
	}
	return public(c, "public, max-age=300", edge.NewDocument("application/json", raw))
}

func (s *Server) jwks(c echo.Context) error {
	keys, err := s.deps.OAuth.JWKS(c.Request().Context())
	if err != nil {
		return err
	}
	return public(c, "public, max-age=300", edge.NewDocument("application/json", keys))
}

func neverStore(c echo.Context) {
	c.Response().Header().Set("Cache-Control", "no-store")
	c.Response().Header().Set("Pragma", "no-cache")
}

func tokenView(t oauth.TokenResponse) models.TokenResponse {
	v := models.TokenResponse{AccessToken: t.AccessToken, TokenType: models.TokenResponseTokenType(t.TokenType),
		ExpiresIn: t.ExpiresIn, Scope: t.Scope}
	if t.RefreshToken != "" {
		v.RefreshToken, v.RefreshTokenExpiresIn = &t.RefreshToken, &t.RefreshTokenExpiresIn
	}
	return v
}

var errRaw = errors.New("this operation is served by a handler of its own")

// Authorize is served by the page (see Register).
func (s *Server) Authorize(_ context.Context, _ server.AuthorizeRequestObject) (server.AuthorizeResponseObject, error) {
	return nil, errRaw
}

// IssueToken is served by answerToken (see Register).
func (s *Server) IssueToken(_ context.Context,
	_ server.IssueTokenRequestObject,
) (server.IssueTokenResponseObject, error) {
	return nil, errRaw
}

// RevokeToken is served by answerRevocation (see Register).
func (s *Server) RevokeToken(_ context.Context,
	_ server.RevokeTokenRequestObject,
) (server.RevokeTokenResponseObject, error) {
	return nil, errRaw
}
