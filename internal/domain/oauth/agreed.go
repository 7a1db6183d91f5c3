package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/url"

	oauth2 "github.com/go-oauth2/oauth2/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

// Agreed links a client to an application without a page or a redirect. The client consents to scopes and the code is
// redeemed, as in [Service.Approve] and [Service.Token]. It is for callers that may act for both sides, such as a
// sandbox for its test clients. The application must be permitted all the scopes. It returns NOT_FOUND for a disabled
// client.
func (s *Service) Agreed(ctx context.Context, app application.Application, clientID string,
	scopes []application.Scope,
) (TokenResponse, error) {
	keys, signer, err := s.keys.signer(ctx)
	if err != nil {
		return TokenResponse{}, err
	}
	verifier := rand.Text() + rand.Text()
	challenge := sha256.Sum256([]byte(verifier))
	r := AuthorizeRequest{Application: app, RedirectURI: app.RedirectURIs[0],
		CodeChallenge: base64.RawURLEncoding.EncodeToString(challenge[:]), Scopes: scopes}
	var response TokenResponse
	err = s.db.InTx(ctx, func(tx postgres.Tx) error {
		back, err := s.Approve(ctx, tx, r, clientID, scopes)
		if err != nil {
			return err
		}
		to, err := url.Parse(back)
		if err != nil {
			return err
		}
		code := to.Query().Get("code")
		if code == "" {
			return problem.ErrNotFound
		}
		response, err = s.exchange(ctx, exchange{tx, keys, signer, app}, oauth2.AuthorizationCode,
			&oauth2.TokenGenerateRequest{ClientID: app.ID, RedirectURI: r.RedirectURI, Code: code,
				CodeVerifier: verifier})
		return err
	})
	return response, err
}
