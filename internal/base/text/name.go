package text

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// IsName reports whether s, of 1 to maxLength code points, is a name that reads on one line as it is written. Control
// characters would break the line in an email. Invisible format characters would reverse the writing direction or make
// two names look alike. Joiners are allowed, because Asian scripts need them in names.
func IsName(s string, maxLength int) bool {
	l := utf8.RuneCountInString(s)
	return l > 0 && l <= maxLength && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return !InName(r) })
}

// InName reports whether a name may contain the character.
func InName(r rune) bool {
	return !unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) &&
		(!unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Join_Control, r))
}

// address matches what mail programs turn into a link, except for an at sign: two slashes, a host name or an IPv4
// address. In a person's name a dot may only be followed by a space or by a single letter, as in "J.R.R. Tolkien".
var address = regexp.MustCompile(`//|[\pL\pN\pM][.。]\pL[\pL\pM\pN-]+|\d\.\d+\.\d+\.\d`)

// Leads reports whether a name contains a web address, an email address or an at sign. It also recognises characters
// that browsers treat as a dot, a slash or an at sign, and ignores invisible characters.
func Leads(name string) bool {
	name = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Join_Control, unicode.Variation_Selector) {
			return -1
		}
		return r
	}, norm.NFKC.String(name))
	return strings.Contains(name, "@") || address.MatchString(name)
}

// SameName reports whether two names read alike: without their case, accents, spaces, punctuation, symbols and letters
// that only modify others.
func SameName(a, b string) bool {
	read := func(name string) string {
		return strings.ToLower(strings.Map(func(r rune) rune {
			if unicode.IsLetter(r) || unicode.IsNumber(r) {
				return r
			}
			return -1
		}, norm.NFKD.String(strings.Map(func(r rune) rune {
			if unicode.In(r, unicode.S, unicode.Lm) { // a trade mark would be decomposed into letters
				return -1
			}
			return r
		}, name))))
	}
	return read(a) == read(b)
}

// MaxMailed is the maximum length of a name in an email, in characters.
const MaxMailed = 100

// Mailed returns a stored name if an email to another person may contain it, or else other. Names chosen before the
// current rules may violate them.
func Mailed(name, other string) string {
	if !IsName(name, MaxMailed) || Leads(name) {
		return other
	}
	return name
}
