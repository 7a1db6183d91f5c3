package account

import (
	"encoding/base64"
	"slices"
	"strings"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
)

const knownPlace = "browser.known"

// knownAccounts is how many accounts one browser is known to: a family's.
const knownAccounts = 5

// KnownBrowser returns a value for a cookie of a browser in which the client has signed in; before is the cookie that it
// had, and former the address that the client gave up just now, empty for none: it may be somebody else's from now on.
// Tries to sign in from there are counted apart, so that strangers who guess at the account cannot keep its owner out, and
// a sign-in from there is no news to the client.
func (s *Service) KnownBrowser(tx postgres.Tx, c Client, before, former string) (string, error) {
	accounts := []string{emailDigest(c.Email)}
	earlier, name := s.knownTo(before)
	if name == "" { // it keeps its name: a sign-in to one account forgives no guesses at another
		name = tx.NewSecret("bro")
	}
	for _, a := range earlier {
		if a != accounts[0] && a != emailDigest(former) && len(accounts) < knownAccounts {
			accounts = append(accounts, a)
		}
	}
	sealed, err := s.box.Seal(knownPlace, []byte(strings.Join(accounts, ",")+" "+name))
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// Knows tells whether a browser with that cookie has signed in to the account of the address before, and its name.
func (s *Service) Knows(cookie, email string) (browser string, ok bool) {
	accounts, browser := s.knownTo(cookie)
	return browser, slices.Contains(accounts, emailDigest(email))
}

// knownTo returns the digests of the accounts that a cookie names, and the browser's name; nothing for a cookie that is
// not ours.
func (s *Service) knownTo(cookie string) (accounts []string, browser string) {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || len(sealed) == 0 {
		return nil, ""
	}
	plain, err := s.box.Open(knownPlace, sealed)
	if err != nil {
		return nil, ""
	}
	list, browser, _ := strings.Cut(string(plain), " ")
	return strings.Split(list, ","), browser
}

func emailDigest(email string) string {
	return id.DigestOf(strings.ToLower(strings.TrimSpace(email))).String()
}
