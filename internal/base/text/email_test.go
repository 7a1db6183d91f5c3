package text

import (
	"strings"
	"testing"
)

func TestEmailAddressesAreOfDomains(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"a@client.example": true, "a.b+c@mail.client.example": true, "élodie@exemple.fr": true, "a@exämple.fr": true,
		"a@client.xn--p1ai": true, "": false, "a": false, "a@": false, "a@localhost": false, "a@127.0.0.1": false,
		"a@10.0.0.1": false, "a@[127.0.0.1]": false, "a@[IPv6:::1]": false,
		"a@0x7f.1": false, "a@1.2.3.4.": false, "A <a@client.example>": false, " a@client.example": false,
		"a@client.example\n": false, "a\x00@client.example": false, "a\xff@client.example": false,
		"a@client.example, b@client.example": false, strings.Repeat("a", 250) + "@client.example": false,
	} {
		if got := IsEmail(s); got != want {
			t.Errorf("IsEmail(%q) = %v", s, got)
		}
	}
}
