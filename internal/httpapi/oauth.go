package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/gen/partner/models"
	"partnerd/gen/partner/server"
	"partnerd/internal/oauth"
)

// issueToken answers POST /api/oauth/token (specification section 4.1).
func (s *Server) issueToken(c echo.Context) error {
	neverStore(c)
	form, refused := oauth.ParseForm(c.Request())
	if refused != nil {
		return refused
	}
	t, err := s.deps.OAuth.Token(c.Request().Context(), form)
	if err != nil {
		return s.countTokenFailure(c, err)
	}
	return writeJSON(c, http.StatusOK, tokenView(t))
}

// revokeToken answers POST /api/oauth/revoke (RFC 7009).
func (s *Server) revokeToken(c echo.Context) error {
	neverStore(c)
	form, refused := oauth.ParseForm(c.Request())
	if refused != nil {
		return refused
	}
	if err := s.deps.OAuth.Revoke(c.Request().Context(), form); err != nil {
		return s.countTokenFailure(c, err)
	}
	return c.NoContent(http.StatusOK)
}

// countTokenFailure slows down whoever guesses application secrets. Only refused authentications count: a partner with
// a stale code or refresh token harms nobody.
func (s *Server) countTokenFailure(c echo.Context, err error) error {
	var refused *oauth.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
		return err
	}
	d := s.deps.Limiter.Allow("token "+requestOf(c.Request().Context()).Address, s.deps.Quotas.TokenFailurePerMinute, s.deps.DB.Clock().Now())
	if !d.Allowed {
		return errRate.After(d.RetryAfter)
	}
	return err
}

func (s *Server) metadata(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "public, max-age=300")
	return writeJSON(c, http.StatusOK, s.deps.OAuth.Metadata())
}

func (s *Server) jwks(c echo.Context) error {
	keys, err := s.deps.OAuth.JWKS(c.Request().Context())
	if err != nil {
		return err
	}
	c.Response().Header().Set("Cache-Control", "public, max-age=300")
	return c.Blob(http.StatusOK, "application/json", keys)
}

func neverStore(c echo.Context) {
	c.Response().Header().Set("Cache-Control", "no-store")
	c.Response().Header().Set("Pragma", "no-cache")
}

func tokenView(t oauth.TokenResponse) models.TokenResponse {
	v := models.TokenResponse{AccessToken: t.AccessToken, TokenType: models.TokenResponseTokenType(t.TokenType), ExpiresIn: t.ExpiresIn, Scope: t.Scope}
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

// IssueToken is served by issueToken (see Register).
func (s *Server) IssueToken(_ context.Context, _ server.IssueTokenRequestObject) (server.IssueTokenResponseObject, error) {
	return nil, errRaw
}

// RevokeToken is served by revokeToken (see Register).
func (s *Server) RevokeToken(_ context.Context, _ server.RevokeTokenRequestObject) (server.RevokeTokenResponseObject, error) {
	return nil, errRaw
}
