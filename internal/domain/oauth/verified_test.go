package oauth

import (
	"errors"
	"testing"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
)

// For a token with a remembered signature, all other conditions are still checked each time.
func TestARememberedTokenEndsLikeAnyOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ends := map[string]func(got TokenResponse) error{
		"revoked": func(got TokenResponse) error { return w.svc.Revoke(t.Context(), w.revokeForm(got.RefreshToken)) },
		"disconnected": func(TokenResponse) error {
			return w.svc.Disconnect(t.Context(), w.db.Read(), w.client.ID, w.app.ID)
		},
		"suspended": func(TokenResponse) error {
			return w.applications.SetSuspended(t.Context(), w.db.Read(), w.app.ID, true)
		},
		"disabled": func(TokenResponse) error {
			return w.accounts.SetDisabled(t.Context(), w.db.Read(), w.client.ID, true)
		},
		"expired": func(TokenResponse) error { w.clk.Advance(AccessTokenLifetime); return nil },
	}
	for name, end := range ends {
		w.tx(t, func(tx postgres.Tx) error {
			return errors.Join(w.applications.SetSuspended(t.Context(), tx, w.app.ID, false),
				w.accounts.SetDisabled(t.Context(), tx, w.client.ID, false))
		})
		got := w.link(t)
		for range 2 { // the second time uses the cached result
			if !w.alive(t, got.AccessToken) {
				t.Fatal("refused")
			}
		}
		if _, known := w.svc.verified.get(id.DigestOf(got.AccessToken)); !known {
			t.Fatal("the signature was not remembered: this test proves nothing")
		}
		if err := end(got); err != nil {
			t.Fatal(err)
		}
		if w.alive(t, got.AccessToken) {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestRememberedTokensAreBounded(t *testing.T) {
	t.Parallel()
	var v verified
	digest := func(i int) (d id.Digest) { d[0], d[1], d[2] = byte(i), byte(i>>8), byte(i>>16); return d }
	for i := range 5 * verifiedTokens {
		v.put(digest(i), verifiedToken{})
		if i%1000 == 0 {
			if _, found := v.get(digest(0)); !found {
				t.Fatalf("a token in use was forgotten after %d others", i)
			}
		}
	}
	if n := len(v.newer) + len(v.older); n > 2*verifiedTokens {
		t.Errorf("%d tokens are remembered", n)
	}
	if _, found := v.get(digest(1)); found {
		t.Error("a token that nobody used was not forgotten")
	}
}

func TestRefusedTokensLeaveNoTrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := w.link(t).AccessToken
	for _, bad := range []string{good[:len(good)-1], good + "=", "a.b.c"} {
		if w.alive(t, bad) {
			t.Errorf("accepted %s", bad)
		}
	}
	if n := len(w.svc.verified.newer); n != 0 {
		t.Errorf("%d tokens remembered", n)
	}
}
