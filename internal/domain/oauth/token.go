package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	oauth2 "github.com/go-oauth2/oauth2/v4"
	library "github.com/go-oauth2/oauth2/v4/errors"

	"partnerd/internal/base/id"
	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

// TokenResponse is the response of the token endpoint (decision H7).
type TokenResponse struct {
	AccessToken           string `json:"access_token"`
	TokenType             string `json:"token_type"` // Bearer
	ExpiresIn             int    `json:"expires_in"` // seconds
	Scope                 string `json:"scope"`      // of the access token, separated by spaces
	RefreshToken          string `json:"refresh_token,omitempty"`
	RefreshTokenExpiresIn int    `json:"refresh_token_expires_in,omitempty"` // seconds
	// the stored response of an earlier request with the same Idempotency-Key
	Replayed bool `json:"-"`
	// the authenticated application, also with an error; empty without authentication
	ApplicationID string `json:"-"`
}

// Token handles a token request whose form came from [ParseForm] (specification section 4.1). Refusals are *[Error]. A
// reused code or refresh token has revoked its grant by the time Token returns.
//
// If idempotencyKey is not empty, the same form from the same application gets the same response within
// [AnswerRetention]. This does not count as reuse (trap T24). Another form with that key is refused with
// invalid_request.
func (s *Service) Token(ctx context.Context, form url.Values, idempotencyKey string) (TokenResponse, error) {
	grantType := form.Get("grant_type")
	switch grantType {
	case grantCode, GrantRefresh:
	case "":
		return TokenResponse{}, invalidRequest("grant_type is required.")
	default:
		return TokenResponse{}, invalidRequest("unsupported_grant_type: grant_type must be authorization_code " +
			"or refresh_token.")
	}
	keys, signer, err := s.keys.signer(ctx)
	if err != nil {
		return TokenResponse{}, err
	}
	x := exchange{keys: keys, key: signer}
	var response TokenResponse
	err = s.db.InTx(ctx, func(tx postgres.Tx) (err error) {
		x.tx = tx
		if x.application, err = s.authenticate(ctx, tx, form); err == nil {
			response, err = s.answer(ctx, x, form, newRetry(idempotencyKey, form))
		}
		return err
	})
	if err != nil {
		return TokenResponse{ApplicationID: x.application.ID}, cmp.Or(s.endReplayed(ctx, err, grantType),
			tokenError(err, form))
	}
	response.ApplicationID = x.application.ID
	return response, nil
}

// exchange is a request to the token endpoint within its transaction.
type exchange struct {
	tx          postgres.Tx
	keys        *keyset    // read first, because a transaction must not wait for a second connection
	key         signingKey // the one that signs
	application application.Application
}

// errSuspended says that the credentials are correct but the application is suspended.
var errSuspended = errors.New("application is suspended")

// authenticate returns the application whose credentials the form contains.
func (s *Service) authenticate(ctx context.Context, tx postgres.Tx, form url.Values) (application.Application, error) {
	applicationID, secret := form.Get("client_id"), form.Get("client_secret")
	if applicationID == "" {
		return application.Application{}, library.ErrInvalidRequest
	}
	if secret == "" {
		return application.Application{}, library.ErrInvalidClient
	}
	app, err := s.applications.Authenticate(ctx, tx, applicationID, secret)
	if errors.Is(err, application.ErrBadCredentials) {
		return app, library.ErrInvalidClient
	}
	if err == nil && app.Suspended {
		err = errSuspended
	}
	return app, err
}

// answer returns new tokens for an authenticated request, or the stored response for its Idempotency-Key.
func (s *Service) answer(ctx context.Context, x exchange, form url.Values, again *retry) (TokenResponse, error) {
	grantType, request, err := judgeForm(form)
	if err != nil {
		return TokenResponse{}, err
	}
	if again != nil {
		if earlier, found, err := s.earlierAnswer(ctx, x, *again); err != nil || found {
			return earlier, err
		}
	}
	response, err := s.exchange(ctx, x, grantType, request)
	if err == nil && again != nil {
		err = s.keepAnswer(ctx, x, *again, response)
	}
	return response, err
}

// exchange exchanges the code or refresh token of a request: it locks it, issues tokens with the library and stores the
// result.
func (s *Service) exchange(ctx context.Context, x exchange, grantType oauth2.GrantType,
	request *oauth2.TokenGenerateRequest,
) (TokenResponse, error) {
	p, err := x.lock(ctx, grantType, request)
	if err != nil {
		return TokenResponse{}, err
	}
	response, err := s.issue(ctx, x, p, grantType, request)
	if err != nil {
		return TokenResponse{}, err
	}
	return response, p.use(ctx, x.tx, response.RefreshToken)
}

// refusal is a refused code or refresh token: invalid_grant.
type refusal struct {
	fault    Fault
	replayed string // grant whose code or refresh token was reused; empty for other reasons
}

// Error implements error.
func (r *refusal) Error() string { return r.fault.Parameter + ": " + r.fault.Why }

func refusedFor(parameter, why string) *refusal { return &refusal{fault: Fault{parameter, why}} }

// Reasons for refusing both codes and refresh tokens. A code or token of another application counts as unknown.
const (
	whyUnknown = "Is unknown: truncated, from another environment or application, or expired long ago."
	whyEnded   = "The connection has ended."
	whyNoScope = "The application no longer has any of the connection's scopes."
)

