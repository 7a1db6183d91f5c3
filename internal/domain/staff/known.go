package staff

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/text"
	"partnerd/internal/infra/postgres"
)

// KnownLifetime is how long a browser stays known after a person has signed in from it.
const KnownLifetime = 180 * 24 * time.Hour

const knownPlace = "staff.known"

// knownMark is stored in the browser, encrypted. For passwords it stops counting once the person changes the password.
type knownMark struct {
	Browser  string    `json:"browser"`
	StaffID  string    `json:"staff"`
	Password id.Digest `json:"password"` // digest of the password hash
	At       time.Time `json:"at"`
}

// KnownBrowser returns a cookie value for a browser in which the person has signed in. For [KnownLifetime], attempts
// from that browser are counted separately, so that strangers who guess passwords cannot lock the person out.
func (s *Service) KnownBrowser(ctx context.Context, tx postgres.Tx, staffID string) (string, error) {
	r, err := personByID(ctx, tx, staffID)
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal(knownMark{tx.NewSecret("bro"), r.ID, id.DigestOf(r.PasswordHash), tx.Now})
	if err != nil {
		return "", fmt.Errorf("write the mark of a browser: %w", err)
	}
	sealed, err := s.deps.Box.Seal(knownPlace, plain)
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

// Knows reports whether the person with that address has signed in from the browser with that cookie. It also returns
// the ID of the browser.
func (s *Service) Knows(ctx context.Context, tx postgres.Tx,
	cookie, email string,
) (browser string, ok bool, err error) {
	m, ok := s.markIn(cookie, tx.Now)
	if email = strings.TrimSpace(email); !ok || !text.IsEmail(email) {
		return "", false, nil
	}
	r, err := personByEmail(ctx, tx, email)
	if errors.Is(err, ErrNotFound) {
		return "", false, nil
	}
	return m.Browser, err == nil && m.StaffID == r.ID && m.Password == id.DigestOf(r.PasswordHash), err
}

// KnowsPerson is [Service.Knows] for someone who has entered the password. The browser stays known after the password
// has been replaced.
func (s *Service) KnowsPerson(tx postgres.Tx, cookie, staffID string) (browser string, ok bool) {
	m, ok := s.markIn(cookie, tx.Now)
	return m.Browser, ok && m.StaffID == staffID
}

// markIn reads the mark in a cookie. ok is false if the cookie is not ours or is too old.
func (s *Service) markIn(cookie string, now time.Time) (m knownMark, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || len(sealed) == 0 {
		return m, false
	}
	plain, err := s.deps.Box.Open(knownPlace, sealed)
	if err != nil || json.Unmarshal(plain, &m) != nil {
		return knownMark{}, false
	}
	return m, now.Sub(m.At) < KnownLifetime
}
