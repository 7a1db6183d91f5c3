package account

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"partnerd/internal/base/text"
	"partnerd/internal/infra/postgres"
)

const knownPlace = "browser.known"

// knownAccounts is how many accounts one browser is known to: a family's.
const knownAccounts = 5

// KnownLifetime is how long after a sign-in an account knows the browser.
const KnownLifetime = 180 * 24 * time.Hour

// knownMarks is what a browser keeps, sealed.
type knownMarks struct {
	Browser string      `json:"browser"`
	Clients []knownMark `json:"clients"` // the latest sign-in first
}

// knownMark says that a client signed in. It counts no more when the client has another epoch.
type knownMark struct {
	ClientID string    `json:"client"`
	Epoch    int       `json:"epoch"`
	At       time.Time `json:"at"`
}

// KnownBrowser returns a value for a cookie of a browser in which the client has signed in; before is the cookie that
// it had. For [KnownLifetime], and until the password is another one or the client is disabled, tries to sign in from
// there are counted apart, so that strangers who guess at the account cannot keep its owner out, and a sign-in from
// there is no news to the client.
func (s *Service) KnownBrowser(tx postgres.Tx, c Client, before string) (string, error) {
	earlier := s.marks(before)
	marks := knownMarks{Browser: earlier.Browser, Clients: []knownMark{{c.ID, c.browserEpoch, tx.Now}}}
	if marks.Browser == "" { // it keeps its name: a sign-in to one account forgives no guesses at another
		marks.Browser = tx.NewSecret("bro")
	}
	for _, m := range earlier.Clients {
		if m.ClientID != c.ID && len(marks.Clients) < knownAccounts {
			marks.Clients = append(marks.Clients, m)
		}
	}
	plain, err := json.Marshal(marks)
	if err != nil {
		return "", fmt.Errorf("write the mark of a browser: %w", err)
	}
	sealed, err := s.box.Seal(knownPlace, plain)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// Knows tells whether a browser with that cookie has signed in to the account of the address before, and its name.
func (s *Service) Knows(ctx context.Context, tx postgres.Tx,
	cookie, email string,
) (browser string, ok bool, err error) {
	marks := s.marks(cookie)
	email = strings.TrimSpace(email)
	if len(marks.Clients) == 0 || !storable(email) || len(email) > text.MaxEmail {
		return "", false, nil
	}
	row, found, err := clientByEmail(ctx, tx, email)
	if err != nil || !found {
		return "", false, err
	}
	return marks.Browser, slices.ContainsFunc(marks.Clients, func(m knownMark) bool {
		return m.ClientID == row.ID && m.Epoch == row.BrowserEpoch && tx.Now.Sub(m.At) < KnownLifetime
	}), nil
}

// marks are none for a cookie that is not ours.
func (s *Service) marks(cookie string) (m knownMarks) {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || len(sealed) == 0 {
		return knownMarks{}
	}
	plain, err := s.box.Open(knownPlace, sealed)
	if err != nil || json.Unmarshal(plain, &m) != nil {
		return knownMarks{}
	}
	return m
}
