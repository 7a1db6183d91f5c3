package oauth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	oauth2 "github.com/go-oauth2/oauth2/v4"
	library "github.com/go-oauth2/oauth2/v4/errors"
	"github.com/go-oauth2/oauth2/v4/manage"
	"github.com/go-oauth2/oauth2/v4/models"
	"github.com/go-oauth2/oauth2/v4/server"

	"partnerd/internal/application"
	"partnerd/internal/id"
	"partnerd/internal/postgres"
)

// newLibrary sets up go-oauth2 for the two grant types. What its defaults would do, what is done instead, and the test:
//
//	credentials from Basic, not decoded    form, filled by ParseForm          TestCredentialsByHTTPBasic
//	refresh without client authentication  credentials checked for every grant  TestRefreshNeedsTheApplicationsOwnSecret
//	client_credentials, password, implicit refused                            TestOtherGrantTypesAreRefused
//	plain PKCE, or none                    S256 with RFC 7636 syntax          TestPKCEIsRequired…, TestAuthorizeFaults…
//	redirect URIs compared by host suffix  byte for byte                      TestRedirectURIMustMatchExactly
//	secrets compared with !=, empty passes constant time, empty refused       TestRefreshNeedsTheApplicationsOwnSecret
//	refresh may widen the scope            only narrow, for one access token  TestRefreshMayNarrowAndNeverWiden
//	a narrowed refresh is stored           scope lives on the grant           TestRefreshMayNarrowAndNeverWiden
//	codes and tokens found, then deleted   row lock and conditional update    TestParallelRedemptions…, TestParallelRefreshes…
//	a used refresh token is just unknown   the grant is revoked               TestReplayOfARefreshToken…
//	a refresh token for every grant        only with offline_access           TestRefreshTokenNeedsOfflineAccess
//	invalid_grant with 401, faults as 500  400, see tokenError                TestTokenFaults
//	opaque or HS256 tokens                 ES256 JWT, RFC 9068                TestAccessTokenClaims
//	expiry by the machine's clock          by the transaction's instant, so the library is told that nothing expires
func (s *Service) newLibrary() *server.Server {
	m := manage.NewManager()
	m.SetAuthorizeCodeTokenCfg(&manage.Config{AccessTokenExp: AccessTokenLifetime, RefreshTokenExp: RefreshTokenLifetime, IsGenerateRefresh: true})
	m.SetRefreshTokenCfg(&manage.RefreshingConfig{AccessTokenExp: AccessTokenLifetime, IsGenerateRefresh: true})
	m.SetValidateURIHandler(exactURI)
	m.MapAccessGenerate(libraryMinter{s})
	m.MapClientStorage(libraryClients{})
	m.MapTokenStorage(libraryTokens{})

	srv := server.NewServer(&server.Config{
		TokenType:                   "Bearer",
		AllowedResponseTypes:        []oauth2.ResponseType{oauth2.Code},
		AllowedGrantTypes:           []oauth2.GrantType{oauth2.AuthorizationCode, oauth2.Refreshing},
		AllowedCodeChallengeMethods: []oauth2.CodeChallengeMethod{oauth2.CodeChallengeS256},
		ForcePKCE:                   true,
	}, m)
	srv.SetClientInfoHandler(s.authenticateApplication)
	srv.SetRefreshingScopeHandler(narrows)
	return srv
}

// errSuspended says that the credentials are right and the application may not use them.
var errSuspended = errors.New("application is suspended")

// exchange is one request to the token endpoint inside its transaction: what the library's callbacks share.
type exchange struct {
	tx          postgres.Tx
	keys        *keyset    // as they were before the transaction: who holds one connection must not wait for another
	key         signingKey // of them, that signs
	presents    string     // name of the parameter that has the code or refresh token
	redirectURI string     // as presented
	verifier    string     // as presented
	application application.Application
	secret      id.Digest // that authenticated the application
	grant       grantRow  // locked
	presented   id.Digest // of the code or refresh token
	refreshing  bool
	retry       *retry // nil without an Idempotency-Key
	replayed    string // grant whose code or refresh token was presented a second time
	fault       Fault  // why the code or refresh token is refused
}

// Why a code or a refresh token is refused, where both can be. One of another application is unknown.
const (
	whyUnknown = "Is unknown: cut off, of another environment or application, or over for long."
	whyEnded   = "The link has ended."
	whyNoScope = "The application has none of the link's scopes any more."
)

