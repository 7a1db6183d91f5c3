package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	oauth2 "github.com/go-oauth2/oauth2/v4"
	library "github.com/go-oauth2/oauth2/v4/errors"
	"github.com/go-oauth2/oauth2/v4/manage"
	"github.com/go-oauth2/oauth2/v4/models"
	"github.com/go-oauth2/oauth2/v4/server"

	"partnerd/internal/domain/application"
)

// newLibrary sets up go-oauth2 for one request. Its stores contain only what the request presents, and what it issues
// is stored afterwards. The table shows its defaults, what is done instead, and the test:
//
//	credentials from Basic, not decoded    form, filled by ParseForm          TestCredentialsByHTTPBasic
//	refresh without client authentication  authenticate, for every grant      TestRefreshNeedsTheApplicationsOwnSecret
//	client_credentials, password, implicit refused                            TestOtherGrantTypesAreRefused
//	plain PKCE, or none                    S256 with RFC 7636 syntax          TestPKCEIsRequired…, TestAuthorizeFaults…
//	redirect URIs compared by host suffix  byte for byte                      TestRedirectURIMustMatchExactly
//	secrets compared with !=, empty passes authenticate, in constant time     TestRefreshNeedsTheApplicationsOwnSecret
//	refresh may widen the scope            only narrow, for one access token  TestRefreshMayNarrowAndNeverWiden
//	a narrowed refresh is stored           scope lives on the grant           TestRefreshMayNarrowAndNeverWiden
//	codes and tokens found, then deleted   row lock and conditional update    TestParallelRedemptions…, TestParallelRefreshes…
//	a used refresh token is just unknown   the grant is revoked               TestReplayOfARefreshToken…
//	a refresh token for every grant        only with offline_access           TestRefreshTokenNeedsOfflineAccess
//	invalid_grant with 401, faults as 500  400, see tokenError                TestTokenFaults
//	opaque or HS256 tokens                 ES256 JWT, RFC 9068                TestAccessTokenClaims
//	expiry by the machine's clock          by the transaction's time; the library is told that nothing expires
func (s *Service) newLibrary(x exchange, p presented) *server.Server {
	m := manage.NewManager()
	m.SetAuthorizeCodeTokenCfg(&manage.Config{
		AccessTokenExp: AccessTokenLifetime, RefreshTokenExp: RefreshTokenLifetime, IsGenerateRefresh: true,
	})
	m.SetRefreshTokenCfg(&manage.RefreshingConfig{AccessTokenExp: AccessTokenLifetime, IsGenerateRefresh: true})
	m.SetValidateURIHandler(exactURI)
	m.MapClientStorage(authenticated{x.application})
	m.MapTokenStorage(locked{p.info(x.tx.Now)})
	m.MapAccessGenerate(minter(func(scope string) (access, refresh string, err error) {
		if access, err = s.mint(x.tx, x.key, p.grant, scope); err == nil && p.offline() {
			refresh = x.tx.NewSecret("rt")
		}
		return access, refresh, err
	}))
	srv := server.NewServer(&libraryConfig, m)
	srv.SetRefreshingScopeHandler(isWithinGrant)
	return srv
}

var libraryConfig = server.Config{
	TokenType:                   "Bearer",
	AllowedResponseTypes:        []oauth2.ResponseType{oauth2.Code},
	AllowedGrantTypes:           []oauth2.GrantType{oauth2.AuthorizationCode, oauth2.Refreshing},
	AllowedCodeChallengeMethods: []oauth2.CodeChallengeMethod{oauth2.CodeChallengeS256},
	ForcePKCE:                   true,
}

// judgeForm validates the parameters of an authenticated token request with the library.
func judgeForm(form url.Values) (oauth2.GrantType, *oauth2.TokenGenerateRequest, error) {
	srv := server.NewServer(&libraryConfig, nil)
	srv.SetClientInfoHandler(func(r *http.Request) (clientID, secret string, err error) {
		return r.PostForm.Get("client_id"), "", nil
	})
	return srv.ValidationTokenRequest(&http.Request{Method: http.MethodPost, URL: &url.URL{},
		Form: form, PostForm: form})
}

