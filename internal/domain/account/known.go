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

// knownAccounts is how many accounts one browser can be known to, enough for a family.
const knownAccounts = 5

// KnownLifetime is how long an account knows a browser after a sign-in.
const KnownLifetime = 180 * 24 * time.Hour

// knownMarks is the content of the browser's cookie, which is sealed.
type knownMarks struct {
	Browser string      `json:"browser"`
	Clients []knownMark `json:"clients"` // most recent sign-in first
}

// knownMark records that a client signed in. It is void once the client's epoch differs.
type knownMark struct {
	ClientID string    `json:"client"`
	Epoch    int       `json:"epoch"`
	At       time.Time `json:"at"`
}

// KnownBrowser returns the cookie value for a browser in which the client has signed in; before is its previous cookie.
// The mark lasts for [KnownLifetime], but no longer than until the password changes or the client is disabled. Sign-in
// attempts from a known browser are counted separately, so strangers who guess passwords cannot lock out the owner. The
// client is not notified about a sign-in from a known browser.
func (s *Service) KnownBrowser(tx postgres.Tx, c Client, before string) (string, error) {
	earlier := s.marks(before)
	marks := knownMarks{Browser: earlier.Browser, Clients: []knownMark{{c.ID, c.browserEpoch, tx.Now}}}
	if marks.Browser == "" { // an existing name stays, so guesses at other accounts still count
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

// Knows reports whether the browser with this cookie has already signed in to the account with this address. It also
// returns the browser's name.
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

// marks returns no marks if the cookie is not ours.
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
