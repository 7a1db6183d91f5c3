package e2e

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"partnerd/cmd/democrm/crm"
)

// R3, R5, R60, R65–R69, R72, R111, R112, R115, H7, H10, H12: the whole flow: sign-in, a consent page that names the
// application and every scope, a code, tokens of the promised form.
func TestLinkingAClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, c1 := w.partner(t, "CRM A"), w.client(t, "c1", true, 10_000)
	const state = "a b+c/é%20&x=1"
	address := w.base + "/api/oauth/authorize?" + a.authorizeQuery("state", state).Encode()
	b := c1.browser
	p, err := b.Open(t.Context(), address)
	w.must(t, err)
	form, err := p.Form("password")
	w.must(t, err)
	if p, err = b.Send(t.Context(), p, form, map[string]string{"email": c1.Email, "password": "wrong password"},
		""); err != nil || p.Location != "" || p.Status != http.StatusUnprocessableEntity {
		t.Fatalf("wrong password: %v %+v", err, p)
	}
	if p, err = b.Send(t.Context(), p, form, map[string]string{"email": c1.Email, "password": c1.password},
		""); err != nil || !strings.Contains(p.Text, "CRM A") {
		t.Fatalf("consent page: %v %+v", err, p)
	}
	for _, scope := range crm.AllScopes {
		if !strings.Contains(string(p.Raw), `value="`+scope+`"`) {
			t.Errorf("the consent page does not list %s", scope)
		}
	}
	form, err = p.Form("decision")
	w.must(t, err)
	p, err = b.Send(t.Context(), p, form, nil, "allow")
	w.must(t, err)
	back, err := url.Parse(p.Location)
	w.must(t, err)
	q := back.Query()
	if p.Status != http.StatusFound || !strings.HasPrefix(p.Location, callback+"?") || q.Get("state") != state ||
		q.Get("iss") != w.base || q.Get("error") != "" {
		t.Fatalf("back: %d %s", p.Status, p.Location)
	}
	r := w.postToken(t, a.codeForm(q.Get("code")))
	r.is(t, "exchange", http.StatusOK, "")
	v := r.value()
	claims := claimsOf(t, v["access_token"].(string))
	if v["token_type"] != "Bearer" || v["expires_in"] != 900.0 || v["scope"] != strings.Join(crm.AllScopes, " ") ||
		v["refresh_token"] == nil || v["refresh_token_expires_in"] != float64(90*24*3600) ||
		claims["exp"].(float64)-claims["iat"].(float64) != 900 {
		t.Errorf("tokens: %v %v", v, claims)
	}
	if strings.Contains(fmt.Sprint(claims), c1.Email) || strings.Contains(fmt.Sprint(claims), c1.Name) ||
		claims["sub"] != c1.ID {
		t.Errorf("claims: %v", claims)
	}
	p, err = b.Open(t.Context(), address+"&prompt=consent") // already signed in: goes straight to the consent page
	w.must(t, err)
	if _, err := p.Form("decision"); err != nil {
		t.Error(err)
	}
}

