package text

import (
	"net/mail"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxEmail is the maximum length of an email address, in bytes (RFC 5321 section 4.5.3.1.3, without the brackets).
const MaxEmail = 254

// mailHost matches a host name of the public DNS: its last label begins with a letter, that of an IP address with a
// digit.
var mailHost = regexp.MustCompile(`\.[\p{L}][\p{L}\p{N}-]*\.?$`)

// IsEmail reports whether s is exactly an email address at a domain. An address at an IP address or a local host name
// would make us connect to whatever is there.
func IsEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || len(s) > MaxEmail || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return false
	}
	return mailHost.MatchString(s[strings.LastIndexByte(s, '@')+1:])
}
