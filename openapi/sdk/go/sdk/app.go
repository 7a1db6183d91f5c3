// Package sdk is what a partner needs around the generated client: linking, tokens, retries, pagination and webhooks.
package sdk

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"partner-sdk/generated/partner"
)

// early is how long before its expiry a token is refreshed, so that it does not expire during a request.
const early = 30 * time.Second

// maxBody bounds what is read of a response of the token endpoint, in bytes.
const maxBody = 1 << 20

// LinkAgainError says that the client has to link again: there are no tokens, or a refresh was rejected and the tokens
// are forgotten.
type LinkAgainError struct{ Link, Reason string }

// Error implements the interface error.
func (e *LinkAgainError) Error() string { return e.Link + " must link again: " + e.Reason }

// LinkRefusedError says that the client refused, or that the callback does not belong to the link that was begun. Code is
// "access_denied" when the client refused, another value of "error" of the authorize page, "invalid_state" or
// "invalid_issuer".
type LinkRefusedError struct{ Code, Description string }

// Error implements the interface error.
func (e *LinkRefusedError) Error() string { return e.Code + ": " + e.Description }

// TokenEndpointError says that the token endpoint rejected a request for a reason that linking again does not change:
// wrong credentials, a suspended application, too many requests.
type TokenEndpointError struct {
	Status            int
	Code, Description string
}

// Error implements the interface error.
func (e *TokenEndpointError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Description)
}

// App is your application with the clients linked to it. You name each link, for instance by the ID of your own record.
type App struct {
	BaseURL      string // base URL of the API, without a path
	Issuer       string // issuer and base URL of the authorize page; empty: BaseURL
	ClientID     string
	ClientSecret string
	RedirectURI  string
	Store        TokenStore
	Retries      Retries

	Now func() time.Time // nil: time.Now
}

// PendingLink is what to keep in the visitor's session until they return.
type PendingLink struct{ State, CodeVerifier string }

// BeginLink begins a link: send the client's browser to the URL, and keep pending in the session of this visitor.
func (a *App) BeginLink(scope string) (address string, pending PendingLink) {
	pending = PendingLink{rand.Text(), rand.Text() + rand.Text()}
	challenge := sha256.Sum256([]byte(pending.CodeVerifier))
	return a.issuer() + "/api/oauth/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {a.ClientID}, "redirect_uri": {a.RedirectURI}, "scope": {scope},
		"state": {pending.State}, "code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])},
		"code_challenge_method": {"S256"},
	}.Encode(), pending
}

// FinishLink ends a link with the URL that the client returned to, and stores the tokens. Tokens.Scope is what the client
// granted. It returns a [*LinkRefusedError] when the client refused or the URL does not belong to pending.
func (a *App) FinishLink(ctx context.Context, link, callback string, pending PendingLink) (*Tokens, error) {
	back, err := url.Parse(callback)
	if err != nil {
		return nil, err
	}
	q := back.Query()
	switch {
	case q.Get("state") != pending.State:
		return nil, &LinkRefusedError{"invalid_state", "the callback does not belong to this visitor"}
	case q.Get("iss") != a.issuer():
		return nil, &LinkRefusedError{"invalid_issuer", "the callback is of another service"}
	case q.Get("code") == "" && q.Get("error") == "":
		return nil, &LinkRefusedError{"invalid_request", "the callback has no code"}
	case q.Get("code") == "":
		return nil, &LinkRefusedError{q.Get("error"), q.Get("error_description")}
	}
	tokens, err := a.exchange(ctx, q.Get("code"), url.Values{"grant_type": {"authorization_code"}, "code": {q.Get("code")},
		"redirect_uri": {a.RedirectURI}, "code_verifier": {pending.CodeVerifier}})
	if err != nil {
		return nil, err
	}
	return a.Store.Update(ctx, link, func(*Tokens) (*Tokens, error) { return tokens, nil })
}

// Unlink ends a link at the service and forgets its tokens.
func (a *App) Unlink(ctx context.Context, link string) error {
	_, err := a.Store.Update(ctx, link, func(t *Tokens) (*Tokens, error) {
		if t == nil {
			return nil, nil
		}
		token := t.RefreshToken
		if token == "" {
			token = t.AccessToken
		}
		return nil, a.post(ctx, "/api/oauth/revoke", "", url.Values{"token": {token}}, nil)
	})
	return err
}