// R61–R68, R70, R110, H6, T18, T19: an invalid application or redirect URI ends on a page with status 400. Every other
// error returns to the application with error, state and iss. No error gives a code.
func TestFaultyAuthorizationRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, c1 := w.partner(t, "CRM A"), w.client(t, "c1", true, 10_000)
	w.link(t, a, c1) // signs in
	open := func(changes ...string) *crm.Page {
		p, err := c1.browser.Open(t.Context(), w.base+"/api/oauth/authorize?"+a.authorizeQuery(changes...).Encode())
		w.must(t, err)
		return p
	}
	pages := [][]string{{"client_id", "-"}, {"client_id", "app_test_unknown"}, {"client_id", "a\x00"},
		{"client_id", strings.ToUpper(a.ClientID)}, {"redirect_uri", "-"}, {"redirect_uri", ""}}
	for _, other := range []string{callback + "/", callback + "?", callback + "?x=1", callback + "#",
		"http://localhost:3000/Callback", "http://LOCALHOST:3000/callback", "http://localhost:3001/callback",
		"http://localhost/callback", "https://localhost:3000/callback", "http://localhost:3000/callback/..",
		"http://localhost:3000/call", "http://localhost:3000", " " + callback, callback + " ", callback + "\x00",
		"http://user@localhost:3000/callback", "javascript:alert(1)", callback + "%3Ftenant=1"} {
		pages = append(pages, []string{"redirect_uri", other})
	}
	for _, changes := range pages {
		if p := open(changes...); p.Status != http.StatusBadRequest || p.Location != "" ||
			!strings.HasPrefix(p.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%q: %d %s", changes, p.Status, p.Location)
		}
	}
	for _, x := range [][]string{
		{"invalid_request", "response_type", "-"}, {"unsupported_response_type", "response_type", "token"},
		{"unsupported_response_type", "response_type", "code id_token"},
		{"invalid_request", "scope", "-"}, {"invalid_scope", "scope", "everything"},
		{"invalid_scope", "scope", "profile:read everything"}, {"invalid_scope", "scope", "profile:read,wallet:read"},
		{"invalid_scope", "scope", "PROFILE:READ"}, {"invalid_scope", "scope", "profile:read\x00"},
		{"invalid_request", "state", "-"}, {"invalid_request", "code_challenge", "-"},
		{"invalid_request", "code_challenge", "short"}, {"invalid_request", "code_challenge", strings.Repeat("a", 44)},
		{"invalid_request", "code_challenge", strings.Repeat("+", 43)},
		{"invalid_request", "code_challenge_method", "-"}, {"invalid_request", "code_challenge_method", "plain"},
		{"invalid_request", "code_challenge_method", "s256"},
	} {
		p := open(x[1:]...)
		back, err := url.Parse(p.Location)
		if err != nil || p.Status != http.StatusFound || !strings.HasPrefix(p.Location, callback+"?") {
			t.Errorf("%q: %d %s", x, p.Status, p.Location)
			continue
		}
		q, state := back.Query(), "state"
		if x[1] == "state" {
			state = ""
		}
		if q.Get("error") != x[0] || q.Has("code") || q.Get("iss") != w.base || q.Get("state") != state ||
			q.Has("state") != (state != "") || q.Get("error_description") == "" {
			t.Errorf("%q: %s", x, p.Location)
		}
	}
	back := w.authorize(t, c1, a.authorizeQuery("state", "a b+c/é%20&x=1"), "deny")
	if q := back.Query(); q.Get("error") != "access_denied" || q.Get("state") != "a b+c/é%20&x=1" || q.Has("code") {
		t.Errorf("refused by the client: %s", back)
	}
	if back := w.authorize(t, c1, a.authorizeQuery("redirect_uri", callback+"?tenant=1"), "allow"); back.Query().
		Get("tenant") != "1" || back.Query().Get("code") == "" {
		t.Errorf("a registered URI with a query: %s", back)
	}
}

// R62, R71–R78, H8, H9, H14, T23: the token endpoint rejects every deviation with the documented code. Rejected client
// credentials spend nothing.
func TestCodeExchange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c1 := w.partner(t, "CRM A"), w.partner(t, "CRM B"), w.client(t, "c1", true, 10_000)
	code := w.code(t, a, c1)
	for _, x := range []struct {
		status  int
		code    string
		changes []string
	}{
		{400, "invalid_request", []string{"grant_type", "-"}},
		{400, "invalid_request", []string{"grant_type", "client_credentials"}},
		{400, "invalid_request", []string{"grant_type", "password"}},
		{400, "invalid_request", []string{"client_id", "-"}}, {401, "invalid_client",
			[]string{"client_id", "app_test_unknown"}},
		{401, "invalid_client", []string{"client_secret", "-"}},
		{401, "invalid_client", []string{"client_secret", "wrong"}}, {401, "invalid_client",
			[]string{"client_secret", a.ClientSecret + "x"}},
		{401, "invalid_client", []string{"client_secret", b.ClientSecret}},
		{400, "invalid_request", []string{"code", "-"}}, {400, "invalid_grant", []string{"code", "unknown"}},
		{400, "invalid_request", []string{"code", "a\x00"}}, {400, "invalid_request", []string{"redirect_uri", "-"}},
		{400, "invalid_request", []string{"code_verifier", "-"}},
	} {
		r := w.postToken(t, a.codeForm(code, x.changes...))
		r.is(t, fmt.Sprint(x.changes), x.status, x.code)
		v := r.value()
		if v["error"] != v["code"] || v["error_description"] != v["message"] || v["message"] == "" {
			t.Errorf("%v: %s (H8)", x.changes, r)
		}
	}
	if v := w.getToken(t, a.codeForm(code)); v.AccessToken == "" {
		t.Error("a refusal of the credentials spent the code")
	}
	for _, changes := range [][]string{
		{"redirect_uri", callback + "?tenant=1"}, {"redirect_uri", callback + "/"},
		{"code_verifier", strings.Repeat("a", 43)}, {"code_verifier", challengeOf(verifier)},
	} {
		w.postToken(t, a.codeForm(w.code(t, a, c1), changes...)).is(t, fmt.Sprint(changes), http.StatusBadRequest,
			"invalid_grant")
	}
	w.postToken(t, b.codeForm(w.code(t, a, c1))).is(t, "a code of another application", http.StatusBadRequest,
		"invalid_grant")
	old := w.code(t, a, c1)
	w.exec(t, "UPDATE oauth_codes SET expires_at = now() - interval '1 second' WHERE used_at IS NULL")
	w.postToken(t, a.codeForm(old)).is(t, "a code after 5 minutes", http.StatusBadRequest, "invalid_grant")
}

