package text

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// IsName tells whether s, of 1 to maxLength code points, names somebody or something on one line as it is written:
// control characters would break the line in a mail, and format characters, which nobody sees, would turn the direction
// of writing or make two names look alike. Joiners stay, which scripts of Asia write names with.
func IsName(s string, maxLength int) bool {
	l := utf8.RuneCountInString(s)
	return l > 0 && l <= maxLength && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return !InName(r) })
}

// InName tells whether a name may have the character.
func InName(r rune) bool {
	return !unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) &&
		(!unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Join_Control, r))
}

// address is what mail programs make a link of, besides what has an at sign: two slashes, a host name or an IPv4
// address. Only a dot with a space or a single letter behind it stands in a person's name, as in "J.R.R. Tolkien".
var address = regexp.MustCompile(`//|[\pL\pN\pM][.。]\pL[\pL\pM\pN-]+|\d\.\d+\.\d+\.\d`)

// Leads reports whether a name holds a web address, an email address or an at sign. Characters that browsers take for a
// dot, a slash or an at sign count as these, and what nobody sees hides none.
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
			if unicode.In(r, unicode.S, unicode.Lm) { // a trade mark would come apart into letters
				return -1
			}
			return r
		}, name))))
	}
	return read(a) == read(b)
}

// MaxMailed is how many characters a name has at most that a mail names.
const MaxMailed = 100

// Mailed returns a stored name as a mail may name it to somebody else, or the other text in its place: names that were
// given before the rules of today may break them.
func Mailed(name, other string) string {
	if !IsName(name, MaxMailed) || Leads(name) {
		return other
	}
	return name
}
