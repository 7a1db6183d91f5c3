package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jwk"
	"github.com/lestrrat-go/jwx/v2/jws"

	"partnerd/cmd/democrm/crm"
	"partnerd/internal/base/seal"
)

// signingKey decrypts the key with which the world signs access tokens.
func (w *world) signingKey(t testing.TB) (kid string, key *ecdsa.PrivateKey) {
	t.Helper()
	var sealed []byte
	err := w.DB.Pool().QueryRow(t.Context(),
		"SELECT kid, private_sealed FROM signing_keys ORDER BY signs_from LIMIT 1").Scan(&kid, &sealed)
	w.must(t, err)
	master, err := os.ReadFile(filepath.Join(w.Config.DataDir, "keys", "master.key"))
	w.must(t, err)
	box, err := seal.OpenBox(string(master))
	w.must(t, err)
	plain, err := box.Open("signing_key:"+kid, sealed)
	w.must(t, err)
	parsed, err := jwk.ParseKey(plain)
	w.must(t, err)
	w.must(t, parsed.Raw(&key))
	return kid, key
}

func sign(t testing.TB, alg jwa.SignatureAlgorithm, key any, header, claims object) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	h := jws.NewHeaders()
	for name, v := range header {
		if err := h.Set(name, v); err != nil {
			t.Fatal(err)
		}
	}
	out, err := jws.Sign(payload, jws.WithKey(alg, key, jws.WithProtectedHeaders(h)))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func claimsOf(t testing.TB, token string) (c object) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil || json.Unmarshal(raw, &c) != nil {
		t.Fatalf("not a JWT: %v", err)
	}
	return c
}

func with(claims object, name string, value any) object {
	c := maps.Clone(claims)
	c[name] = value
	return c
}

