package crm

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"golang.org/x/oauth2"
)

// TestALostAnswerOfTheTokenEndpointIsAskedForAgain checks that a refresh whose response is lost, before it begins or
// halfway, is retried as the same request. A new refresh is another request.
func TestALostAnswerOfTheTokenEndpointIsAskedForAgain(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Header.Get("Idempotency-Key")+" "+r.PostFormValue("refresh_token"))
		n := len(seen)
		mu.Unlock()
		switch n {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"access_token":`)
			panic(http.ErrAbortHandler)
		case 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"access_token":"a%d","token_type":"Bearer","expires_in":900,"refresh_token":"r%d"}`, n, n)
		}
	}))
	t.Cleanup(server.Close)
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, TokenClient(&http.Transport{DisableKeepAlives: true}))
	c := Application{ClientID: "app", ClientSecret: "secret"}.Config(Metadata{TokenEndpoint: server.URL})

	token, err := c.TokenSource(ctx, &oauth2.Token{RefreshToken: "r0"}).Token()
	if err != nil || token.AccessToken != "a4" {
		t.Fatalf("%+v, %v", token, err)
	}
	for i, s := range seen {
		if s != seen[0] || len(s) < 20 {
			t.Errorf("try %d was %q, the first %q", i+1, s, seen[0])
		}
	}
	if token, err = c.TokenSource(ctx, &oauth2.Token{RefreshToken: "r4"}).Token(); err != nil ||
		token.AccessToken != "a5" {
		t.Fatalf("%+v, %v", token, err)
	}
	if len(seen) != 5 || seen[4][:20] == seen[0][:20] {
		t.Errorf("%d requests; the second refresh had the key of the first", len(seen))
	}
}
