package oauth

import (
	"context"
	"errors"
	"net/url"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

// Reason is why something happened to a grant.
type Reason string

// The reasons for the end of a grant.
const (
	ReasonClient   Reason = "disconnected_by_client"
	ReasonOperator Reason = "operator" // unlinked or disabled the client
	ReasonRecovery Reason = "account_recovered"
	ReasonErasure  Reason = "client_erased"

	reasonCodeReplayed    Reason = "code_replayed"
	reasonRefreshReplayed Reason = "refresh_token_replayed"
	reasonApplication     Reason = "revoked_by_application"
	reasonExpired         Reason = "expired" // the last of its code and tokens expired
)

// Revoke handles a revocation request whose form came from [ParseForm] (RFC 7009; trap T17). A refresh token ends its
// grant. So does an access token of ours, expired or not. An unknown token, or one that belongs to another application,
// has no effect and is not an error. client_secret may be missing, but must not be wrong. Refusals are *[Error].
func (s *Service) Revoke(ctx context.Context, form url.Values) error {
	applicationID, token := form.Get("client_id"), form.Get("token")
	if applicationID == "" || token == "" {
		return invalidRequest("token and client_id are required.")
	}
	read := s.db.Read()
	if err := s.checkRevoker(ctx, read, applicationID, form.Get("client_secret")); err != nil {
		return err
	}
	grantID, err := s.grantOfToken(ctx, read, applicationID, token)
	if err != nil || grantID == "" {
		return err
	}
	err = s.db.InTx(ctx,
		func(tx postgres.Tx) error { return revokeGrant(ctx, tx, grantID, reasonApplication, EventRevoked) })
	if postgres.IsLockTimeout(err) {
		return problem.ErrUnavailable
	}
	return err
}

func (s *Service) checkRevoker(ctx context.Context, tx postgres.Tx, applicationID, secret string) error {
	var err error
	if secret == "" {
		_, err = s.applications.Get(ctx, tx, applicationID)
	} else {
		_, err = s.applications.Authenticate(ctx, tx, applicationID, secret)
	}
	if errors.Is(err, problem.ErrNotFound) || errors.Is(err, application.ErrBadCredentials) {
		return invalidClient()
	}
	return err
}

// grantOfToken returns the application's grant of a refresh or access token, or "".
func (s *Service) grantOfToken(ctx context.Context, tx postgres.Tx, applicationID, token string) (string, error) {
	grantID, err := grantOfRefreshToken(ctx, tx, id.DigestOf(token), applicationID)
	if err != nil || grantID != "" {
		return grantID, err
	}
	t, _, err := s.signed(ctx, token)
	if errors.Is(err, errToken) {
		return "", nil
	}
	if err != nil || t.claims.ApplicationID != applicationID {
		return "", err
	}
	return t.claims.GrantID, nil
}