// issue issues tokens for p with the library. The refresh token is empty unless [presented.offline].
func (s *Service) issue(ctx context.Context, x exchange, p presented, grantType oauth2.GrantType,
	request *oauth2.TokenGenerateRequest,
) (TokenResponse, error) {
	srv := s.newLibrary(x, p)
	info, err := srv.GetAccessToken(ctx, grantType, request)
	if err != nil {
		return TokenResponse{}, err
	}
	data := srv.GetTokenData(info)
	response := TokenResponse{
		AccessToken: data["access_token"].(string), TokenType: data["token_type"].(string),
		ExpiresIn: int(data["expires_in"].(int64)), Scope: data["scope"].(string),
	}
	if refresh, ok := data["refresh_token"].(string); ok {
		response.RefreshToken, response.RefreshTokenExpiresIn = refresh, int(RefreshTokenLifetime/time.Second)
	}
	return response, nil
}

// isWithinGrant reports whether a refresh asks only for scopes of the grant, and writes them in their usual order.
func isWithinGrant(request *oauth2.TokenGenerateRequest, granted string) (bool, error) {
	asked, err := application.ParseScopes(request.Scope)
	if err != nil {
		return false, nil
	}
	all, err := application.ParseScopes(granted)
	if err != nil {
		return false, fmt.Errorf("read scopes of grant: %w", err)
	}
	request.Scope = application.FormatScopes(asked)
	return application.Within(asked, all), nil
}

func exactURI(registered, given string) error {
	if !slices.Contains(strings.Fields(registered), given) {
		return library.ErrInvalidRedirectURI
	}
	return nil
}

// forever disables the library's own expiry checks, which read the machine's clock.
const forever = 100 * 365 * 24 * time.Hour

// info returns the code or refresh token in the library's form.
func (p presented) info(now time.Time) oauth2.TokenInfo {
	info := models.NewToken()
	info.SetClientID(p.grant.ApplicationID)
	info.SetUserID(p.grant.ClientID)
	info.SetScope(application.FormatScopes(p.grant.Scopes))
	if p.parameter == paramRefresh {
		info.SetRefresh(p.value)
		return info
	}
	info.SetRedirectURI(p.code.RedirectURI)
	info.SetCode(p.value)
	info.SetCodeCreateAt(now)
	info.SetCodeExpiresIn(forever)
	info.SetCodeChallenge(p.code.CodeChallenge)
	info.SetCodeChallengeMethod(oauth2.CodeChallengeS256)
	return info
}

// authenticated is the library's client store. It contains the authenticated application.
type authenticated struct{ application application.Application }

// GetByID implements oauth2.ClientStore. It returns no secret, because that was already compared.
func (a authenticated) GetByID(context.Context, string) (oauth2.ClientInfo, error) {
	return &models.Client{ID: a.application.ID, Domain: strings.Join(a.application.RedirectURIs, " ")}, nil
}

// locked is the library's token store. It contains the locked code or refresh token of the request.
type locked struct{ info oauth2.TokenInfo }

// GetByCode implements oauth2.TokenStore.
func (l locked) GetByCode(context.Context, string) (oauth2.TokenInfo, error) { return l.info, nil }

// GetByRefresh implements oauth2.TokenStore.
func (l locked) GetByRefresh(context.Context, string) (oauth2.TokenInfo, error) { return l.info, nil }

// RemoveByCode implements oauth2.TokenStore. It does nothing; see [presented.use].
func (locked) RemoveByCode(context.Context, string) error { return nil }

// Create implements oauth2.TokenStore. It does nothing; see [presented.use].
func (locked) Create(context.Context, oauth2.TokenInfo) error { return nil }

// errNotKept is returned by methods that the library calls only for disabled features.
var errNotKept = errors.New("oauth: access tokens are not stored")

func (locked) RemoveByAccess(context.Context, string) error                  { return errNotKept }
func (locked) RemoveByRefresh(context.Context, string) error                 { return errNotKept }
func (locked) GetByAccess(context.Context, string) (oauth2.TokenInfo, error) { return nil, errNotKept }

// minter creates a signed access token with a scope. It adds a refresh token if the client granted offline_access
// (specification section 5 rule 5), whatever scopes the access token has.
type minter func(scope string) (access, refresh string, err error)

// Token implements oauth2.AccessGenerate.
func (m minter) Token(_ context.Context, data *oauth2.GenerateBasic, _ bool) (access, refresh string, err error) {
	return m(data.TokenInfo.GetScope())
}
