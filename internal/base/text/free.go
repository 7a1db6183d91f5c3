package text

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Trimmed returns a free text in Unicode NFC, without whitespace and format characters at its ends. These are invisible
// there and would make equal-looking texts differ. Visible marks before a number, as in Arabic, are kept.
func Trimmed(s string) string {
	return norm.NFC.String(strings.TrimFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
	}))
}

// unfit are characters that make a text read differently from how it is written. They are embeddings, overrides and
// isolates of the writing direction, line and paragraph separators, the byte order mark, and tags. Direction marks and
// joiners are allowed: Arabic, Indic scripts and emoji need them.
var unfit = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x2028, Hi: 0x202E, Stride: 1}, {Lo: 0x2066, Hi: 0x2069, Stride: 1},
		{Lo: 0xFEFF, Hi: 0xFEFF, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0xE0000, Hi: 0xE007F, Stride: 1}},
}

// IsFree reports whether a free text reads as it is written. Line breaks and tabs are allowed only if lines is true.
func IsFree(s string, lines bool) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		if lines && (r == '\n' || r == '\r' || r == '\t') {
			return false
		}
		return unicode.In(r, unicode.Cc, unfit)
	})
}
