package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"partnerd/cmd/democrm/crm"
)

// change sets pairs of name and value; the value "-" removes a parameter.
func change(v url.Values, changes []string) url.Values {
	for i := 0; i < len(changes); i += 2 {
		v.Set(changes[i], changes[i+1])
		if changes[i+1] == "-" {
			v.Del(changes[i])
		}
	}
	return v
}

const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // RFC 7636, appendix B

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// authorizeQuery is a valid authorization request with changes.
func (p *partner) authorizeQuery(changes ...string) url.Values {
	return change(url.Values{
		"response_type": {"code"}, "client_id": {p.ClientID}, "redirect_uri": {callback},
		"scope": {strings.Join(crm.AllScopes, " ")}, "state": {"state"}, "code_challenge": {challengeOf(verifier)},
		"code_challenge_method": {"S256"},
	}, changes)
}

// authorize takes a person through sign-in and consent; button is allow or deny. The page asks again for scopes allowed
// before, so the person can decide differently.
func (w *world) authorize(t testing.TB, c *person, q url.Values, button string, refuse ...string) *url.URL {
	t.Helper()
	q.Set("prompt", "consent")
	back, err := crm.Consent(t.Context(), c.browser, w.base+"/api/oauth/authorize?"+q.Encode(), c.Email, c.password,
		button, refuse...)
	if err != nil {
		t.Fatalf("consent: %v", err)
	}
	return back
}

// code obtains an authorization code for all requested scopes.
func (w *world) code(t testing.TB, p *partner, c *person, changes ...string) string {
	t.Helper()
	back := w.authorize(t, c, p.authorizeQuery(changes...), "allow")
	code := back.Query().Get("code")
	if code == "" {
		t.Fatalf("no code: %s", back)
	}
	w.secret(code)
	return code
}

func (p *partner) codeForm(code string, changes ...string) url.Values {
	return change(url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback},
		"code_verifier": {verifier}, "client_id": {p.ClientID}, "client_secret": {p.ClientSecret}}, changes)
}

func (p *partner) refreshForm(token string, changes ...string) url.Values {
	return change(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token},
		"client_id": {p.ClientID}, "client_secret": {p.ClientSecret}}, changes)
}

func (w *world) postToken(t testing.TB, form url.Values) *reply {
	t.Helper()
	r := w.send(t, http.MethodPost, "/api/oauth/token", form)
	v := r.value()
	for _, name := range []string{"access_token", "refresh_token"} {
		if s, ok := v[name].(string); ok {
			w.secret(s)
		}
	}
	return r
}

// token is a successful token response.
type token struct {
	AccessToken  string  `json:"access_token"`
	RefreshToken *string `json:"refresh_token"`
	Scope        string  `json:"scope"`
}

func (w *world) getToken(t testing.TB, form url.Values) (v token) {
	t.Helper()
	r := w.postToken(t, form)
	if r.Status != http.StatusOK {
		t.Fatalf("token: %s", r)
	}
	r.into(t, &v)
	return v
}

// session uses tokens that the test obtained itself.
func (w *world) session(p *partner, c *person, v token) *session {
	s := &session{w: w, partner: p, person: c, token: &oauth2.Token{AccessToken: v.AccessToken}}
	if v.RefreshToken != nil {
		s.token.RefreshToken = *v.RefreshToken
	}
	return s
}

func (s *session) revoke(t testing.TB, value string) *reply {
	t.Helper()
	return s.w.send(t, http.MethodPost, "/api/oauth/revoke", url.Values{"token": {value},
		"client_id": {s.partner.ClientID}})
}

// disconnect does what the client does on the account page.
func (s *session) disconnect(t testing.TB) {
	t.Helper()
	p, err := s.person.browser.Open(t.Context(), s.w.base+"/account/apps")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(p.Forms,
		func(f crm.Form) bool { return strings.Contains(f.Action, s.partner.ClientID+"/disconnect") })
	if i < 0 || !strings.Contains(p.Text, s.partner.name) {
		t.Fatalf("the application is not on the account page: %s", p.Text)
	}
	if p, err = s.person.browser.Send(t.Context(), p, p.Forms[i], nil, ""); err != nil || p.Status != http.StatusOK {
		t.Fatalf("disconnect: %v %+v", err, p)
	}
	if slices.ContainsFunc(p.Forms, func(f crm.Form) bool { return strings.Contains(f.Action, s.partner.ClientID) }) {
		t.Error("the application is still on the account page")
	}
}
