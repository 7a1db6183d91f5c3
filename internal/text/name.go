package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsName tells whether s, of 1 to maxLength code points, names somebody or something on one line as it is written: control
// characters would break the line in a mail, and format characters, which nobody sees, would turn the direction of writing or
// make two names look alike. Joiners stay, which scripts of Asia write names with.
func IsName(s string, maxLength int) bool {
	l := utf8.RuneCountInString(s)
	return l > 0 && l <= maxLength && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !InName(r) })
}

// InName tells whether a name may have the character.
func InName(r rune) bool {
	return !unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) && (!unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Join_Control, r))
}
