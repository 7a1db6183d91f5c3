package oauth

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
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
	}{{0, "NEXT SIGNING"}, {keyLead - time.Microsecond, "NEXT SIGNING"}, {time.Microsecond, "SIGNING OLD"},
		{keyTail - time.Microsecond, "SIGNING OLD"}, {time.Microsecond, "SIGNING RETIRED"}} {
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

// Within a second of a rotation or a retirement, every replica follows the database without a restart.
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
		r, err := s.Token(t.Context(), w.refreshForm(refresh), "")
		if err != nil || kidOf(t, r.AccessToken) != next {
			t.Errorf("%s replica does not sign with the next key: %v", name, err)
		}
		refresh = r.RefreshToken
	}
}

// Whichever key is retired, another one continues to sign, and a key without an end takes over.
func TestRetiringLeavesAKeyThatSigns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(w *world)
		kid     int // position in the list, newest first
		want    string
		signs   time.Duration // time until the newest signs
	}{
		"the only key":                  {func(*world) {}, 0, "SIGNING RETIRED", 0},
		"the signing key, next waiting": {func(w *world) { w.rotate(t) }, 1, "SIGNING RETIRED", 0},
		"the next key":                  {func(w *world) { w.rotate(t) }, 0, "NEXT RETIRED SIGNING", keyLead},
		"the signing key, old published": {func(w *world) { w.rotate(t); w.clk.Advance(keyLead) }, 0,
			"NEXT RETIRED SIGNING", keyLead},
		"the old key": {func(w *world) { w.rotate(t); w.clk.Advance(keyLead) }, 1,
			"SIGNING RETIRED", 0},
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
		err := w.db.InTx(t.Context(),
			func(tx postgres.Tx) error { return w.svc.RetireSigningKey(t.Context(), tx, unknown) })
		if !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("%s: %v", unknown, err)
		}
	}
}
