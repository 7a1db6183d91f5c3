package oauth

import (
	"context"
	"errors"
	"net/url"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

// AuthorizeRequest is a valid authorization request, as a consent page shows it.
type AuthorizeRequest struct {
	Application   application.Application
	RedirectURI   string // registered, exactly as given
	State         string // returned byte for byte
	CodeChallenge string
	Scopes        []application.Scope // requested; within the application's scopes
}

// ParseAuthorize checks the query of an authorization request (specification section 4.1). All seven parameters are
// required, each once; others are ignored. The error is a *[PageError] until the application and its redirect URI are
// verified, and a *[RedirectError] afterwards (traps T18, T19).
func (s *Service) ParseAuthorize(ctx context.Context, tx postgres.Tx, q url.Values) (AuthorizeRequest, error) {
	if len(q["client_id"]) > 1 || len(q["redirect_uri"]) > 1 {
		return AuthorizeRequest{}, &PageError{PageMalformed, "client_id or redirect_uri is given more than once."}
	}
	app, err := s.applications.Get(ctx, tx, q.Get("client_id"))
	if errors.Is(err, problem.ErrNotFound) {
		return AuthorizeRequest{}, &PageError{PageUnknownApplication, "client_id is unknown."}
	}
	if err != nil {
		return AuthorizeRequest{}, err
	}
	r := AuthorizeRequest{Application: app, RedirectURI: q.Get("redirect_uri"), CodeChallenge: q.Get("code_challenge")}
	if !app.HasRedirectURI(r.RedirectURI) {
		return AuthorizeRequest{}, &PageError{PageRedirectMismatch,
			"redirect_uri is not registered for this application."}
	}
	if len(q["state"]) == 1 {
		r.State = q.Get("state")
	}
	if code, description := s.checkAuthorize(&r, q); code != "" {
		return AuthorizeRequest{}, s.refuse(r, code, description)
	}
	return r, nil
}

func (s *Service) checkAuthorize(r *AuthorizeRequest, q url.Values) (code, description string) {
	for name, values := range q {
		if len(values) > 1 {
			return CodeInvalidRequest, "A parameter is given more than once."
		}
		if name == "response_mode" && values[0] != "query" {
			return CodeInvalidRequest, "response_mode must be query."
		}
	}
	for _, name := range []string{"response_type", "scope", "state", "code_challenge", "code_challenge_method"} {
		if q.Get(name) == "" {
			return CodeInvalidRequest, name + " is required."
		}
	}
	switch {
	case r.Application.Suspended:
		return CodeUnauthorizedClient, "The application is suspended."
	case q.Get("response_type") != "code":
		return CodeUnsupportedResponseType, "response_type must be code."
	case q.Get("code_challenge_method") != methodS256:
		return CodeInvalidRequest, "code_challenge_method must be S256."
	case !challengeSyntax.MatchString(r.CodeChallenge):
		return CodeInvalidRequest, "code_challenge must be a SHA-256 in base64url: 43 characters."
	}
	scopes, err := application.ParseScopes(q.Get("scope"))
	if err != nil {
		return CodeInvalidScope, "scope must list known scopes, separated by single spaces."
	}
	if !application.Within(scopes, r.Application.Scopes) {
		return CodeInvalidScope, "scope includes scopes that this application may not request."
	}
	r.Scopes = scopes
	return "", ""
}

const descriptionDenied = "The client declined."

// Approve records the client's consent to granted, a subset of r.Scopes. It returns where to send the browser: the
// redirect URI with a code that is valid for [CodeLifetime]. Empty consent, or consent by a disabled client, counts as
// a refusal. A scope that was not requested is a *[PageError].
func (s *Service) Approve(ctx context.Context, tx postgres.Tx, r AuthorizeRequest, clientID string,
	granted []application.Scope,
) (redirectURL string, err error) {
	if !application.Within(granted, r.Scopes) {
		return "", &PageError{PageMalformed, "Consent was given to a scope that was not requested."}
	}
	client, err := s.accounts.Lock(ctx, tx, clientID)
	if err != nil {
		return "", err
	}
	if err := remember(ctx, tx, clientID, r.Application.ID, r.Scopes, granted); err != nil {
		return "", err
	}
	return s.createGrant(ctx, tx, r, client, granted, reasonConsent)
}

// ApproveAsBefore approves all of r.Scopes like [Service.Approve], if the client has already consented to each of them.
// If the client must be asked, it does nothing and returns "".
func (s *Service) ApproveAsBefore(ctx context.Context, tx postgres.Tx, r AuthorizeRequest,
	clientID string,
) (redirectURL string, err error) {
	client, err := s.accounts.Lock(ctx, tx, clientID)
	if err != nil {
		return "", err
	}
	remembered, err := s.Remembered(ctx, tx, clientID, r.Application.ID, r.RedirectURI)
	if err != nil || len(MustAsk(r.Scopes, remembered)) > 0 {
		return "", err
	}
	return s.createGrant(ctx, tx, r, client, r.Scopes, reasonRemembered)
}

// createGrant requires the client's lock, which ending connections also takes.
func (s *Service) createGrant(ctx context.Context, tx postgres.Tx, r AuthorizeRequest, client account.Client,
	scopes []application.Scope, reason Reason,
) (redirectURL string, err error) {
	if len(scopes) == 0 || client.Disabled {
		return s.refuse(r, CodeAccessDenied, descriptionDenied).URL, nil
	}
	g := grantRow{ID: tx.NewID(id.Grant), ApplicationID: r.Application.ID, ClientID: client.ID,
		Scopes: application.Ordered(scopes), RedirectURI: r.RedirectURI}
	if err := insertGrant(ctx, tx, g, reason); err != nil {
		return "", err
	}
	code := tx.NewSecret("cod")
	if err := insertCode(ctx, tx, codeRow{Hash: id.DigestOf(code), GrantID: g.ID, RedirectURI: r.RedirectURI,
		CodeChallenge: r.CodeChallenge, ExpiresAt: tx.Now.Add(CodeLifetime)}); err != nil {
		return "", err
	}
	return s.redirect(r, url.Values{"code": {code}}), nil
}

// Deny withdraws the client's earlier consent to the requested scopes, and returns where to send the browser. Existing
// grants of the application stay.
func (s *Service) Deny(ctx context.Context, tx postgres.Tx, r AuthorizeRequest,
	clientID string,
) (redirectURL string, err error) {
	if _, err := s.accounts.Lock(ctx, tx, clientID); err != nil {
		return "", err
	}
	if err := remember(ctx, tx, clientID, r.Application.ID, r.Scopes, nil); err != nil {
		return "", err
	}
	return s.refuse(r, CodeAccessDenied, descriptionDenied).URL, nil
}

func (s *Service) refuse(r AuthorizeRequest, code, description string) *RedirectError {
	return &RedirectError{Code: code, URL: s.redirect(r, url.Values{"error": {code},
		"error_description": {description}})}
}

// redirect adds state, if there is one, and iss (RFC 9207) to every redirect.
func (s *Service) redirect(r AuthorizeRequest, values url.Values) string {
	if r.State != "" {
		values.Set("state", r.State)
	}
	values.Set("iss", s.cfg.Issuer)
	return addQuery(r.RedirectURI, values)
}
