package text

import "testing"

func TestANameReadsAsItIsWritten(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"Zoé Lefèvre": true, "محمد": true, "क्\u200dष": true, "می\u200cخواهم": true, "": false, "a\nb": false, "a\u2028b": false,
		"A\u200bB": false, "A\u00adB": false, "A\u2060B": false, "A\ufeffB": false, "A\u202eB": false, "A\u200eB": false, "A\U000e0041B": false, "\xff": false,
	} {
		if got := IsName(s, 12); got != want {
			t.Errorf("IsName(%q) = %v", s, got)
		}
	}
	if IsName("sixsix", 5) || !IsName("fünf5", 5) {
		t.Error("the length is counted otherwise than in code points")
	}
}
