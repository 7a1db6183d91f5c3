package id

import (
	"regexp"
	"slices"
	"testing"
)

func TestIdentifiersAreUniqueSortedAndMarked(t *testing.T) {
	t.Parallel()
	live, test := regexp.MustCompile(`^con_[0-9a-hjkmnp-tv-z]{26}$`),
		regexp.MustCompile(`^con_test_[0-9a-hjkmnp-tv-z]{26}$`)
	seen := map[string]bool{}
	var stems []string
	for range 2000 {
		a, b := Minter{}.New(Consultation), Minter{Test: true}.New(Consultation)
		if !live.MatchString(a) || !test.MatchString(b) {
			t.Fatalf("shape: %q %q", a, b)
		}
		if seen[a] || seen[b] {
			t.Fatal("identifier repeated")
		}
		seen[a], seen[b] = true, true
		stems = append(stems, a[4:12])
	}
	if !slices.IsSorted(stems) {
		t.Error("identifiers do not sort by time")
	}
}

func TestSecretsCarry256Bits(t *testing.T) {
	t.Parallel()
	if s := (Minter{Test: true}).Secret("sk"); !regexp.MustCompile(`^sk_test_[A-Za-z0-9_-]{43}$`).MatchString(s) {
		t.Errorf("shape: %q", s)
	}
}
