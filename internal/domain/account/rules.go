package account

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // makes zones the same on every machine
	"unicode/utf8"

	"github.com/nyaruka/phonenumbers"
	"golang.org/x/text/unicode/norm"

	"partnerd/internal/base/password"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/text"
)

const defaultRegion = "FR"

// Check returns [ErrInvalid] with everything that is wrong with a new client.
func Check(n NewClient) error {
	_, err := checked(n)
	return err
}

// checked returns n with every field in its stored form.
func checked(n NewClient) (NewClient, error) {
	if n.Phone == "" && n.PhoneVerified {
		return n, fmt.Errorf("%w: a verified phone needs a number", ErrInvalid)
	}
	n.Name = norm.NFC.String(strings.TrimSpace(n.Name))
	issues := problem.Name("name", n.Name, maxNameLength)
	var email, phone, zone error
	n.Email, email = normalEmail(n.Email)
	if n.Phone != "" {
		n.Phone, phone = e164(n.Phone)
	}
	if n.TimeZone != "" {
		_, zone = zoneOf(n.TimeZone)
	}
	for _, err := range []error{email, checkPassword(n.Password), phone, zone} {
		issues = append(issues, problem.IssuesOf(err)...)
	}
	if issues != nil {
		return n, problem.Refuse(ErrInvalid, issues...)
	}
	return n, nil
}

var rulePassword = problem.DeclareRule("password.long", problem.IssueInvalidValue,
	"A password must have %d to %d characters.")

func checkPassword(plain string) error {
	if l := utf8.RuneCountInString(plain); l < password.OfClients.Length || l > password.MaxLength {
		return problem.Refuse(ErrInvalid, rulePassword.At("password", password.OfClients.Length, password.MaxLength))
	}
	return nil
}

func normalEmail(s string) (string, error) {
	s = strings.TrimSpace(s)
	if !text.IsEmail(s) {
		return "", problem.Refuse(ErrInvalid, problem.Address("email", s))
	}
	return s, nil
}

// E164 converts a phone number to international form, or returns [ErrInvalid].
func E164(s string) (string, error) { return e164(s) }

// e164 accepts any possible number. Verification proves that it is the client's, and numbering plans change. It rejects
// numbers that can cost the caller too much: premium-rate and personal numbers, and those of no country (satellites,
// international networks).
func e164(s string) (string, error) {
	n, err := phonenumbers.Parse(s, defaultRegion)
	if err != nil || !phonenumbers.IsPossibleNumber(n) {
		return "", problem.Refuse(ErrInvalid, problem.RulePhone.At("phone"))
	}
	switch phonenumbers.GetNumberType(n) {
	case phonenumbers.PREMIUM_RATE, phonenumbers.SHARED_COST, phonenumbers.PERSONAL_NUMBER:
		return "", problem.Refuse(ErrInvalid, problem.RuleUncharged.At("phone"))
	}
	if regionOf(n) == phonenumbers.REGION_CODE_FOR_NON_GEO_ENTITY {
		return "", problem.Refuse(ErrInvalid, problem.RuleUncharged.At("phone"))
	}
	return phonenumbers.Format(n, phonenumbers.E164), nil
}

// regionOf returns the country of a number. For an unassigned number it is the main country of the calling code.
func regionOf(n *phonenumbers.PhoneNumber) string {
	if region := phonenumbers.GetRegionCodeForNumber(n); region != "" {
		return region
	}
	return phonenumbers.GetRegionCodeForCountryCode(int(n.GetCountryCode()))
}

// CheckCountries returns an error that names the first code that is not a country.
func CheckCountries(codes []string) error {
	for _, code := range codes {
		if !phonenumbers.GetSupportedRegions()[code] {
			return fmt.Errorf("%.20q is not a country code like FR", code)
		}
	}
	return nil
}

// zoneOf returns an IANA time zone. It rejects Local and the empty name, whose meaning depends on the machine.
func zoneOf(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, problem.Refuse(ErrInvalid, problem.RuleZone.At("timeZone", problem.Shown(name)))
	}
	return zone, nil
}

// storable reports whether Postgres accepts s as text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
