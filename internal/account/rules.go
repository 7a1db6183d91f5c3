package account

import (
	"fmt"
	"net/mail"
	"strings"
	"time"
	_ "time/tzdata" // the zones are the same on every machine
	"unicode/utf8"

	"github.com/nyaruka/phonenumbers"
	"golang.org/x/text/unicode/norm"
)

const defaultRegion = "FR"

// checked returns n with every field in the form in which it is stored.
func checked(n NewClient) (NewClient, error) {
	var err error
	if n.Email, err = normalEmail(n.Email); err != nil {
		return n, err
	}
	n.Name = norm.NFC.String(strings.TrimSpace(n.Name))
	if l := utf8.RuneCountInString(n.Name); l == 0 || l > maxNameLength || !storable(n.Name) {
		return n, fmt.Errorf("%w: the name must have 1 to %d characters", ErrInvalid, maxNameLength)
	}
	if err := checkPassword(n.Password); err != nil {
		return n, err
	}
	if n.Phone == "" {
		if n.PhoneVerified {
			return n, fmt.Errorf("%w: a verified phone needs a number", ErrInvalid)
		}
		return n, nil
	}
	n.Phone, err = e164(n.Phone)
	return n, err
}

func checkPassword(plain string) error {
	if l := utf8.RuneCountInString(plain); l < MinPasswordLength || l > maxPasswordLength {
		return fmt.Errorf("%w: the password must have %d to %d characters", ErrInvalid, MinPasswordLength, maxPasswordLength)
	}
	return nil
}

func normalEmail(s string) (string, error) {
	s = strings.TrimSpace(s)
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || len(s) > maxEmailLength || !storable(s) {
		return "", fmt.Errorf("%w: %.80q is not an e-mail address", ErrInvalid, s)
	}
	return s, nil
}

// E164 brings a phone number to its international form, or returns [ErrInvalid].
func E164(s string) (string, error) { return e164(s) }

// e164 asks only that a number can exist: the proof that it is the client's is the verification, and number plans
// change. Premium-rate numbers are refused because we would pay for calling them.
func e164(s string) (string, error) {
	n, err := phonenumbers.Parse(s, defaultRegion)
	if err != nil || !phonenumbers.IsPossibleNumber(n) {
		return "", fmt.Errorf("%w: the phone number cannot be called", ErrInvalid)
	}
	if t := phonenumbers.GetNumberType(n); t == phonenumbers.PREMIUM_RATE || t == phonenumbers.SHARED_COST {
		return "", fmt.Errorf("%w: premium-rate phone numbers cannot be used", ErrInvalid)
	}
	return phonenumbers.Format(n, phonenumbers.E164), nil
}

// zoneOf returns a time zone of the IANA database. Local and the empty name are none: what they mean depends on the machine.
func zoneOf(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("%w: a time zone has a name like Europe/Paris", ErrInvalid)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %.80q is not a time zone", ErrInvalid, name)
	}
	return zone, nil
}

// storable tells whether Postgres takes s as text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
