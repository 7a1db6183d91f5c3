package oauth

import (
	"errors"
	"net/url"

	library "github.com/go-oauth2/oauth2/v4/errors"

	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// ErrUnauthorized is returned for a missing, invalid, expired or revoked access token (specification section 7).
var ErrUnauthorized = problem.Declare(problem.Unauthorized, "UNAUTHORIZED",
	"The access token is missing, invalid, expired or revoked.")

// Codes of [Error] and of the error parameter on redirects (RFC 6749; decisions H6, H9).
const (
	CodeInvalidRequest          = "invalid_request"
	CodeInvalidGrant            = "invalid_grant"
	CodeInvalidClient           = "invalid_client"
	CodeInvalidScope            = "invalid_scope"
	CodeAccessDenied            = "access_denied"
	CodeUnauthorizedClient      = "unauthorized_client"
	CodeUnsupportedResponseType = "unsupported_response_type"
)

// Error is a refusal by the token or revocation endpoint: 400 invalid_request or invalid_grant, or 401 invalid_client.
type Error struct {
	Status      int
	Code        string
	Description string // English, for developers; printable ASCII without quotes
	Fault       Fault  // for invalid_grant; shown only to the application's people
}

// Fault says in English which parameter was refused and why. It is not part of the response, because someone with a
// stolen token could learn from it whether the token was ever valid. The zero value means none.
type Fault struct{ Parameter, Why string }

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Description }

func invalidRequest(description string) *Error {
	return &Error{Status: 400, Code: CodeInvalidRequest, Description: description}
}

func invalidClient() *Error {
	return &Error{Status: 401, Code: CodeInvalidClient,
		Description: "client_id is unknown, or client_secret is missing or wrong."}
}

// Codes of [PageError].
const (
	PageUnknownApplication = "unknown_application"
	PageRedirectMismatch   = "redirect_mismatch"
	PageMalformed          = "malformed"
)

// PageError is an error in an authorization request that is shown to the person (400). It is never redirected, because
// the redirect URI cannot be trusted (trap T18).
type PageError struct {
	Code        string // one of the Page… constants
	Description string // English
}

// Error implements error.
func (e *PageError) Error() string { return e.Code + ": " + e.Description }

// RedirectError is an error in an authorization request that is reported to the application by a 302 redirect to URL.
type RedirectError struct {
	URL  string // the registered redirect URI with error, error_description, state and iss
	Code string
}

// Error implements error.
func (e *RedirectError) Error() string { return "authorization refused: " + e.Code }

const (
	descriptionCode    = "The code is unknown, expired, used, revoked, or was not issued for this application, redirect_uri and code_verifier."
	descriptionRefresh = "The refresh token is unknown, expired, used, revoked, or was not issued to this application."
)

// tokenError converts the library's errors to those of the contract. The library returns invalid_grant with 401, and
// several client errors as 500. Errors not caused by the client are returned unchanged.
func tokenError(err error, form url.Values) error {
	grantType := form.Get("grant_type")
	description := descriptionCode
	if grantType == GrantRefresh {
		description = descriptionRefresh
	}
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return &Error{Status: 400, Code: CodeInvalidGrant, Description: description, Fault: refused.fault}
	case isAny(err, library.ErrInvalidClient):
		return invalidClient()
	case isAny(err, library.ErrInvalidScope):
		return invalidRequest("invalid_scope: scope must be a subset of the granted scopes.")
	case isAny(err, library.ErrInvalidRequest, library.ErrUnsupportedGrantType, library.ErrUnauthorizedClient):
		return invalidRequest(missing(form))
	case isAny(err, errSuspended):
		// The application's grants stay as they are. After invalid_grant, partners are told to discard their tokens.
		return &Error{Status: 401, Code: CodeInvalidClient, Description: "The application is suspended."}
	case isAny(err, library.ErrInvalidRedirectURI):
		return &Error{Status: 400, Code: CodeInvalidGrant, Description: description,
			Fault: Fault{"redirect_uri", "Is not registered for the application."}}
	case isAny(err, library.ErrInvalidGrant, library.ErrInvalidAuthorizeCode, library.ErrInvalidRefreshToken,
		library.ErrExpiredRefreshToken, library.ErrMissingCodeVerifier, library.ErrMissingCodeChallenge,
		library.ErrInvalidCodeChallenge):
		return &Error{Status: 400, Code: CodeInvalidGrant, Description: description}
	case postgres.IsLockTimeout(err):
		return problem.ErrUnavailable
	}
	return err
}

// missing returns a description of the first missing parameter of a token request.
func missing(form url.Values) string {
	names := []string{"client_id", "code", "redirect_uri", "code_verifier"}
	if form.Get("grant_type") == GrantRefresh {
		names = []string{"client_id", "refresh_token"}
	}
	for _, name := range names {
		if form.Get(name) == "" {
			return name + " is required."
		}
	}
	return "A required parameter is missing or malformed."
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