// Client is the generated client of one link. Its requests carry the link's tokens and are retried; errors of a link that
// has ended are a [*LinkAgainError].
func (a *App) Client(link string) (*partner.ClientWithResponses, error) {
	return partner.NewClientWithResponses(a.BaseURL, partner.WithHTTPClient(a.HTTPClient(link)))
}

// HTTPClient sends requests with the access token of a link, for other generated clients.
func (a *App) HTTPClient(link string) *http.Client {
	return &http.Client{Transport: &linked{a, link, &retrying{a.Retries}}}
}

func (a *App) issuer() string {
	if a.Issuer != "" {
		return strings.TrimSuffix(a.Issuer, "/")
	}
	return strings.TrimSuffix(a.BaseURL, "/")
}

func (a *App) now() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return time.Now()
}

// linked adds the token of a link to each request. A request whose token was rejected had no effect, so it is sent once
// more with the next token.
type linked struct {
	app  *App
	link string
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (l *linked) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	tokens, err := l.app.tokens(r.Context(), l.link, "")
	if err != nil {
		return nil, err
	}
	send := func(t *Tokens) (*http.Response, error) {
		copied := withBody(r, body)
		copied.Header.Set("Authorization", "Bearer "+t.AccessToken)
		return l.next.RoundTrip(copied)
	}
	resp, err := send(tokens)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	_ = resp.Body.Close()
	if tokens, err = l.app.tokens(r.Context(), l.link, tokens.AccessToken); err != nil {
		return nil, err
	}
	return send(tokens)
}

// tokens are valid tokens other than the rejected one.
func (a *App) tokens(ctx context.Context, link, rejected string) (*Tokens, error) {
	t, err := a.Store.Read(ctx, link)
	switch {
	case err != nil:
		return nil, err
	case t == nil:
		return nil, &LinkAgainError{link, "it has no tokens"}
	case a.good(t, rejected):
		return t, nil
	}
	reason := "it has no tokens"
	t, err = a.Store.Update(ctx, link, func(t *Tokens) (*Tokens, error) {
		if t == nil || a.good(t, rejected) {
			return t, nil // another caller was first
		}
		if t.RefreshToken == "" {
			reason = "the access token expired and offline_access was not granted"
			return nil, nil
		}
		next, err := a.exchange(ctx, t.RefreshToken,
			url.Values{"grant_type": {"refresh_token"}, "refresh_token": {t.RefreshToken}})
		if refused, ok := err.(*TokenEndpointError); ok && refused.Code == "invalid_grant" {
			reason = refused.Error()
			return nil, nil
		}
		return next, err
	})
	if err == nil && t == nil {
		err = &LinkAgainError{link, reason}
	}
	return t, err
}

func (a *App) good(t *Tokens, rejected string) bool {
	margin := early
	if t.RefreshToken == "" {
		margin = 0
	}
	return t.AccessToken != rejected && t.ExpiresAt.Sub(a.now()) > margin
}

// exchange redeems a code or a refresh token, which can be used once. The Idempotency-Key is made of it: a retry within
// 60 seconds, after a lost response or a crash before the tokens were stored, gets the same response.
func (a *App) exchange(ctx context.Context, spent string, form url.Values) (*Tokens, error) {
	began, key := a.now(), sha256.Sum256([]byte(spent))
	var got struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
		Scope        string `json:"scope"`
		ExpiresIn    int64  `json:"expires_in"`
	}
	if err := a.post(ctx, "/api/oauth/token", hex.EncodeToString(key[:]), form, &got); err != nil {
		return nil, err
	}
	return &Tokens{AccessToken: got.AccessToken, RefreshToken: got.RefreshToken, Scope: got.Scope,
		ExpiresAt: began.Add(time.Duration(got.ExpiresIn) * time.Second)}, nil
}

// post sends a form with the credentials of the application. All tries end within the 60 seconds for which the service
// stores its response.
func (a *App) post(ctx context.Context, path, key string, form url.Values, into any) error {
	form.Set("client_id", a.ClientID)
	form.Set("client_secret", a.ClientSecret)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(a.BaseURL, "/")+path,
		strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	retries := a.Retries
	retries.Tries, retries.Timeout, retries.Longest = 4, 10*time.Second, 5*time.Second
	resp, err := (&retrying{retries}).RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var refused struct {
			Code        string `json:"error"`
			Description string `json:"error_description"`
		}
		if json.Unmarshal(raw, &refused) != nil || refused.Code == "" {
			refused.Code, refused.Description = "unknown", "the response is not one of this API"
		}
		return &TokenEndpointError{resp.StatusCode, refused.Code, refused.Description}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(raw, into)
}
