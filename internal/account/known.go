package account

import (
	"encoding/base64"
	"strings"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
)

const knownPlace = "browser.known"

// KnownBrowser returns a value for a cookie of a browser in which the client has signed in. Tries to sign in from there
// are counted apart, so that strangers who guess at the account cannot keep its owner out.
func (s *Service) KnownBrowser(tx postgres.Tx, c Client) (string, error) {
	sealed, err := s.box.Seal(knownPlace, []byte(emailDigest(c.Email)+" "+tx.NewSecret("bro")))
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// Knows tells whether a browser with that cookie has signed in to the account of the address before, and its name.
func (s *Service) Knows(cookie, email string) (browser string, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || len(sealed) == 0 {
		return "", false
	}
	plain, err := s.box.Open(knownPlace, sealed)
	if err != nil {
		return "", false
	}
	digest, browser, ok := strings.Cut(string(plain), " ")
	return browser, ok && digest == emailDigest(email)
}

func emailDigest(email string) string {
	return id.DigestOf(strings.ToLower(strings.TrimSpace(email))).String()
}
