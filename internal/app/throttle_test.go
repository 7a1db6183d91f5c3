package app

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"partnerd/internal/app/config"
)

// TestASubscriberIsOneCallerEverywhere checks that one IPv6 subscriber is one caller for every rate limit, whatever the
// number of addresses.
func TestASubscriberIsOneCallerEverywhere(t *testing.T) {
	t.Parallel()
	b := openBank(t, func(c *config.Config) {
		c.RateUnauthorized, c.RateTokenFailures = 3, 3
	})
	from := func(address, method, path, authorization, body string) int {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.RemoteAddr = "[" + address + "]:1"
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		if body != "" {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, r)
		return w.Code
	}
	const basic = "Basic b3BzOmd1ZXNz" // ops:guess
	wrong := "grant_type=refresh_token&refresh_token=x&client_secret=wrong&client_id=" + b.crm.ID
	for i, c := range []struct {
		method, path, authorization, body string
		tries                             int
	}{
		{"GET", "/api/v1/me", "Bearer x", "", 3},
		{"GET", "/api/oauth/authorize", "", "", 3},
		{"POST", "/api/oauth/token", "", wrong, 3},
		{"GET", "/api/platform/v1/endpoint", basic, "", 3},
	} {
		for n := range c.tries + 1 {
			status := from(fmt.Sprintf("2001:db8:0:%x::%x", i, n+1), c.method, c.path, c.authorization, c.body)
			if (status == 429) != (n == c.tries) {
				t.Errorf("%s from address %d: %d", c.path, n, status)
			}
		}
		if status := from(fmt.Sprintf("2001:db8:1:%x::1", i), c.method, c.path,
			c.authorization, c.body); status == 429 {
			t.Errorf("%s: the neighbour is refused", c.path)
		}
	}
	// Requests counted for a client_id do not count for the address that it spells.
	for i := range 3 * 10 {
		from(fmt.Sprintf("2001:db8:2:%x::1", i), "POST", "/api/oauth/token", "",
			"grant_type=refresh_token&client_secret=wrong&client_id=2001:db8:3::/64")
	}
	if status := from("2001:db8:3::1", "POST", "/api/oauth/token", "", wrong); status != 401 {
		t.Errorf("after guesses for an application with the name of the address: %d", status)
	}
}
