package oauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jwk"
	"github.com/lestrrat-go/jwx/v2/jws"
	"github.com/lestrrat-go/jwx/v2/jwt"
)

// A resource server that knows only the published keys can verify and read a token.
func TestAccessTokenClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t, "scope", "wallet:read offline_access")
	published, err := w.svc.JWKS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set, err := jwk.Parse(published)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Parse([]byte(got.AccessToken), jwt.WithKeySet(set), jwt.WithIssuer(issuer),
		jwt.WithAudience(issuer+"/api/v1"), jwt.WithClock(jwt.ClockFunc(w.clk.Now)))
	if err != nil {
		t.Fatalf("verify with the published keys: %v", err)
	}
	message, err := jws.Parse([]byte(got.AccessToken))
	if err != nil {
		t.Fatal(err)
	}
	header := message.Signatures()[0].ProtectedHeaders()
	if header.Algorithm() != jwa.ES256 || header.Type() != "at+jwt" || header.KeyID() == "" {
		t.Errorf("header: %v", header)
	}
	now := w.clk.Now()
	if token.Subject() != w.client.ID || !token.IssuedAt().Equal(now) ||
		token.Expiration().Sub(token.IssuedAt()) != 900*time.Second || token.JwtID() == "" {
		t.Errorf("claims: %v", token)
	}
	var raw map[string]any
	if err := json.Unmarshal(part(t, got.AccessToken, 1), &raw); err != nil {
		t.Fatal(err)
	}
	p, err := w.svc.Authenticate(t.Context(), got.AccessToken)
	if err != nil || raw["client_id"] != w.app.ID || raw["scope"] != "wallet:read offline_access" ||
		raw["sid"] != p.GrantID || raw["aud"] != issuer+"/api/v1" {
		t.Errorf("claims: %v, principal %+v %v", raw, p, err)
	}
	want := []string{"aud", "client_id", "exp", "iat", "iss", "jti", "scope", "sid", "sub"}
	for name := range maps.Keys(raw) {
		if !strings.Contains(" "+strings.Join(want, " ")+" ", " "+name+" ") {
			t.Errorf("claim %s is not wanted", name)
		}
	}
	if len(raw) != len(want) {
		t.Errorf("claims: %v", raw)
	}
}

func TestAccessTokenIsValidForFifteenMinutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t)
	w.clk.Advance(AccessTokenLifetime - time.Second)
	if !w.alive(t, got.AccessToken) {
		t.Error("refused after 14:59")
	}
	w.clk.Advance(time.Second)
	if w.alive(t, got.AccessToken) {
		t.Error("accepted after 15:00")
	}
}

