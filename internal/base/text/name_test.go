package text

import (
	"strings"
	"testing"
)

func TestANameReadsAsItIsWritten(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"Zoé Lefèvre": true, "محمد": true, "क्\u200dष": true, "می\u200cخواهم": true, "": false, "a\nb": false,
		"a\u2028b": false, "A\u200bB": false, "A\u00adB": false, "A\u2060B": false, "A\ufeffB": false,
		"A\u202eB": false, "A\u200eB": false, "A\U000e0041B": false, "\xff": false,
	} {
		if got := IsName(s, 12); got != want {
			t.Errorf("IsName(%q) = %v", s, got)
		}
	}
	if IsName("sixsix", 5) || !IsName("fünf5", 5) {
		t.Error("the length is counted otherwise than in code points")
	}
}

// TestANameIsSeen exists because fillers are invisible, alone and within a name.
func TestANameIsSeen(t *testing.T) {
	t.Parallel()
	for _, r := range "\u115f\u1160\u3164\uffa0\u034f" {
		if name := string(r); IsName(name, 10) || IsName("A"+name+"B", 10) {
			t.Errorf("%q is a name", name)
		}
	}
}

func TestNamesThatReadAlikeAreTheSame(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"Allô Droit": true, "allo-droit": true, "ALLO  DROIT.": true, "Ａllô Droit": true, "AllôDroit": true,
		"AlloDroit": true, "Allô Droit™": true, "Allô Droit℠": true, "Allô Droitʼ": true, "Allô Droit 2": false,
		"Droit Allô": false, "": false,
	} {
		if got := SameName(name, "Allô Droit"); got != want {
			t.Errorf("SameName(%q) = %v", name, got)
		}
	}
}

// TestANameLeadsNowhere exists because emails show names of people and applications to strangers, and mail programs
// turn anything that looks like a link into one.
func TestANameLeadsNowhere(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"evil.com": true, "Your bank: EVIL.COM/pay": true, "https://x": true, "//x": true, "www.evil.example": true,
		"a@b": true, "a＠b": true, "evil。com": true, "evil｡com": true, "evil․com": true, "evil\u200d.com": true,
		"evil.\ufe0fcom": true, "1.2.3.4": true, "xn.xn--p1ai": true, "пример.рф": true, "J.R.R. Tolkien": false,
		"St. John": false, "CRM 2.0": false, "CRM 2.0.1": false, "Inc.": false, "Zoé Lefèvre": false,
		"Allo: Droit / Conseil": false, "... et Cie": false,
	} {
		if got := Leads(name); got != want {
			t.Errorf("Leads(%q) = %v", name, got)
		}
		if got := Mailed(name, "?"); (got == name) == want {
			t.Errorf("Mailed(%q) = %q", name, got)
		}
	}
	if Mailed("a\nb", "?") != "?" || Mailed(strings.Repeat("a", MaxMailed+1), "?") != "?" {
		t.Error("a mail names what breaks its line, or fills it")
	}
}
