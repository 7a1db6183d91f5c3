package oauth

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"partnerd/internal/application"
	"partnerd/internal/id"
	"partnerd/internal/postgres"
	"partnerd/internal/problem"
)

func (w *world) keyStates(t *testing.T) string {
	t.Helper()
	keys, err := w.svc.SigningKeys(t.Context(), w.db.Read())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, k := range keys {
		out = append(out, string(k.State))
	}
	return strings.Join(out, " ")
}

func (w *world) retire(t *testing.T, kid string) {
	t.Helper()
	w.tx(t, func(tx postgres.Tx) error { return w.svc.RetireSigningKey(t.Context(), tx, kid) })
}

func (w *world) published(t *testing.T, s *Service, kid string) bool {
	t.Helper()
	keys, err := s.JWKS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(keys, []byte(kid))
}

func TestKeysGoThroughTheirStates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clk.Advance(time.Hour)
	w.rotate(t)
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{0, "NEXT SIGNING"}, {keyLead - time.Microsecond, "NEXT SIGNING"}, {time.Microsecond, "SIGNING OLD"}, {keyTail - time.Microsecond, "SIGNING OLD"}, {time.Microsecond, "SIGNING RETIRED"}} {
		w.clk.Advance(c.after)
		if got := w.keyStates(t); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	w.clk.Advance(Retention + time.Microsecond)
	if _, err := w.svc.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.keyStates(t); got != "SIGNING" {
		t.Errorf("after the purge: %s", got)
	}
	if JWKSMaxAge > keyLead || keyTail < AccessTokenLifetime {
		t.Error("a verifier can meet a token whose key it cannot know")
	}
}

// A second after a rotation or a retirement every replica does as the database says, without a restart.
func TestReplicasFollowWithinASecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	replica := w.replica(t)
	got := w.link(t)
	first := kidOf(t, got.AccessToken)
	for _, s := range []*Service{w.svc, replica} { // both have seen the token
		if _, err := s.Authenticate(t.Context(), got.AccessToken); err != nil {
			t.Fatal(err)
		}
	}
	next := w.rotate(t)
	w.clk.Advance(time.Second)
	if !w.published(t, w.svc, next) || !w.published(t, replica, next) {
		t.Error("a replica does not publish the next key")
	}
	w.retire(t, first)
	w.clk.Advance(time.Second)
	refresh := got.RefreshToken
	for name, s := range map[string]*Service{"one": w.svc, "other": replica} {
		if _, err := s.Authenticate(t.Context(), got.AccessToken); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("%s replica accepts a token of a retired key: %v", name, err)
		}
		if w.published(t, s, first) {
			t.Errorf("%s replica publishes the retired key", name)
		}
		r, err := s.Token(t.Context(), w.refreshForm(refresh))
		if err != nil || kidOf(t, r.AccessToken) != next {
			t.Errorf("%s replica does not sign with the next key: %v", name, err)
		}
		refresh = r.RefreshToken
	}
}

// Whichever key is retired, one goes on signing, and one that nothing ends takes over.
func TestRetiringLeavesAKeyThatSigns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(w *world)
		kid     int // place in the list, the newest first
		want    string
		signs   time.Duration // from now on until the newest signs
	}{
		"the only key":                   {func(*world) {}, 0, "SIGNING RETIRED", 0},
		"the signing key, next waiting":  {func(w *world) { w.rotate(t) }, 1, "SIGNING RETIRED", 0},
		"the next key":                   {func(w *world) { w.rotate(t) }, 0, "NEXT RETIRED SIGNING", keyLead},
		"the signing key, old published": {func(w *world) { w.rotate(t); w.clk.Advance(keyLead) }, 0, "NEXT RETIRED SIGNING", keyLead},
		"the old key":                    {func(w *world) { w.rotate(t); w.clk.Advance(keyLead) }, 1, "SIGNING RETIRED", 0},
	} {
		w := newWorld(t)
		w.clk.Advance(time.Hour)
		c.prepare(w)
		w.clk.Advance(time.Minute)
		keys, err := w.svc.SigningKeys(t.Context(), w.db.Read())
		if err != nil {
			t.Fatal(err)
		}
		w.retire(t, keys[c.kid].ID)
		if got := w.keyStates(t); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		w.clk.Advance(time.Second)
		if !w.alive(t, w.link(t).AccessToken) {
			t.Errorf("%s: nothing signs", name)
		}
		w.clk.Advance(c.signs - time.Second)
		last := w.link(t)
		w.clk.Advance(AccessTokenLifetime - time.Second)
		if !w.alive(t, last.AccessToken) {
			t.Errorf("%s: a token dies early", name)
		}
		w.clk.Advance(100 * 24 * time.Hour)
		if !w.alive(t, w.link(t).AccessToken) {
			t.Errorf("%s: nothing signs in future", name)
		}
	}
}

func TestOnlyAPublishedKeyCanBeRetired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kid := kidOf(t, w.link(t).AccessToken)
	w.retire(t, kid)
	for _, unknown := range []string{kid, "unknown"} {
		err := w.db.InTx(t.Context(), func(tx postgres.Tx) error { return w.svc.RetireSigningKey(t.Context(), tx, unknown) })
		if !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("%s: %v", unknown, err)
		}
	}
}

// A token whose signature is remembered is still asked everything else, each time.
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
			return errors.Join(w.applications.SetSuspended(t.Context(), tx, w.app.ID, false), w.accounts.SetDisabled(t.Context(), tx, w.client.ID, false))
		})
		got := w.link(t)
		for range 2 { // the second time, what the first has found is remembered
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

// What the operator takes from an application is gone from links that clients made before, too.
func TestScopesTakenFromAnApplicationEndAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t)
	update := func(scopes ...application.Scope) {
		w.tx(t, func(tx postgres.Tx) error {
			_, _, err := w.applications.Update(t.Context(), tx, w.app.ID, application.Change{Scopes: scopes}, false)
			return err
		})
	}
	update(application.ProfileRead, application.OfflineAccess)
	p, err := w.svc.Authenticate(t.Context(), got.AccessToken)
	if err != nil || !p.Has(application.ProfileRead) || p.Has(application.WalletTopUp) {
		t.Errorf("principal: %+v %v", p, err)
	}
	w.refused(t, "ask for what was taken", w.refreshForm(got.RefreshToken, "scope", "wallet:topup"), 400, CodeInvalidRequest)
	got = w.token(t, w.refreshForm(got.RefreshToken))
	if got.Scope != "profile:read offline_access" {
		t.Errorf("scope after the change: %q", got.Scope)
	}
	update(application.ProfileRead)
	if last := w.token(t, w.refreshForm(got.RefreshToken)); last.RefreshToken != "" || last.Scope != "profile:read" {
		t.Errorf("without offline_access: %+v", last)
	}
	other := w.code(t, "scope", "profile:read")
	update(application.WalletRead)
	w.refused(t, "nothing left", w.codeForm(other), 400, CodeInvalidGrant)
	update(application.AllScopes...)
	if full := w.token(t, w.codeForm(other)); full.Scope != "profile:read" {
		t.Errorf("a refused code was consumed or its grant changed: %+v", full)
	}
}
