package password

import "strings"

// Common tells whether plain is a password that everybody tries first.
func Common(plain string) bool { return common[strings.ToLower(plain)] }

// common have the allowed length and top every list of leaked ones.
var common = func() map[string]bool {
	m := map[string]bool{}
	for p := range strings.FieldsSeq(`12345678 123456789 1234567890 11111111 00000000 password password1 password12 password123 motdepasse azertyuiop
		azerty123 qwertyuiop qwerty123 1q2w3e4r iloveyou sunshine princess football baseball superman welcome1 abcd1234 aaaaaaaa partnerd
		letmein1 trustno1 doudou123 marseille chocolat loulou123 soleil123 jetaime1 87654321 123123123 administrator`) {
		m[p] = true
	}
	return m
}()
