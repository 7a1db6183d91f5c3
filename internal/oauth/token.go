package oauth

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	oauth2 "github.com/go-oauth2/oauth2/v4"

	"partnerd/internal/postgres"
)

// TokenResponse is the answer of the token endpoint (decision H7).
type TokenResponse struct {
	AccessToken           string `json:"access_token"`
	TokenType             string `json:"token_type"` // Bearer
	ExpiresIn             int    `json:"expires_in"` // seconds
	Scope                 string `json:"scope"`      // of the access token, separated by spaces
	RefreshToken          string `json:"refresh_token,omitempty"`
	RefreshTokenExpiresIn int    `json:"refresh_token_expires_in,omitempty"` // seconds
	Replayed              bool   `json:"-"`                                  // the answer of an earlier request with the same Idempotency-Key
	ApplicationID         string `json:"-"`                                  // that authenticated, also with an error; empty when none did
}

// Token answers a token request whose form came from [ParseForm] (specification section 4.1). Refusals are *[Error].
// A replayed code or refresh token has revoked its grant by the time Token returns.
//
// With the Idempotency-Key idempotencyKey, unless that is empty, the same form from the same application gets the same answer
// within [AnswerRetention], which is no replay (trap T24). Another form under the key is refused with invalid_request.
func (s *Service) Token(ctx context.Context, form url.Values, idempotencyKey string) (TokenResponse, error) {
	grantType := form.Get("grant_type")
	var presents string
	switch grantType {
	case grantCode:
		presents = "code"
	case GrantRefresh:
		presents = "refresh_token"
	case "":
		return TokenResponse{}, invalidRequest("grant_type is required.")
	default:
		return TokenResponse{}, invalidRequest("unsupported_grant_type: grant_type must be authorization_code or refresh_token.")
	}
	keys, signer, err := s.keys.signer(ctx)
	if err != nil {
		return TokenResponse{}, err
	}
	var response TokenResponse
	var replayed, applicationID string
	var fault Fault
	err = s.db.InTx(ctx, func(tx postgres.Tx) (err error) {
		x := &exchange{tx: tx, keys: keys, key: signer, presents: presents, retry: newRetry(idempotencyKey, form), redirectURI: form.Get("redirect_uri"), verifier: form.Get("code_verifier")}
		response, err = s.runLibrary(ctx, x, form)
		replayed, applicationID, fault = x.replayed, x.application.ID, x.fault
		return err
	})
	if replayed != "" {
		if err := s.endReplayed(ctx, replayed, grantType); err != nil {
			return TokenResponse{ApplicationID: applicationID}, err
		}
	}
	if err != nil {
		return TokenResponse{ApplicationID: applicationID}, tokenError(err, form, fault)
	}
	response.ApplicationID = applicationID
	return response, nil
}

// runLibrary has go-oauth2 judge the form; its HandleTokenRequest would write the answer before the commit. What it calls
// back, in this order: [Service.authenticateApplication]; then [libraryTokens.GetByCode] or [libraryTokens.GetByRefresh],
// which lock; [libraryMinter.Token]; and [libraryTokens.Create], which redeems the code or rotates the refresh token.
func (s *Service) runLibrary(ctx context.Context, x *exchange, form url.Values) (TokenResponse, error) {
	r := (&http.Request{Method: http.MethodPost, URL: &url.URL{}, Form: form, PostForm: form}).WithContext(withExchange(ctx, x))
	grantType, request, err := s.server.ValidationTokenRequest(r)
	if err != nil {
		return TokenResponse{}, err
	}
	if x.retry != nil {
		if earlier, found, err := s.earlierAnswer(ctx, x); err != nil || found {
			return earlier, err
		}
	}
	response, err := s.exchange(r.Context(), grantType, request)
	if err == nil && x.retry != nil {
		err = s.keepAnswer(ctx, x, response)
	}
	return response, err
}

// exchange has the library issue tokens for a request that was judged.
func (s *Service) exchange(ctx context.Context, grantType oauth2.GrantType, request *oauth2.TokenGenerateRequest) (TokenResponse, error) {
	info, err := s.server.GetAccessToken(ctx, grantType, request)
	if err != nil {
		return TokenResponse{}, err
	}
	data := s.server.GetTokenData(info)
	response := TokenResponse{
		AccessToken: data["access_token"].(string), TokenType: data["token_type"].(string),
		ExpiresIn: int(data["expires_in"].(int64)), Scope: data["scope"].(string),
	}
	if refresh, ok := data["refresh_token"].(string); ok {
		response.RefreshToken, response.RefreshTokenExpiresIn = refresh, int(RefreshTokenLifetime/time.Second)
	}
	return response, nil
}

const revokeTimeout = 10 * time.Second

// endReplayed revokes in a transaction of its own, because the one that found the replay was rolled back, and goes on
// when the caller hangs up.
func (s *Service) endReplayed(ctx context.Context, grantID, grantType string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	reason := reasonCodeReplayed
	if grantType == GrantRefresh {
		reason = reasonRefreshReplayed
	}
	err := s.db.InTx(ctx, func(tx postgres.Tx) error { return revokeGrant(ctx, tx, grantID, reason, EventReplayed, EventRevoked) })
	if err != nil {
		return fmt.Errorf("revoke replayed grant: %w", err)
	}
	return nil
}
