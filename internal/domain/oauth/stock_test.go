package oauth

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/oauth2"
)

// serve serves the token and revocation endpoints over HTTP as package httpapi does.
func (w *world) serve(t *testing.T) *httptest.Server {
	t.Helper()
	answer := func(rw http.ResponseWriter, body any, err error) {
		rw.Header().Set("Content-Type", "application/json")
		var e *Error
		if errors.As(err, &e) {
			rw.WriteHeader(e.Status)
			body = map[string]string{"error": e.Code, "error_description": e.Description}
		} else if err != nil {
			t.Errorf("fault of the service: %v", err)
		}
		if err := json.NewEncoder(rw).Encode(body); err != nil {
			t.Error(err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/oauth/token", func(rw http.ResponseWriter, r *http.Request) {
		form, fault := ParseForm(r)
		if fault != nil {
			answer(rw, nil, fault)
			return
		}
		response, err := w.svc.Token(r.Context(), form, "")
		answer(rw, response, err)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestStockGoClientCompletesTheFlow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.serve(t)
	for name, style := range map[string]oauth2.AuthStyle{
		"auto": oauth2.AuthStyleAutoDetect, "in parameters": oauth2.AuthStyleInParams,
		"in header": oauth2.AuthStyleInHeader,
	} {
		client := oauth2.Config{ClientID: w.app.ID, ClientSecret: w.secret, RedirectURL: callback,
			Scopes: []string{"profile:read", "offline_access"},
			Endpoint: oauth2.Endpoint{AuthURL: issuer + "/api/oauth/authorize", TokenURL: s.URL + "/api/oauth/token",
				AuthStyle: style}}
		verifier := oauth2.GenerateVerifier()
		asked, err := url.Parse(client.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier)))
		if err != nil {
			t.Fatal(err)
		}
		var changes []string
		for name, values := range asked.Query() {
			changes = append(changes, name, values[0])
		}
		token, err := client.Exchange(t.Context(), w.code(t, changes...), oauth2.VerifierOption(verifier))
		if err != nil {
			t.Fatalf("%s: exchange: %v", name, err)
		}
		if token.TokenType != "Bearer" || token.Extra("scope") != "profile:read offline_access" ||
			!w.alive(t, token.AccessToken) {
			t.Errorf("%s: token %+v", name, token)
		}
		token.Expiry = token.Expiry.Add(-AccessTokenLifetime)
		next, err := client.TokenSource(t.Context(), token).Token()
		if err != nil || next.RefreshToken == token.RefreshToken || !w.alive(t, next.AccessToken) {
			t.Errorf("%s: refresh: %+v %v", name, next, err)
		}
	}
}

func TestCredentialsByHTTPBasic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.serve(t)
	none := []string{"client_id", "-", "client_secret", "-"}
	for name, c := range map[string]struct {
		id, secret string
		changes    []string
		want       int
		code       string
	}{
		"alone": {w.app.ID, w.secret, none, 200, ""},
		"form-urlencoded": {strings.ReplaceAll(w.app.ID, "_", "%5F"),
			strings.ReplaceAll(w.secret, "_", "%5f"), none, 200, ""},
		"with the same id in the body": {w.app.ID, w.secret, []string{"client_secret", "-"}, 200, ""},
		"with another id in the body": {w.app.ID, w.secret, []string{"client_id", w.other.ID, "client_secret", "-"},
			400, CodeInvalidRequest},
		"beside the body's credentials": {w.app.ID, w.secret, nil, 400, CodeInvalidRequest},
		"beside an empty secret":        {w.app.ID, w.secret, []string{"client_secret", ""}, 400, CodeInvalidRequest},
		"wrong":                         {w.app.ID, "wrong", none, 401, CodeInvalidClient},
		"of another application":        {w.other.ID, w.otherSecret, none, 400, CodeInvalidGrant},
		"without secret":                {w.app.ID, "", none, 401, CodeInvalidClient},
		"without id":                    {"", w.secret, none, 400, CodeInvalidRequest},
		"broken escape":                 {w.app.ID, "%zz", none, 401, CodeInvalidClient},
		"NUL":                           {w.app.ID, "%00", none, 401, CodeInvalidClient},
		"not UTF-8":                     {w.app.ID, "%ff", none, 401, CodeInvalidClient},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/api/oauth/token",
			strings.NewReader(w.codeForm(w.code(t), c.changes...).Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", formType)
		r.SetBasicAuth(c.id, c.secret)
		answer, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var body struct{ Error string }
		err = json.NewDecoder(answer.Body).Decode(&body)
		answer.Body.Close()
		if answer.StatusCode != c.want || body.Error != c.code || err != nil {
			t.Errorf("%s: %d %q, want %d %q (%v)", name, answer.StatusCode, body.Error, c.want, c.code, err)
		}
	}
}
