package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jws"

	"partnerd/internal/base/id"
	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

const (
	tokenType     = "at+jwt" // RFC 9068
	maxTokenBytes = 4096
	clockSkew     = time.Minute // between replicas, for iat only: expiry is exact
)

// claims are the claims of an access token (decision H12). They contain no name or email address, because applications
// can read them.
type claims struct {
	Issuer        string `json:"iss"`
	ClientID      string `json:"sub"`
	Audience      string `json:"aud"`
	ApplicationID string `json:"client_id"`
	Scope         string `json:"scope"`
	GrantID       string `json:"sid"`
	TokenID       string `json:"jti"`
	IssuedAt      int64  `json:"iat"` // Unix seconds
	ExpiresAt     int64  `json:"exp"` // Unix seconds

	// How far the grant's sandbox clock had been advanced when the token was issued, in microseconds.
	AgedUs int64 `json:"aged,omitempty"`
}

func (s *Service) mint(tx postgres.Tx, key signingKey, g grantRow, scope string) (string, error) {
	payload, err := json.Marshal(claims{
		Issuer: s.cfg.Issuer, ClientID: g.ClientID, Audience: s.cfg.Audience, ApplicationID: g.ApplicationID,
		Scope: scope, GrantID: g.ID, TokenID: tx.NewID("jti"), IssuedAt: tx.Now.Unix(),
		ExpiresAt: tx.Now.Add(AccessTokenLifetime).Unix(), AgedUs: g.AgedUs,
	})
	if err != nil {
		return "", fmt.Errorf("write access token: %w", err)
	}
	header := jws.NewHeaders()
	if err := errors.Join(header.Set(jws.TypeKey, tokenType), header.Set(jws.KeyIDKey, key.kid)); err != nil {
		return "", fmt.Errorf("write access token: %w", err)
	}
	signed, err := jws.Sign(payload, jws.WithKey(algorithm, key.private, jws.WithProtectedHeaders(header)))
	if err != nil {
		return "", fmt.Errorf("sign access token: %w", err)
	}
	return string(signed), nil
}

// claimsOf parses a token from a trusted source, without verifying it. It also returns the ID of the signing key.
func claimsOf(token string) (c claims, kid string, err error) {
	m, err := jws.Parse([]byte(token), jws.WithCompact())
	if err == nil {
		err = json.Unmarshal(m.Payload(), &c)
	}
	if err != nil {
		return claims{}, "", fmt.Errorf("read access token: %w", err)
	}
	return c, m.Signatures()[0].ProtectedHeaders().KeyID(), nil
}

// errToken is returned for every invalid token.
var errToken = errors.New("access token is not valid")

// verify returns the content of an unexpired token that this deployment signed, or errToken. The token's header only
// chooses which of our keys to try. Algorithm and type are fixed, and key material in the header is ignored.
func (s *Service) verify(ctx context.Context, token string, now time.Time) (verifiedToken, error) {
	t, known, err := s.signed(ctx, token)
	if err != nil {
		return verifiedToken{}, err
	}
	issued, expires := time.Unix(t.claims.IssuedAt, 0), time.Unix(t.claims.ExpiresAt, 0)
	if !now.Before(expires) || issued.After(now.Add(clockSkew)) {
		return verifiedToken{}, errToken
	}
	if !known {
		s.verified.put(id.DigestOf(token), t)
	}
	return t, nil
}

// signed is the part of verify that does not depend on the time. known says that the signature was already found valid.
func (s *Service) signed(ctx context.Context, token string) (t verifiedToken, known bool, err error) {
	// the library also accepts the standard base64 alphabet
	if len(token) > maxTokenBytes || strings.ContainsAny(token, "+/=") {
		return verifiedToken{}, false, errToken
	}
	if t, known = s.verified.get(id.DigestOf(token)); !known {
		t, err = s.checkSignature(ctx, token)
		return t, false, err
	}
	if _, published, err := s.keys.find(ctx, t.kid); err != nil || !published {
		return verifiedToken{}, true, cmp.Or(err, errToken)
	}
	return t, true, nil
}

// checkSignature returns the same result as long as the key is published.
func (s *Service) checkSignature(ctx context.Context, token string) (verifiedToken, error) {
	var t verifiedToken
	var failure error // our own, to tell it from the library's
	provider := jws.KeyProviderFunc(func(ctx context.Context, sink jws.KeySink, sig *jws.Signature,
		_ *jws.Message,
	) error {
		h := sig.ProtectedHeaders()
		if h.Algorithm() != algorithm || h.Type() != tokenType || len(h.Critical()) > 0 {
			return errToken
		}
		key, found, err := s.keys.find(ctx, h.KeyID())
		if err != nil {
			failure = err
			return err
		}
		if !found {
			return errToken
		}
		t.kid = key.kid
		sink.Key(jwa.ES256, &key.private.PublicKey)
		return nil
	})
	payload, err := jws.Verify([]byte(token), jws.WithCompact(), jws.WithKeyProvider(provider), jws.WithContext(ctx))
	if failure != nil {
		return verifiedToken{}, failure
	}
	if err != nil || json.Unmarshal(payload, &t.claims) != nil || t.claims.Issuer != s.cfg.Issuer ||
		t.claims.Audience != s.cfg.Audience {
		return verifiedToken{}, errToken
	}
	if t.scopes, err = application.ParseScopes(t.claims.Scope); err != nil {
		return verifiedToken{}, errToken
	}
	return t, nil
}
