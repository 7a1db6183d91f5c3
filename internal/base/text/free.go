package text

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Trimmed brings a free text to Unicode NFC, without the white space and the format characters at its ends: nobody sees
// them there, and they would make one text two. Marks that are seen before a number, as Arabic has them, stay.
func Trimmed(s string) string {
	return norm.NFC.String(strings.TrimFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
	}))
}

// unfit are characters that make a text read otherwise than it is written: embeddings, overrides and isolates of the
// writing direction, separators of lines and paragraphs, the byte order mark, tags. Direction marks and joiners are
// none of them: Arabic, Indic scripts and emoji need these.
var unfit = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x2028, Hi: 0x202E, Stride: 1}, {Lo: 0x2066, Hi: 0x2069, Stride: 1},
		{Lo: 0xFEFF, Hi: 0xFEFF, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0xE0000, Hi: 0xE007F, Stride: 1}},
}

// IsFree tells whether a free text reads as it is written; only one of several lines has line breaks and tabulators.
func IsFree(s string, lines bool) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		if lines && (r == '\n' || r == '\r' || r == '\t') {
			return false
		}
		return unicode.In(r, unicode.Cc, unfit)
	})
}
