package text

import (
	"net/mail"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxEmail is how long an e-mail address may be, in bytes (RFC 5321 section 4.5.3.1.3, without the brackets).
const MaxEmail = 254

// A host that mail is sent to has a name of the public DNS: the last label of one begins with a letter, of a network
// address with a digit.
var mailHost = regexp.MustCompile(`\.[\p{L}][\p{L}\p{N}-]*\.?$`)

// IsEmail tells whether s is an e-mail address at a domain and nothing more. One at a network address or a host of this
// machine would make us connect to whatever is there.
func IsEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || len(s) > MaxEmail || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return false
	}
	return mailHost.MatchString(s[strings.LastIndexByte(s, '@')+1:])
}
