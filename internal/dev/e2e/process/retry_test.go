package process_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/oauth2"
)

// T24: concurrent requests to both processes with one Idempotency-Key are one refresh, and the session stays valid.
func TestOneKeyIsOneRefreshOverTwoProcesses(t *testing.T) {
	t.Parallel()
	in, a, b := pair(t)
	partner := onboard(t, in, a.url, 0)
	var tokens oauth2.Token
	tokens.RefreshToken = partner.link(t, a.url).RefreshToken
	for range rounds(5, 100) {
		key := rand.Text()
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.RefreshToken},
			"client_id": {partner.app.ClientID}, "client_secret": {partner.app.ClientSecret}}.Encode()
		firsts := 0
		answers := atOnce(t.Context(), a, b, func(ctx context.Context, base string) answer {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/api/oauth/token", strings.NewReader(form))
			if err != nil {
				return answer{}
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Idempotency-Key", key)
			return send(r)
		})
		for _, x := range answers {
			if x.status != http.StatusOK || !bytes.Equal(x.body, answers[0].body) {
				t.Fatalf("responses differ: %d %s, %d %s", answers[0].status, answers[0].body, x.status, x.body)
			}
			if x.header.Get("Idempotent-Replayed") == "" {
				firsts++
			}
		}
		if firsts != 1 {
			t.Errorf("%d requests refreshed", firsts)
		}
		if err := json.Unmarshal(answers[0].body, &tokens); err != nil {
			t.Fatal(err)
		}
		if x := get(t, b.url+"/api/v1/me", tokens.AccessToken); x.status != http.StatusOK {
			t.Fatalf("the session ended: %d %s", x.status, x.body)
		}
	}
}
