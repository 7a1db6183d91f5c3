package text

import "testing"

func TestFreeTextIsTrimmedAndReadsAsItIsWritten(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		" \u200b\ufeffa b\u2060\u00ad \n": "a b", "\u200f\u202ea\u202c": "a", "\U000E0041a\U000E007F": "a",
		"e\u0301": "\u00e9", "\u0600\u0661\u0662": "\u0600\u0661\u0662", "\u200d": "", "a\u200bb": "a\u200bb",
	} {
		if got := Trimmed(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	for _, s := range []string{"", "plain", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u200f\u200e",
		"\U0001F468\u200d\U0001F469\u200d\U0001F467", "co\u00adop", "a\u00a0b"} {
		if !IsFree(s, false) || !IsFree(s, true) {
			t.Errorf("%q is refused", s)
		}
	}
	for _, bad := range []string{
		"\x00", "\x1b", "\x7f", "\u0085", "\u2028", "\u2029", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e",
		"\u2066", "\u2067", "\u2068", "\u2069", "\ufeff", "\U000E0001", "\U000E0041", "\U000E007F",
	} {
		if IsFree("a"+bad+"b", false) || IsFree("a"+bad+"b", true) {
			t.Errorf("%q is accepted", bad)
		}
	}
	for _, r := range []string{"\n", "\r\n", "\t"} {
		if IsFree("a"+r+"b", false) || !IsFree("a"+r+"b", true) {
			t.Errorf("%q: one line %t, several %t", r, IsFree("a"+r+"b", false), IsFree("a"+r+"b", true))
		}
	}
}