// RFC 6749 sections 2.3.1 and 5.2: the token and revoke endpoints also accept the credentials by HTTP Basic, and name
// the scheme that they rejected.
func TestCredentialsByBasic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, c1 := w.partner(t, "CRM A"), w.client(t, "c1", true, 10_000)
	s := w.link(t, a, c1)
	basic := func(secret string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(a.ClientID+":"+secret))
	}
	form := a.refreshForm(s.token.RefreshToken, "client_id", "-", "client_secret", "-")
	revocation := url.Values{"token": {s.token.RefreshToken}}
	for path, f := range map[string]url.Values{"/api/oauth/token": form, "/api/oauth/revoke": revocation} {
		for name, header := range map[string]string{"wrong": basic("wrong"), "malformed": "Basic x"} {
			r := w.send(t, http.MethodPost, path, f, "Authorization", header)
			r.is(t, path+" "+name, http.StatusUnauthorized, "invalid_client")
			if got := r.Header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Basic ") {
				t.Errorf("%s %s: WWW-Authenticate %q", path, name, got)
			}
		}
		w.send(t, http.MethodPost, path, change(maps.Clone(f), []string{"client_id", a.ClientID,
			"client_secret", a.ClientSecret}), "Authorization", basic(a.ClientSecret)).
			is(t, path+" both ways", http.StatusBadRequest, "invalid_request")
	}
	if got := w.postToken(t, a.refreshForm(s.token.RefreshToken, "client_secret", "wrong")).Header.Get(
		"WWW-Authenticate",
	); got != "" {
		t.Errorf("the challenge for credentials in the body is %q", got)
	}
	r := w.send(t, http.MethodPost, "/api/oauth/token", form, "Authorization", basic(a.ClientSecret))
	r.is(t, "refresh", http.StatusOK, "")
	for _, name := range []string{"access_token", "refresh_token"} {
		w.secret(r.value()[name].(string))
	}
	w.send(t, http.MethodPost, "/api/oauth/revoke", revocation, "Authorization", basic(a.ClientSecret)).
		is(t, "revoke", http.StatusOK, "")
	s.get(t, "/api/v1/me").is(t, "after the revocation", http.StatusUnauthorized, "UNAUTHORIZED")
}

// R3, R59, R156: the token and revoke endpoints accept only forms, and reject anything else with the documented code.
func TestTokenEndpointsTakeFormsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, c1 := w.partner(t, "CRM A"), w.client(t, "c1", true, 10_000)
	s := w.link(t, a, c1)
	form := a.refreshForm(s.token.RefreshToken)
	asJSON := object{}
	for name := range form {
		asJSON[name] = form.Get(name)
	}
	for _, path := range []string{"/api/oauth/token", "/api/oauth/revoke"} {
		for what, r := range map[string]*reply{
			"JSON":          w.send(t, http.MethodPost, path, asJSON),
			"no body":       w.send(t, http.MethodPost, path, nil),
			"no media type": w.send(t, http.MethodPost, path, form, "Content-Type", "-"),
			"text":          w.send(t, http.MethodPost, path, form, "Content-Type", "text/plain"),
			"two types": w.send(t, http.MethodPost, path, form, "Content-Type", "application/x-www-form-urlencoded",
				"Content-Type", "application/json"),
			"query": w.send(t, http.MethodPost, path+"?"+form.Encode(), url.Values{}),
			"twice": w.send(t, http.MethodPost, path, form.Encode()+"&client_id=x", "Content-Type",
				"application/x-www-form-urlencoded"),
			"bad escape": w.send(t, http.MethodPost, path, "grant_type=%zz",
				"Content-Type", "application/x-www-form-urlencoded"),
			"not UTF-8": w.send(t, http.MethodPost, path, form.Encode()+"&x=%ff",
				"Content-Type", "application/x-www-form-urlencoded"),
			"NUL": w.send(t, http.MethodPost, path, form.Encode()+"&x=%00",
				"Content-Type", "application/x-www-form-urlencoded"),
			"1 MB": w.send(t, http.MethodPost, path, form.Encode()+"&x="+strings.Repeat("x", 1<<20),
				"Content-Type", "application/x-www-form-urlencoded"),
		} {
			r.is(t, path+" with "+what, http.StatusBadRequest, "invalid_request")
		}
	}
	w.send(t, http.MethodPost, "/api/oauth/token", form,
		"Content-Type", "application/x-www-form-urlencoded; charset=UTF-8").is(t, "form", http.StatusOK, "")
}