// RFC 8725: the token must not choose how it is verified.
func TestForgedTokensAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := w.link(t).AccessToken
	_, key, err := w.svc.keys.signer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	payload := part(t, good, 1)
	der, err := x509.MarshalPKIXPublicKey(&key.private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	ours := map[string]any{"typ": tokenType, "kid": key.kid}
	if !w.alive(t, sign(t, jwa.ES256, key.private, ours, payload)) {
		t.Fatal("the test's own signing does not work")
	}
	with := func(name string, value any) map[string]any {
		h := maps.Clone(ours)
		h[name] = value
		return h
	}
	claim := func(name string, value any) []byte {
		var c map[string]any
		if err := json.Unmarshal(payload, &c); err != nil {
			t.Fatal(err)
		}
		c[name] = value
		out, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	mixed := good
	for !strings.ContainsAny(mixed[strings.LastIndexByte(mixed, '.'):], "-_") { // one signature in 13 has neither
		mixed = sign(t, jwa.ES256, key.private, ours, payload)
	}
	parts := strings.Split(good, ".")
	now := w.clk.Now()
	for name, token := range map[string]string{
		"empty": "", "garbage": "garbage", "two parts": parts[0] + "." + parts[1], "four parts": good + ".x",
		"no signature": parts[0] + "." + parts[1] + ".", "cut signature": good[:len(good)-1], "padded": good + "=",
		"padded fully": good + "==", "standard alphabet": strings.NewReplacer("-", "+", "_", "/").Replace(mixed),
		"trailing space":           good + " ",
		"too long":                 good + strings.Repeat("A", maxTokenBytes),
		"none":                     unsigned(t, "none", payload),
		"NoNe":                     unsigned(t, "NoNe", payload),
		"empty alg":                unsigned(t, "", payload),
		"HS256 with public PEM":    sign(t, jwa.HS256, publicPEM, ours, payload),
		"HS256 with public JWK":    sign(t, jwa.HS256, []byte(key.public), ours, payload),
		"foreign key with our kid": sign(t, jwa.ES256, foreign, ours, payload),
		"foreign key embedded":     sign(t, jwa.ES256, foreign, with("jwk", publicJWK(t, foreign)), payload),
		"foreign key by URL":       sign(t, jwa.ES256, foreign, with("jku", "http://localhost:1/jwks.json"), payload),
		"unknown kid":              sign(t, jwa.ES256, key.private, with("kid", "unknown"), payload),
		"no kid":                   sign(t, jwa.ES256, key.private, map[string]any{"typ": tokenType}, payload),
		"typ JWT":                  sign(t, jwa.ES256, key.private, with("typ", "JWT"), payload),
		"no typ":                   sign(t, jwa.ES256, key.private, map[string]any{"kid": key.kid}, payload),
		"critical extension":       sign(t, jwa.ES256, key.private, with("crit", []string{"exp"}), payload),
		"other issuer":             sign(t, jwa.ES256, key.private, ours, claim("iss", issuer+"/")),
		"other audience":           sign(t, jwa.ES256, key.private, ours, claim("aud", issuer)),
		"list of audiences":        sign(t, jwa.ES256, key.private, ours, claim("aud", []string{issuer + "/api/v1"})),
		"expired":                  sign(t, jwa.ES256, key.private, ours, claim("exp", now.Unix())),
		"no expiry":                sign(t, jwa.ES256, key.private, ours, claim("exp", nil)),
		"from the future": sign(t, jwa.ES256, key.private, ours,
			claim("iat", now.Add(clockSkew+time.Second).Unix())),
		"another client's grant":    sign(t, jwa.ES256, key.private, ours, claim("sub", w.second.ID)),
		"another application's":     sign(t, jwa.ES256, key.private, ours, claim("client_id", w.other.ID)),
		"unknown grant":             sign(t, jwa.ES256, key.private, ours, claim("sid", "ses_test_unknown")),
		"scope that does not exist": sign(t, jwa.ES256, key.private, ours, claim("scope", "admin")),
		"not an object":             sign(t, jwa.ES256, key.private, ours, []byte(`"x"`)),
		"JSON serialization": `{"payload":"` + parts[1] + `","protected":"` + parts[0] +
			`","signature":"` + parts[2] + `"}`,
		"payload of another token": parts[0] + "." + base64.RawURLEncoding.EncodeToString(claim("sub", w.second.ID)) +
			"." + parts[2],
		"identifier with a NUL byte": sign(t, jwa.ES256, foreign, with("kid", "\x00"), payload),
	} {
		if w.alive(t, token) {
			t.Errorf("%s: accepted", name)
		}
	}
	if !w.alive(t, good) {
		t.Error("the real token is refused")
	}
}

func part(t *testing.T, token string, i int) []byte {
	t.Helper()
	out, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[i])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func unsigned(t *testing.T, alg string, payload []byte) string {
	t.Helper()
	header, err := json.Marshal(map[string]any{"alg": alg, "typ": tokenType})
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(payload) + "."
}

func sign(t *testing.T, alg jwa.SignatureAlgorithm, key any, header map[string]any, payload []byte) string {
	t.Helper()
	h := jws.NewHeaders()
	for name, value := range header {
		if err := h.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	out, err := jws.Sign(payload, jws.WithKey(alg, key, jws.WithProtectedHeaders(h)))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func publicJWK(t *testing.T, key *ecdsa.PrivateKey) jwk.Key {
	t.Helper()
	k, err := jwk.FromRaw(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