// Parameters that contain a code or a token.
const (
	paramCode    = "code"
	paramRefresh = "refresh_token"
)

// presented is a code or refresh token that may be exchanged, locked with its grant.
type presented struct {
	parameter string // its parameter
	value     string
	code      codeRow  // zero for a refresh token
	grant     grantRow // without scopes since taken from the application
}

// lock finds and locks the code or refresh token of a request.
func (x exchange) lock(ctx context.Context, grantType oauth2.GrantType,
	request *oauth2.TokenGenerateRequest,
) (presented, error) {
	if grantType == oauth2.Refreshing {
		return x.lockRefresh(ctx, request.Refresh)
	}
	if !slices.Contains(x.application.RedirectURIs, request.RedirectURI) {
		return presented{}, library.ErrInvalidRedirectURI
	}
	return x.lockCode(ctx, request)
}

// lockCode locks the code and its grant. A used code counts as reuse only if everything else in the request is correct.
// Otherwise a code seen in a log would be enough to end a grant.
func (x exchange) lockCode(ctx context.Context, request *oauth2.TokenGenerateRequest) (presented, error) {
	c, g, err := lockCode(ctx, x.tx, id.DigestOf(request.Code))
	grant := x.narrowed(g.Grant)
	switch {
	case postgres.IsNotFound(err):
		return presented{}, refusedFor(paramCode, whyUnknown)
	case err != nil:
		return presented{}, err
	case g.Grant.ApplicationID != x.application.ID:
		return presented{}, refusedFor(paramCode, whyUnknown)
	case c.RedirectURI != request.RedirectURI:
		return presented{}, refusedFor("redirect_uri", "Differs from the authorization request.")
	case !verifierFits(c.CodeChallenge, request.CodeVerifier):
		return presented{}, refusedFor("code_verifier",
			"Does not match the code_challenge of the authorization request.")
	case c.UsedAt != nil:
		return presented{}, &refusal{Fault{paramCode, "Was already used. The tokens from its first use are revoked."},
			g.Grant.ID}
	case g.Grant.RevokedAt != nil, g.ClientDisabled:
		return presented{}, refusedFor(paramCode, whyEnded)
	case !x.tx.Now.Before(c.ExpiresAt):
		return presented{}, refusedFor(paramCode, "Has expired.")
	case len(grant.Scopes) == 0:
		return presented{}, refusedFor(paramCode, whyNoScope)
	}
	return presented{paramCode, request.Code, c, grant}, nil
}

// lockRefresh locks the refresh token and its grant, and detects reuse. A token of another application counts as
// unknown.
func (x exchange) lockRefresh(ctx context.Context, token string) (presented, error) {
	r, g, err := lockRefreshToken(ctx, x.tx, id.DigestOf(token))
	grant := x.narrowed(g.Grant)
	switch {
	case postgres.IsNotFound(err):
		return presented{}, refusedFor(paramRefresh, whyUnknown)
	case err != nil:
		return presented{}, err
	case g.Grant.ApplicationID != x.application.ID:
		return presented{}, refusedFor(paramRefresh, whyUnknown)
	case r.UsedAt != nil:
		why := "Was already used. The reuse has ended the connection, if it had not ended before."
		return presented{}, &refusal{Fault{paramRefresh, why}, g.Grant.ID}
	case g.Grant.RevokedAt != nil, g.ClientDisabled:
		return presented{}, refusedFor(paramRefresh, whyEnded)
	case !x.tx.Now.Before(r.ExpiresAt):
		return presented{}, refusedFor(paramRefresh, "Has expired.")
	case len(grant.Scopes) == 0:
		return presented{}, refusedFor(paramRefresh, whyNoScope)
	}
	return presented{parameter: paramRefresh, value: token, grant: grant}, nil
}

// narrowed returns the grant with only the scopes that the application still has.
func (x exchange) narrowed(g grantRow) grantRow {
	g.Scopes = application.Common(g.Scopes, x.application.Scopes)
	return g
}

// offline reports whether the grant has refresh tokens (specification section 5 rule 5).
func (p presented) offline() bool { return slices.Contains(p.grant.Scopes, application.OfflineAccess) }

// use marks the code or token as used and stores the new refresh token, unless that is empty. It does both or nothing.
func (p presented) use(ctx context.Context, tx postgres.Tx, refresh string) error {
	var next *id.Digest
	if refresh != "" {
		digest := id.DigestOf(refresh)
		next = &digest
	}
	use := rotateRefreshToken
	if p.parameter == paramCode {
		use = redeemCode
	}
	used, err := use(ctx, tx, id.DigestOf(p.value), next)
	if err == nil && !used {
		return refusedFor(p.parameter, whyEnded)
	}
	return err
}

const revokeTimeout = 10 * time.Second

// endReplayed revokes the grant of a reused code or token. It needs its own transaction, because the one that detected
// the reuse was rolled back. It continues if the caller disconnects.
func (s *Service) endReplayed(ctx context.Context, refused error, grantType string) error {
	var r *refusal
	if !errors.As(refused, &r) || r.replayed == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	reason := reasonCodeReplayed
	if grantType == GrantRefresh {
		reason = reasonRefreshReplayed
	}
	err := s.db.InTx(ctx, func(tx postgres.Tx) error {
		return revokeGrant(ctx, tx, r.replayed, reason, EventReplayed, EventRevoked)
	})
	if err != nil {
		return fmt.Errorf("revoke replayed grant: %w", err)
	}
	return nil
}
