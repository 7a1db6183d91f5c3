package oauth

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

func TestReplicasThatStartTogetherMakeOneKey(t *testing.T) {
	t.Parallel()
	db, box := dbtest.New(t), newBox(t)
	var all sync.WaitGroup
	kids := make([]string, 5)
	err := db.InTx(t.Context(), func(tx postgres.Tx) error {
		if err := lockSigningKeys(t.Context(), tx); err != nil {
			return err
		}
		for i := range kids {
			all.Go(func() {
				s, err := New(t.Context(), db, box, account.New(box), application.New(),
					Config{Issuer: issuer, Audience: issuer})
				if err != nil {
					t.Error(err)
					return
				}
				_, key, err := s.keys.signer(t.Context())
				if err != nil {
					t.Error(err)
				}
				kids[i] = key.kid
			})
		}
		waitForWaiters(t, tx, len(kids))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all.Wait()
	for _, kid := range kids {
		if kid == "" || kid != kids[0] {
			t.Fatalf("keys: %v", kids)
		}
	}
	rows, err := publishedSigningKeys(t.Context(), db.Read())
	if err != nil || len(rows) != 1 {
		t.Errorf("%d keys %v", len(rows), err)
	}
}

func TestSigningKeyIsSealedAndPublishedWithoutItsPrivatePart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows, err := publishedSigningKeys(t.Context(), w.db.Read())
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d keys %v", len(rows), err)
	}
	if bytes.Contains(rows[0].PrivateSealed, []byte(rows[0].KID)) {
		t.Error("the private key is readable in the database")
	}
	published, err := w.svc.JWKS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal(published, &set); err != nil || len(set.Keys) != 1 {
		t.Fatalf("%s: %v", published, err)
	}
	k := set.Keys[0]
	if k["kty"] != "EC" || k["crv"] != "P-256" || k["alg"] != "ES256" || k["use"] != "sig" || k["kid"] != rows[0].KID ||
		k["d"] != "" || len(k) != 7 {
		t.Errorf("published: %s", published)
	}
	_, err = New(t.Context(), w.db, newBox(t), w.accounts, w.applications, Config{Issuer: issuer, Audience: issuer})
	if err == nil || !strings.Contains(err.Error(), "signing key") {
		t.Errorf("started with another box: %v", err)
	}
}

func TestKeysSurviveARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t)
	w.svc = w.replica(t)
	if !w.alive(t, got.AccessToken) {
		t.Error("a restarted service refuses tokens from before")
	}
}

// A token must verify everywhere from its issue until its expiry, across a rotation.
func TestRotationNeverBreaksALiveToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	replica := w.replica(t)
	before := w.link(t)
	first := kidOf(t, before.AccessToken)
	kid := w.rotate(t)
	w.clk.Advance(keysFresh)
	if published, err := replica.JWKS(t.Context()); err != nil || !bytes.Contains(published, []byte(kid)) ||
		!bytes.Contains(published, []byte(first)) {
		t.Errorf("the next key is not published beside the present one: %s %v", published, err)
	}
	w.clk.Advance(keyLead - keysFresh - time.Second)
	last := w.token(t, w.refreshForm(before.RefreshToken))
	if kidOf(t, last.AccessToken) != first || !w.alive(t, before.AccessToken) {
		t.Error("the next key signs before verifiers can know it")
	}
	w.clk.Advance(time.Second)
	after := w.token(t, w.refreshForm(last.RefreshToken))
	if kidOf(t, after.AccessToken) != kid {
		t.Error("the next key does not sign when its time has come")
	}
	w.clk.Advance(AccessTokenLifetime - 2*time.Second)
	for _, s := range []*Service{w.svc, replica} {
		for _, token := range []string{last.AccessToken, after.AccessToken} {
			if _, err := s.Authenticate(t.Context(), token); err != nil {
				t.Errorf("a live token is refused: %v", err)
			}
		}
	}
	w.clk.Advance(keyTail)
	if published, err := w.svc.JWKS(t.Context()); err != nil || bytes.Contains(published, []byte(first)) {
		t.Errorf("the old key is still published: %s %v", published, err)
	}
}

// Invented key IDs must not each cause a database read.
func TestUnknownKeysAreLookedUpRarely(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clk.Advance(keysPatient)
	lookUp := func() *keyset {
		if _, found, err := w.svc.keys.find(t.Context(), "invented"); err != nil || found {
			t.Fatal(found, err)
		}
		return w.svc.keys.current.Load()
	}
	once := lookUp()
	if lookUp() != once {
		t.Error("read twice within a moment")
	}
	w.clk.Advance(keysPatient)
	if lookUp() == once {
		t.Error("not read again after a moment")
	}
}

func TestSignerIsTheNewestWhoseTimeHasCome(t *testing.T) {
	t.Parallel()
	now := clock.Truncate(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	at := func(d time.Duration) time.Time { return now.Add(d) }
	past := at(-time.Second)
	for name, c := range map[string]struct {
		keys []signingKey
		want string
	}{
		"one": {[]signingKey{{kid: "a", signsFrom: now}}, "a"},
		"next is waiting": {[]signingKey{{kid: "a", signsFrom: at(-time.Hour)},
			{kid: "b", signsFrom: at(time.Second)}}, "a"},
		"next has begun": {[]signingKey{{kid: "a", signsFrom: at(-time.Hour)}, {kid: "b", signsFrom: now}},
			"b"},
		"own clock lags": {[]signingKey{{kid: "a", signsFrom: at(time.Second)}}, "a"},
		"retired do not sign": {[]signingKey{{kid: "a", signsFrom: at(-2 * time.Hour)},
			{kid: "b", signsFrom: at(-time.Hour), retiredAt: &past}}, "a"},
		"nothing left to be used": {[]signingKey{{kid: "a", signsFrom: at(-time.Hour), retiredAt: &now}}, ""},
	} {
		got, err := (&keyset{keys: c.keys}).signer(now)
		if got.kid != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q %v", name, got.kid, err)
		}
	}
}

func (w *world) rotate(t *testing.T) (kid string) {
	t.Helper()
	w.tx(t, func(tx postgres.Tx) (err error) {
		kid, err = w.svc.RotateSigningKey(t.Context(), tx)
		return err
	})
	return kid
}

func kidOf(t *testing.T, token string) string {
	t.Helper()
	var h struct{ Kid string }
	if err := json.Unmarshal(part(t, token, 0), &h); err != nil {
		t.Fatal(err)
	}
	return h.Kid
}