// R71, H10: the second use of a code is rejected and ends the session that the first one created.
func TestACodeIsUsedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, c1 := w.partner(t, "CRM A"), w.client(t, "c1", true, 10_000)
	code := w.code(t, a, c1)
	s := w.session(a, c1, w.getToken(t, a.codeForm(code)))
	s.get(t, "/api/v1/me").is(t, "first use", http.StatusOK, "")
	w.postToken(t, a.codeForm(code, "client_secret", "wrong")).is(t, "replay without credentials",
		http.StatusUnauthorized, "invalid_client")
	s.get(t, "/api/v1/me").is(t, "after a replay without credentials", http.StatusOK, "")
	w.postToken(t, a.codeForm(code)).is(t, "second use", http.StatusBadRequest, "invalid_grant")
	s.get(t, "/api/v1/me").is(t, "after the second use", http.StatusUnauthorized, "UNAUTHORIZED")
	w.postToken(t, a.refreshForm(s.token.RefreshToken)).is(t, "refresh after the second use", http.StatusBadRequest,
		"invalid_grant")
}

// R73, R113, R114, H11, H13, H56, T14: each refresh issues a new token and ends the previous one. Reuse ends its
// session with the access tokens, and no other session.
func TestRefreshTokensRotate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c1 := w.partner(t, "CRM A"), w.partner(t, "CRM B"), w.client(t, "c1", true, 10_000)
	other, s := w.link(t, a, c1), w.link(t, a, c1)
	refresh := func(token string) *reply { return w.postToken(t, a.refreshForm(token)) }
	tokens := []string{s.token.RefreshToken}
	for range 5 {
		v := w.getToken(t, a.refreshForm(tokens[len(tokens)-1]))
		if v.RefreshToken == nil || slices.Contains(tokens, *v.RefreshToken) {
			t.Fatalf("refresh: %+v", v)
		}
		tokens = append(tokens, *v.RefreshToken)
		s = w.session(a, c1, v)
		s.get(t, "/api/v1/me").is(t, "new access token", http.StatusOK, "")
	}
	w.postToken(t, b.refreshForm(tokens[5])).is(t, "by another application", http.StatusBadRequest, "invalid_grant")
	w.postToken(t, a.refreshForm(tokens[5], "client_secret", "wrong")).is(t, "wrong secret", http.StatusUnauthorized,
		"invalid_client")
	w.postToken(t, a.refreshForm(tokens[5], "refresh_token", "-")).is(t, "no token", http.StatusBadRequest,
		"invalid_request")
	refresh("unknown").is(t, "unknown token", http.StatusBadRequest, "invalid_grant")
	s.get(t, "/api/v1/me").is(t, "after all that", http.StatusOK, "")

	refresh(tokens[2]).is(t, "replay", http.StatusBadRequest, "invalid_grant")
	s.get(t, "/api/v1/me").is(t, "access token after the replay", http.StatusUnauthorized, "UNAUTHORIZED")
	refresh(tokens[5]).is(t, "newest token after the replay", http.StatusBadRequest, "invalid_grant")
	other.get(t, "/api/v1/me").is(t, "another session", http.StatusOK, "")
	refresh(other.token.RefreshToken).is(t, "another session's token", http.StatusOK, "")

	late := w.link(t, a, c1)
	w.exec(t, "UPDATE oauth_refresh_tokens SET expires_at = now() - interval '1 second' WHERE used_at IS NULL")
	refresh(late.token.RefreshToken).is(t, "after 90 days", http.StatusBadRequest, "invalid_grant")
}

