package oauth

import (
	"net/url"
	"strings"
	"testing"
)

// RFC 7636 appendix B.
func TestVerifierOfTheRFCFitsItsChallenge(t *testing.T) {
	t.Parallel()
	const challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	if challengeOf(verifier) != challenge || !challengeSyntax.MatchString(challenge) ||
		!verifierFits(challenge, verifier) {
		t.Error("the RFC's own example is refused")
	}
	for _, v := range []string{
		"", verifier[:42], verifier[1:] + "x", verifier + "\n", challenge, strings.Repeat("é", 43),
	} {
		if verifierFits(challenge, v) {
			t.Errorf("%q fits", v)
		}
	}
}

func TestAnswerLeavesTheRedirectURIAlone(t *testing.T) {
	t.Parallel()
	answer := url.Values{"state": {"a b+c/é%20&x=1\x00\xff"}, "code": {"c"}}
	for _, uri := range []string{
		"https://a.example", "https://a.example/", "https://a.example/?", "https://a.example/x?b=%7E&a=2",
		"https://a.example/?a&", "https://a.example/a%2Fb?redirect=https://x.example/?y",
	} {
		got := addQuery(uri, answer)
		if !strings.HasPrefix(got, uri) {
			t.Errorf("%s became %s", uri, got)
		}
		u, err := url.Parse(got)
		if err != nil {
			t.Fatal(err)
		}
		if q := u.Query(); q.Get("state") != answer.Get("state") || q.Get("code") != "c" {
			t.Errorf("%s: %v", got, q)
		}
		raw, err := url.PathUnescape(got[strings.Index(got, "state=")+len("state="):])
		if err != nil || raw != answer.Get("state") {
			t.Errorf("percent-decoding gives %q", raw)
		}
	}
}

func TestMetadataIsCompleteForStockClients(t *testing.T) {
	t.Parallel()
	m := (&Service{cfg: Config{Issuer: issuer}}).Metadata()
	for _, name := range []string{
		"issuer", "authorization_endpoint", "token_endpoint", "revocation_endpoint", "jwks_uri", "scopes_supported",
		"response_types_supported", "response_modes_supported", "grant_types_supported",
		"token_endpoint_auth_methods_supported", "revocation_endpoint_auth_methods_supported",
		"code_challenge_methods_supported", "authorization_response_iss_parameter_supported",
	} {
		if m[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	if m["issuer"] != issuer || m["token_endpoint"] != issuer+"/api/oauth/token" ||
		m["authorization_response_iss_parameter_supported"] != true {
		t.Errorf("metadata: %v", m)
	}
}
