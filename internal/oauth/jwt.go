package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jws"

	"partnerd/internal/postgres"
)

const (
	tokenType     = "at+jwt" // RFC 9068
	maxTokenBytes = 4096
	clockSkew     = time.Minute // between replicas, for iat only: expiry is exact
)

// claims of an access token (decision H12). No name, no e-mail address: applications can read them.
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
}

func (s *Service) mint(tx postgres.Tx, key signingKey, g grantRow, scope string) (string, error) {
	payload, err := json.Marshal(claims{
		Issuer: s.cfg.Issuer, ClientID: g.ClientID, Audience: s.cfg.Audience, ApplicationID: g.ApplicationID, Scope: scope,
		GrantID: g.ID, TokenID: tx.NewID("jti"), IssuedAt: tx.Now.Unix(), ExpiresAt: tx.Now.Add(AccessTokenLifetime).Unix(),
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

// errToken is every way in which a token can be wrong.
var errToken = errors.New("access token is not valid")

// verify returns the claims of a token that this deployment signed and that has not expired, or errToken. The token's
// own header chooses nothing but which of our keys to try: algorithm and type are ours, and key material in the header
// is not looked at.
func (s *Service) verify(ctx context.Context, token string, now time.Time) (claims, error) {
	var c claims
	if len(token) > maxTokenBytes {
		return c, errToken
	}
	var failure error // ours, to tell it from the library's
	provider := jws.KeyProviderFunc(func(ctx context.Context, sink jws.KeySink, sig *jws.Signature, _ *jws.Message) error {
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
		sink.Key(jwa.ES256, &key.private.PublicKey)
		return nil
	})
	payload, err := jws.Verify([]byte(token), jws.WithCompact(), jws.WithKeyProvider(provider), jws.WithContext(ctx))
	if failure != nil {
		return c, failure
	}
	if err != nil || json.Unmarshal(payload, &c) != nil {
		return claims{}, errToken
	}
	issued, expires := time.Unix(c.IssuedAt, 0), time.Unix(c.ExpiresAt, 0)
	if c.Issuer != s.cfg.Issuer || c.Audience != s.cfg.Audience || !now.Before(expires) || issued.After(now.Add(clockSkew)) {
		return claims{}, errToken
	}
	return c, nil
}
