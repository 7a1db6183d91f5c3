package password

import (
	"strings"
	"testing"
)

func TestOnlyTheRightPasswordVerifies(t *testing.T) {
	t.Parallel()
	h := Hash("correct horse é")
	for plain, want := range map[string]bool{
		"correct horse é":         true,
		"correct horse e\u0301":   true, // the same letters, composed differently
		"correct horse e":         false,
		"Correct horse é":         false,
		"":                        false,
		strings.Repeat("a", 4096): false,
	} {
		if Verify(h, plain) != want {
			t.Errorf("%.20q: want %v", plain, want)
		}
	}
	if first, second := Hash("a"), Hash("a"); first == second {
		t.Error("the salt is not fresh")
	}
	if !strings.HasPrefix(h, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("form: %s", h)
	}
}

func TestAnAbsentOrBrokenHashNeverMatches(t *testing.T) {
	t.Parallel()
	for _, h := range []string{"", never(), "x", "$argon2id$v=19$m=19456,t=2,p=1$AA$AA",
		"$argon2id$v=19$m=19456,t=0,p=0$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"$2y$10$abc$d$e"} {
		for _, plain := range []string{"", "x", "password"} {
			if Verify(h, plain) {
				t.Errorf("%q matched %q", h, plain)
			}
		}
	}
}

func TestCostsOfOlderHashesAreHonoured(t *testing.T) {
	t.Parallel()
	salt := []byte("0123456789abcdef")
	h := strings.Replace(encode(full, salt, derive("old", salt, 1, 8192, 1, keyBytes)), "m=19456,t=2", "m=8192,t=1", 1)
	if !Verify(h, "old") || Verify(h, "new") {
		t.Error("a hash with other costs is not verified with its own costs")
	}
}
