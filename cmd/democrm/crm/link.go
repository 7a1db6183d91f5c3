package crm

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/oauth2"

	"partnerd/gen/partner/client"
)

// Application holds the credentials that the provider issued to the partner.
type Application struct {
	ClientID      string `json:"clientId"`
	ClientSecret  string `json:"clientSecret"`
	WebhookSecret string `json:"webhookSecret"`
	RedirectURI   string `json:"-"`
}

// AllScopes lists every scope that an application can request from a client.
var AllScopes = []string{"profile:read", "wallet:read", "wallet:topup", "consultations:read", "consultations:write",
	"notes:read", "offline_access"}

// Metadata is the part of the published authorization server metadata (RFC 8414) that a partner needs.
type Metadata struct {
	Issuer                string `json:"issuer"`
	AuthorizationEndpoint string `json:"authorization_endpoint"`
	TokenEndpoint         string `json:"token_endpoint"`
	RevocationEndpoint    string `json:"revocation_endpoint"`
}

// Discover reads the metadata of the service at base.
func Discover(ctx context.Context, base string) (m Metadata, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/.well-known/oauth-authorization-server", nil)
	if err != nil {
		return m, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return m, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&m); err != nil {
		return m, fmt.Errorf("read metadata: %w", err)
	}
	if m.Issuer != base {
		return m, fmt.Errorf("issuer is %q, not %q", m.Issuer, base)
	}
	return m, nil
}

// Config returns the configuration of the standard OAuth client.
func (a Application) Config(m Metadata, scopes ...string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: a.ClientID, ClientSecret: a.ClientSecret, RedirectURL: a.RedirectURI, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: m.AuthorizationEndpoint, TokenURL: m.TokenEndpoint,
			AuthStyle: oauth2.AuthStyleInParams},
	}
}

// Link takes a client through sign-in and consent and returns the tokens. refuse lists scopes that the client unticks.
func Link(ctx context.Context, c *oauth2.Config, issuer, email, password string,
	refuse ...string,
) (*oauth2.Token, error) {
	return LinkBy(ctx, NewBrowser(c.RedirectURL), c, issuer, email, password, refuse...)
}

// LinkBy is [Link] with the caller's own browser.
func LinkBy(
	ctx context.Context, b *Browser, c *oauth2.Config, issuer, email, password string, refuse ...string,
) (*oauth2.Token, error) {
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	back, err := Consent(ctx, b, c.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier)), email, password, "allow",
		refuse...)
	if err != nil {
		return nil, err
	}
	q := back.Query()
	switch {
	case q.Get("error") != "":
		return nil, fmt.Errorf("refused: %s: %s", q.Get("error"), q.Get("error_description"))
	case q.Get("state") != state:
		return nil, errors.New("state is not the one that was sent")
	case q.Get("iss") != issuer:
		return nil, fmt.Errorf("iss is %q", q.Get("iss"))
	}
	return c.Exchange(ctx, q.Get("code"), oauth2.VerifierOption(verifier))
}

// Consent signs the client in on the authorize page and presses a button of the consent page. It returns the URL to
// which the browser is redirected.
func Consent(ctx context.Context, b *Browser, authorize, email, password, button string,
	refuse ...string,
) (*url.URL, error) {
	p, err := b.Open(ctx, authorize)
	if err != nil {
		return nil, err
	}
	if f, err := p.Form("password"); err == nil {
		if p, err = b.Send(ctx, p, f, map[string]string{"email": email, "password": password}, ""); err != nil {
			return nil, err
		}
	}
	if p.Location != "" { // everything was allowed before, so nothing is asked
		return url.Parse(p.Location)
	}
	f, err := p.Form("decision")
	if err != nil {
		return nil, err
	}
	var keep []string
	for _, s := range f.Values["scope"] {
		if !strings.Contains(" "+strings.Join(refuse, " ")+" ", " "+s+" ") {
			keep = append(keep, s)
		}
	}
	f.Values["scope"] = keep
	if p, err = b.Send(ctx, p, f, nil, button); err != nil {
		return nil, err
	}
	if p.Location == "" {
		return nil, fmt.Errorf("the consent page did not lead back (status %d): %.300s", p.Status, p.Text)
	}
	return url.Parse(p.Location)
}

// API returns the generated client of the contract, with an access token.
func API(base, accessToken string, h *http.Client) (*client.ClientWithResponses, error) {
	return client.NewClientWithResponses(base, client.WithHTTPClient(h),
		client.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+accessToken)
			return nil
		}))
}
