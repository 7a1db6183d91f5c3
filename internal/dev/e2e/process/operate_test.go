package process_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// follows is how soon a running server follows a command: one second, plus time for a busy machine.
const follows = 10 * time.Second

// TestRunningServersFollowTheCommands runs commands beside two servers; both follow without a restart.
func TestRunningServersFollowTheCommands(t *testing.T) {
	t.Parallel()
	in, a, b := pair(t)
	partner := onboard(t, in, a.url, 0)
	app, token := partner.app.ClientID, partner.link(t, a.url)
	both := func(what string, holds func(p *process) bool) {
		t.Helper()
		for _, p := range []*process{a, b} {
			await(t, follows, func() bool { return holds(p) }, func() string { return what + " at " + p.url })
		}
	}
	status := func(p *process) int { return get(t, p.url+"/api/v1/me", token.AccessToken).status }
	published := func(p *process, kid string) bool {
		return strings.Contains(string(get(t, p.url+"/.well-known/jwks.json", "").body), kid)
	}
	refresh := func(p *process, secret string) answer {
		x := post(t.Context(), p.url+"/api/oauth/token", url.Values{"grant_type": {"refresh_token"},
			"refresh_token": {token.RefreshToken}, "client_id": {app}, "client_secret": {secret}})
		if x.status == http.StatusOK {
			token.RefreshToken = oneSuccess(t, []answer{x}).RefreshToken
		}
		return x
	}

	var state struct{ Suspended bool }
	in.ask(t, &state, "app", "suspend", app, "--reason", "Abuse", "--json")
	if !state.Suspended || status(a) != http.StatusUnauthorized || status(b) != http.StatusUnauthorized {
		t.Error("a suspended application is let in")
	}
	if x := refresh(b, partner.app.ClientSecret); x.status != http.StatusUnauthorized {
		t.Errorf("a suspended application refreshes: %d", x.status)
	}
	in.ask(t, &state, "app", "resume", app, "--reason", "Sorry", "--json")
	if state.Suspended || status(a) != http.StatusOK || status(b) != http.StatusOK {
		t.Error("an application that was let in again is refused")
	}

	var secret struct{ ClientSecret string }
	in.ask(t, &secret, "app", "rotate-secret", app, "--reason", "Leak", "--overlap", "1h", "--json")
	for _, s := range []string{partner.app.ClientSecret, secret.ClientSecret} {
		if x := refresh(a, s); x.status != http.StatusOK {
			t.Errorf("during the overlap: %d %s", x.status, x.body)
		}
	}
	old := secret.ClientSecret
	in.ask(t, &secret, "app", "rotate-secret", app, "--reason", "Leak", "--overlap", "0s", "--end-previous", "--json")
	if x := refresh(a, old); x.status != http.StatusUnauthorized {
		t.Errorf("without an overlap: %d %s", x.status, x.body)
	}

	var next struct{ Kid, State string }
	in.ask(t, &next, "key", "rotate", "--json")
	both("the next key is published", func(p *process) bool { return published(p, next.Kid) })
	var list struct {
		Keys []struct{ Kid, State string }
	}
	in.ask(t, &list, "key", "list", "--json")
	if len(list.Keys) != 2 || next.State != "NEXT" || list.Keys[0].Kid != next.Kid || list.Keys[1].State != "SIGNING" {
		t.Fatalf("keys: %+v, next %+v", list.Keys, next)
	}
	signing := list.Keys[1].Kid
	in.ask(t, &list, "key", "retire", signing, "--reason", "Leak", "--json")
	both("tokens of the retired key are refused",
		func(p *process) bool { return status(p) == http.StatusUnauthorized && !published(p, signing) })
	x := refresh(b, secret.ClientSecret)
	if x.status != http.StatusOK {
		t.Fatalf("refresh after the retirement: %d %s", x.status, x.body)
	}
	for _, p := range []*process{a, b} {
		if y := get(t, p.url+"/api/v1/me", accessToken(t, x)); y.status != http.StatusOK {
			t.Errorf("the next key's token at %s: %d", p.url, y.status)
		}
	}

	for _, args := range [][]string{
		{"app", "suspend", app}, {"app", "show", "app_test_unknown"}, {"app", "update", app, "--reason", "x",
			"--redirect-uri", "http://crm.example/#x"},
		{"app", "rotate-secret", app, "--reason", "x", "--overlap", "10000h"},
		{"key", "retire", signing, "--reason", "x"}, {"key", "retire", next.Kid},
	} {
		if r := in.cli(t, args...); r.code == 0 || r.stdout != "" && !strings.HasPrefix(r.stdout, "Usage") ||
			r.stderr == "" {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

func accessToken(t *testing.T, x answer) string {
	t.Helper()
	var v struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(x.body, &v); err != nil {
		t.Fatal(err)
	}
	return v.AccessToken
}