// refuse notes what is wrong with a parameter, and returns what the library takes for invalid_grant.
func (x *exchange) refuse(parameter, why string) error {
	x.fault = Fault{parameter, why}
	return library.ErrInvalidGrant
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// authenticateApplication is the library's ClientInfoHandler, which runs for every grant type.
func (s *Service) authenticateApplication(r *http.Request) (clientID, secret string, err error) {
	x := exchangeOf(r.Context())
	clientID, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	if clientID == "" {
		return "", "", library.ErrInvalidRequest
	}
	if secret == "" {
		return "", "", library.ErrInvalidClient
	}
	x.application, err = s.applications.Authenticate(r.Context(), x.tx, clientID, secret)
	if errors.Is(err, application.ErrBadCredentials) {
		return "", "", library.ErrInvalidClient
	}
	if err != nil {
		return "", "", err
	}
	if x.application.Suspended {
		return "", "", errSuspended
	}
	x.secret = id.DigestOf(secret)
	return clientID, secret, nil
}

// narrows lets a refresh ask for a part of the grant's scopes, and writes them in their usual order.
func narrows(request *oauth2.TokenGenerateRequest, granted string) (bool, error) {
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

// libraryClient is an authenticated application as the library sees it.
type libraryClient struct {
	application application.Application
	secret      id.Digest
}

func (c libraryClient) GetID() string     { return c.application.ID }
func (c libraryClient) GetSecret() string { return "" } // VerifyPassword is asked instead
func (c libraryClient) GetDomain() string { return strings.Join(c.application.RedirectURIs, " ") }
func (c libraryClient) IsPublic() bool    { return false }
func (c libraryClient) GetUserID() string { return "" }

// VerifyPassword implements oauth2.ClientPasswordVerifier.
func (c libraryClient) VerifyPassword(secret string) bool {
	given := id.DigestOf(secret)
	return subtle.ConstantTimeCompare(given[:], c.secret[:]) == 1
}

type libraryClients struct{}

// GetByID implements oauth2.ClientStore: only the application that authenticated exists.
func (libraryClients) GetByID(ctx context.Context, clientID string) (oauth2.ClientInfo, error) {
	x := exchangeOf(ctx)
	if x.application.ID == "" || x.application.ID != clientID {
		return nil, library.ErrInvalidClient
	}
	return libraryClient{x.application, x.secret}, nil
}

// libraryTokens implements oauth2.TokenStore within the exchange's transaction. The library compares its sentinel errors
// with ==, so they are returned bare.
type libraryTokens struct{}

// forever keeps the library's own expiry checks, which read the machine's clock, out of the way.
const forever = 100 * 365 * 24 * time.Hour

// GetByCode locks the code and its grant. A used code marks a replay only when everything else about the request is
// right: otherwise a code seen in a log would be enough to end a session.
func (libraryTokens) GetByCode(ctx context.Context, code string) (oauth2.TokenInfo, error) {
	x := exchangeOf(ctx)
	x.presented = id.DigestOf(code)
	c, g, err := lockCode(ctx, x.tx, x.presented)
	switch {
	case postgres.IsNotFound(err):
		return nil, x.refuse(x.presents, whyUnknown)
	case err != nil:
		return nil, err
	case g.Grant.ApplicationID != x.application.ID:
		return nil, x.refuse(x.presents, whyUnknown)
	case c.RedirectURI != x.redirectURI:
		return nil, x.refuse("redirect_uri", "Is not the one of the authorization request.")
	case !verifierFits(c.CodeChallenge, x.verifier):
		return nil, x.refuse("code_verifier", "Does not fit the code_challenge of the authorization request.")
	case c.UsedAt != nil:
		x.replayed = g.Grant.ID
		return nil, x.refuse(x.presents, "Was used before. What its first use gave is revoked.")
	case g.Grant.RevokedAt != nil, g.ClientDisabled:
		return nil, x.refuse(x.presents, whyEnded)
	case !x.tx.Now.Before(c.ExpiresAt):
		return nil, x.refuse(x.presents, "Has expired.")
	case !x.take(g.Grant):
		return nil, x.refuse(x.presents, whyNoScope)
	}
	info := models.NewToken()
	info.SetClientID(x.grant.ApplicationID)
	info.SetUserID(x.grant.ClientID)
	info.SetRedirectURI(c.RedirectURI)
	info.SetScope(application.FormatScopes(x.grant.Scopes))
	info.SetCode(code)
	info.SetCodeCreateAt(x.tx.Now)
	info.SetCodeExpiresIn(forever)
	info.SetCodeChallenge(c.CodeChallenge)
	info.SetCodeChallengeMethod(oauth2.CodeChallengeS256)
	return info, nil
}

// RemoveByCode has nothing left to do: Create uses the code.
func (libraryTokens) RemoveByCode(context.Context, string) error { return nil }

// GetByRefresh locks the refresh token and its grant, and marks a replay. A token of another application is unknown.
func (libraryTokens) GetByRefresh(ctx context.Context, refresh string) (oauth2.TokenInfo, error) {
	x := exchangeOf(ctx)
	x.presented, x.refreshing = id.DigestOf(refresh), true
	r, g, err := lockRefreshToken(ctx, x.tx, x.presented)
	switch {
	case postgres.IsNotFound(err):
		return nil, x.refuse(x.presents, whyUnknown)
	case err != nil:
		return nil, err
	case g.Grant.ApplicationID != x.application.ID:
		return nil, x.refuse(x.presents, whyUnknown)
	case r.UsedAt != nil:
		x.replayed = g.Grant.ID
		return nil, x.refuse(x.presents, "Was used before. The link has ended by that, if it had not before.")
	case g.Grant.RevokedAt != nil, g.ClientDisabled:
		return nil, x.refuse(x.presents, whyEnded)
	case !x.tx.Now.Before(r.ExpiresAt):
		return nil, x.refuse(x.presents, "Has expired.")
	case !x.take(g.Grant):
		return nil, x.refuse(x.presents, whyNoScope)
	}
	info := models.NewToken()
	info.SetClientID(x.grant.ApplicationID)
	info.SetUserID(x.grant.ClientID)
	info.SetScope(application.FormatScopes(x.grant.Scopes))
	info.SetRefresh(refresh)
	return info, nil
}

// Create stores what was issued, and uses what it was issued for: both or nothing.
func (libraryTokens) Create(ctx context.Context, info oauth2.TokenInfo) error {
	x := exchangeOf(ctx)
	var refresh *id.Digest
	if token := info.GetRefresh(); token != "" && x.offline() {
		digest := id.DigestOf(token)
		refresh = &digest
	}
	use := redeemCode
	if x.refreshing {
		use = rotateRefreshToken
	}
	used, err := use(ctx, x.tx, x.presented, refresh)
	if err == nil && !used {
		err = x.refuse(x.presents, whyEnded)
	}
	return err
}

// take makes g the grant of the exchange, without the scopes that the operator has taken from the application since. It
// reports false when none is left.
func (x *exchange) take(g grantRow) bool {
	g.Scopes = application.Common(g.Scopes, x.application.Scopes)
	x.grant = g
	return len(g.Scopes) > 0
}

// offline tells whether the grant has refresh tokens (specification section 5 rule 5).
func (x *exchange) offline() bool { return slices.Contains(x.grant.Scopes, application.OfflineAccess) }

// errNotKept answers questions that the library asks only for features that are off.
var errNotKept = errors.New("oauth: access tokens are not stored")

func (libraryTokens) RemoveByAccess(context.Context, string) error  { return errNotKept }
func (libraryTokens) RemoveByRefresh(context.Context, string) error { return errNotKept }
func (libraryTokens) GetByAccess(context.Context, string) (oauth2.TokenInfo, error) {
	return nil, errNotKept
}

type libraryMinter struct{ s *Service }

// Token implements oauth2.AccessGenerate: a signed access token, and a refresh token when the client granted
// offline_access (specification section 5 rule 5), whatever part of the scopes this access token has.
func (m libraryMinter) Token(ctx context.Context, data *oauth2.GenerateBasic, _ bool) (access, refresh string, err error) {
	x := exchangeOf(ctx)
	access, err = m.s.mint(x.tx, x.key, x.grant, data.TokenInfo.GetScope())
	if err != nil {
		return "", "", err
	}
	if x.offline() {
		refresh = x.tx.NewSecret("rt")
	}
	return access, refresh, nil
}