// R115, R119, H15, T25: the client may refuse optional scopes. scope lists what was granted, and only offline_access
// gives a refresh token. Another authorization changes its own session only.
func TestGrantedScopesOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, c1 := w.partner(t, "CRM A"), w.client(t, "c1", true, 10_000)
	w.link(t, a, c1)
	back := w.authorize(t, c1, a.authorizeQuery(), "allow", "notes:read", "consultations:write", "wallet:topup")
	v := w.getToken(t, a.codeForm(back.Query().Get("code")))
	if v.Scope != "profile:read wallet:read consultations:read offline_access" || v.RefreshToken == nil {
		t.Errorf("granted: %+v", v)
	}
	s := w.session(a, c1, v)
	s.tryCreate(t, wish()).is(t, "a refused scope", http.StatusForbidden, "INSUFFICIENT_SCOPE")
	if again := w.getToken(t, a.refreshForm(*v.RefreshToken)); again.Scope != v.Scope {
		t.Errorf("after a refresh: %+v", again)
	}
	without := w.getToken(t, a.codeForm(w.code(t, a, c1, "scope", "profile:read wallet:read")))
	if without.RefreshToken != nil || without.Scope != "profile:read wallet:read" {
		t.Errorf("without offline_access: %+v", without)
	}
	only := w.getToken(t, a.codeForm(w.code(t, a, c1, "scope", "offline_access")))
	if only.RefreshToken == nil || only.Scope != "offline_access" {
		t.Errorf("offline_access alone: %+v", only)
	}
	widened := w.postToken(t, a.refreshForm(*only.RefreshToken, "scope", "offline_access profile:read"))
	widened.is(t, "a refresh that asks for more", http.StatusBadRequest, "invalid_request")
}

// R79, R80, R81, T17: revoking ends the session of a token, with or without the secret. A token that is unknown or
// belongs to another application is a 200 and changes nothing.
func TestRevoke(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c1 := w.partner(t, "CRM A"), w.partner(t, "CRM B"), w.client(t, "c1", true, 10_000)
	s := w.link(t, a, c1)
	revoke := func(token string, changes ...string) *reply {
		return w.send(t, http.MethodPost, "/api/oauth/revoke",
			change(url.Values{"token": {token}, "client_id": {a.ClientID}}, changes))
	}
	revoke("").is(t, "no token", http.StatusBadRequest, "invalid_request")
	revoke(s.token.RefreshToken, "client_id", "-").is(t, "no client_id", http.StatusBadRequest, "invalid_request")
	revoke(s.token.RefreshToken, "client_secret", "wrong").is(t, "wrong secret", http.StatusUnauthorized,
		"invalid_client")
	revoke(s.token.RefreshToken, "client_id", "app_test_unknown").is(t, "unknown application", http.StatusUnauthorized,
		"invalid_client")
	revoke("unknown").is(t, "unknown token", http.StatusOK, "")
	revoke(s.token.RefreshToken, "client_id", b.ClientID).is(t, "by another application", http.StatusOK, "")
	revoke(s.token.AccessToken, "client_id", b.ClientID).is(t, "access token by another application", http.StatusOK, "")
	s.get(t, "/api/v1/me").is(t, "after all that", http.StatusOK, "")
	for range 2 {
		revoke(s.token.RefreshToken, "client_secret", a.ClientSecret).is(t, "revoke", http.StatusOK, "")
	}
	s.get(t, "/api/v1/me").is(t, "access token", http.StatusUnauthorized, "UNAUTHORIZED")
	w.postToken(t, a.refreshForm(s.token.RefreshToken)).is(t, "refresh", http.StatusBadRequest, "invalid_grant")
}

// R5, R8, H56: refreshing alone keeps a connection until the client ends it on the account page. That ends all sessions
// immediately.
func TestTheAccountPageEndsEverySession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c1 := w.partner(t, "CRM A"), w.partner(t, "CRM B"), w.client(t, "c1", true, 10_000)
	first, second, other := w.link(t, a, c1), w.link(t, a, c1), w.link(t, b, c1)
	second.disconnect(t)
	for _, s := range []*session{first, second} {
		s.get(t, "/api/v1/me").is(t, "access", http.StatusUnauthorized, "UNAUTHORIZED")
		w.postToken(t, a.refreshForm(s.token.RefreshToken)).is(t, "refresh", http.StatusBadRequest, "invalid_grant")
	}
	other.get(t, "/api/v1/me").is(t, "another application", http.StatusOK, "")
}

// R6, R7, R21, R23: a token gives access to its own client only.
func TestATokenStandsForItsClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.partner(t, "CRM A")
	for i, verified := range []bool{true, false} {
		c := w.client(t, fmt.Sprint("c", i), verified, 1000)
		s := w.link(t, a, c)
		v := s.get(t, "/api/v1/me").value()
		if v["id"] != c.ID || v["email"] != c.Email || v["name"] != c.Name || v["phoneVerified"] != verified ||
			len(v) != 4 {
			t.Errorf("profile: %v", v)
		}
		s.hasWallet(t, "own", 1000, 0)
		for _, query := range []string{"?clientId=x", "?client_id=x&sub=y"} {
			s.get(t, "/api/v1/me"+query).is(t, "profile with "+query, http.StatusBadRequest, "INVALID_REQUEST")
		}
	}
}