// forgeries are Authorization headers that must not grant access (R59, R109, R116). They are missing, of another
// scheme, garbage, or tokens that differ from a valid one in one point. Most of these tokens are signed with the real
// key.
func forgeries(t testing.TB, w *world, s *session) map[string][]string {
	t.Helper()
	good := s.token.AccessToken
	kid, key := w.signingKey(t)
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	claims, header := claimsOf(t, good), object{"typ": "at+jwt", "kid": kid}
	es := func(h, c object) string { return "Bearer " + sign(t, jwa.ES256, key, h, c) }
	if r := w.send(t, http.MethodGet, "/api/v1/me", nil,
		"Authorization", es(header, claims)); r.Status != http.StatusOK {
		t.Fatalf("the test's own signing does not work: %s", r)
	}
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"at+jwt"}`))
	now := w.DB.Clock().Now().Unix()
	public, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]string{
		"missing":          {},
		"empty":            {""},
		"only the scheme":  {"Bearer"},
		"scheme and space": {"Bearer "},
		"Basic": {
			"Basic " + base64.StdEncoding.EncodeToString([]byte(s.partner.ClientID+":"+s.partner.ClientSecret)),
		},
		"bare token":               {good},
		"garbage":                  {"Bearer garbage"},
		"garbage of three parts":   {"Bearer a.b.c"},
		"refresh token":            {"Bearer " + s.token.RefreshToken},
		"twice":                    {"Bearer " + good, "Bearer " + good},
		"two tokens":               {"Bearer " + good + " " + good},
		"64 KB":                    {"Bearer " + strings.Repeat("a", 20<<10)},
		"cut signature":            {"Bearer " + good[:len(good)-4]},
		"signature of another":     {"Bearer " + parts[0] + "." + parts[1] + "." + strings.Repeat("A", 86)},
		"alg none":                 {"Bearer " + none + "." + parts[1] + "."},
		"alg none with signature":  {"Bearer " + none + "." + parts[1] + "." + parts[2]},
		"HS256 with public values": {"Bearer " + sign(t, jwa.HS256, public, header, claims)},
		"key of somebody else":     {"Bearer " + sign(t, jwa.ES256, foreign, header, claims)},
		"key given in the header": {"Bearer " + sign(t, jwa.ES256, foreign,
			with(header, "jku", w.base+"/.well-known/jwks.json"), claims)},
		"unknown kid":          {es(with(header, "kid", "other"), claims)},
		"no typ":               {es(object{"kid": kid}, claims)},
		"typ JWT":              {es(with(header, "typ", "JWT"), claims)},
		"expired":              {es(header, with(claims, "exp", now-1))},
		"issued in the future": {es(header, with(claims, "iat", now+3600))},
		"other issuer":         {es(header, with(claims, "iss", "https://issuer.example"))},
		"other audience":       {es(header, with(claims, "aud", w.base))},
		"other application":    {es(header, with(claims, "client_id", "app_test_other"))},
		"other client":         {es(header, with(claims, "sub", "cli_test_other"))},
		"no session":           {es(header, with(claims, "sid", "ses_test_other"))},
		"unknown scope":        {es(header, with(claims, "scope", "everything"))},
	}
}

// R59, R109, R116, R142, T20: without a valid token every operation responds with 401, whatever else the request
// contains.
func TestEveryOperationNeedsAGoodToken(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	bad := forgeries(t, k.world, k.s)
	k.unchanged(t, func() {
		for _, op := range spec.api() {
			for what, values := range bad {
				var header []string
				for _, v := range values {
					header = append(header, "Authorization", v)
				}
				r := k.valid(op).raw(t, k.world, header...)
				r.is(t, op.id+" with "+what, http.StatusUnauthorized, "UNAUTHORIZED")
				if !strings.HasPrefix(r.Header.Get("WWW-Authenticate"), "Bearer") {
					t.Errorf("%s with %s: WWW-Authenticate %q", op.id, what, r.Header.Get("WWW-Authenticate"))
				}
			}
		}
	})
	if r := k.valid(spec.operation("getProfile")).raw(t, k.world, "Authorization",
		"bearer  "+k.s.token.AccessToken); r.Status != http.StatusOK {
		t.Errorf("the scheme's name is not case-sensitive, and spaces may follow it (RFC 9110): %s", r)
	}
	if challenge := k.valid(spec.operation("getProfile")).
		raw(t, k.world).Header.Get("WWW-Authenticate"); challenge != `Bearer realm="partnerd"` {
		t.Errorf("the challenge without a token is %s", challenge)
	}
}

// R82–R98, R117, R119, R54, T7, T27: each scope permits its own operations and no others.
func TestEveryScopeOpensItsOperationsOnly(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	for _, scope := range crm.AllScopes {
		only := k.link(t, k.a, k.c1, scope)
		others := k.link(t, k.a, k.c1,
			slices.DeleteFunc(slices.Clone(crm.AllScopes), func(s string) bool { return s == scope })...)
		for _, op := range spec.api() {
			switch needs := len(op.scopes) > 0 && op.scopes[0] == scope; {
			case len(op.scopes) > 1:
				t.Fatalf("%s needs more than one scope: this test does not know how to take one away", op.id)
			case needs || len(op.scopes) == 0:
				if r := k.valid(op).as(t, only); !ok(op, r) {
					t.Errorf("%s with only %s: %s", op.id, scope, r)
				}
			default:
				r := k.valid(op).as(t, only)
				r.is(t, op.id+" with only "+scope, http.StatusForbidden, "INSUFFICIENT_SCOPE")
				if !strings.Contains(r.Header.Get("WWW-Authenticate"),
					`error="insufficient_scope", scope="`+op.scopes[0]+`"`) {
					t.Errorf("%s: WWW-Authenticate %q", op.id, r.Header.Get("WWW-Authenticate"))
				}
			}
			if slices.Contains(op.scopes, scope) {
				k.unchanged(t, func() {
					k.valid(op).as(t, others).is(t, op.id+" with everything but "+scope, http.StatusForbidden,
						"INSUFFICIENT_SCOPE")
				})
			}
		}
	}
}

// R7, R47, R96, R97, R98, T7, H47: three kinds of ID get byte-identical responses. They belong to another application
// or client, do not exist, or cannot be IDs.
func TestForeignAndMissingLookTheSame(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	strangers := map[string]*session{
		"another client": k.link(t, k.a, k.c2), "another application": k.link(t, k.b, k.c1),
		"another of both": k.link(t, k.b, k.c2),
	}
	malformed := []string{
		"con_test_00000000000000000000000000", "x", "con_%00", "%F0%9F%98%80", "%FF%FE",
		strings.Repeat("a", 65), strings.Repeat("a", 5000), "..", "%2e%2e", "con_%20", "%27%20OR%20%271%27=%271",
		strings.ToUpper(k.done), k.done + "x", k.done[:len(k.done)-1], "con_%0d%0aX-Evil:1",
		k.a.ClientID, k.c1.ID, "*", "{id}",
	}
	for _, op := range spec.api() {
		if op.parameter("path", "id") == nil {
			continue
		}
		missing := k.valid(op)
		missing.id = malformed[0]
		want := missing.as(t, k.s)
		want.is(t, op.id+" of a missing id", http.StatusNotFound, "NOT_FOUND")
		same := func(what string, r *reply) {
			t.Helper()
			if r.Status != want.Status || string(r.Body) != string(want.Body) ||
				!slices.Equal(names(r.Header), names(want.Header)) {
				t.Errorf("%s of %s: %s, want %s", op.id, what, r, want)
			}
		}
		k.unchanged(t, func() {
			for _, id := range malformed {
				c := k.valid(op)
				c.id = id
				same(id, c.as(t, k.s))
			}
			for who, stranger := range strangers {
				for _, id := range []string{k.open, k.done} {
					c := k.valid(op)
					c.id = id
					same(who, c.as(t, stranger))
				}
			}
		})
	}
}

func names(h http.Header) []string { return slices.Sorted(maps.Keys(h)) }

// R8, R79, R114, R116, T14, T16, H13: a token stops working immediately when its session, application or client has
// ended.
func TestEndedSessionsOpenNothing(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	ends := map[string]func(s *session){
		"revoked by the application": func(s *session) {
			s.revoke(t, s.token.RefreshToken).is(t, "revoke", http.StatusOK, "")
		},
		"revoked by its access token": func(s *session) {
			s.revoke(t, s.token.AccessToken).is(t, "revoke", http.StatusOK, "")
		},
		"disconnected on the account page": func(s *session) { s.disconnect(t) },
		"suspended application": func(s *session) {
			k.exec(t, "UPDATE applications SET suspended_at = now() WHERE id = $1", s.partner.ClientID)
		},
		"disabled client": func(s *session) {
			k.exec(t, "UPDATE clients SET disabled_at = now() WHERE id = $1", s.person.ID)
		},
		"expired": func(s *session) {
			kid, key := k.signingKey(t)
			claims := claimsOf(t, s.token.AccessToken)
			s.token.AccessToken = sign(t, jwa.ES256, key, object{"typ": "at+jwt", "kid": kid},
				with(claims, "exp", k.DB.Clock().Now().Add(-time.Second).Unix()))
		},
	}
	for what, end := range ends {
		p := k.partner(t, "CRM that is "+what)
		s := k.link(t, p, k.client(t, strings.ReplaceAll(what, " ", "-"), true, 10_000))
		c := s.create(t)
		end(s)
		for _, op := range spec.api() {
			request := k.valid(op)
			request.id = c.ID
			request.as(t, s).is(t, op.id+", "+what, http.StatusUnauthorized, "UNAUTHORIZED")
		}
	}
}

// deriveFromMaster derives a key of the world as the program does.
func deriveFromMaster(t testing.TB, w *world, purpose string) string {
	t.Helper()
	master, err := os.ReadFile(filepath.Join(w.Config.DataDir, "keys", "master.key"))
	w.must(t, err)
	key, err := seal.Derive(string(master), purpose)
	w.must(t, err)
	return base64.RawURLEncoding.EncodeToString(key)
}
