package password

import (
	"errors"
	"strings"
	"testing"
)

func TestPasswordsThatAreTriedFirstAreRefused(t *testing.T) {
	t.Parallel()
	own := []string{"olga.operator@partners.example", "Olga Opéra"}
	for plain, want := range map[string]Weakness{
		"password1234": Common, "Password123!": Common, "P@ssw0rd1234": Common, "motdepasse2024": Common,
		"motdepassemotdepasse": Common, "iloveyou1234": Common, "Welcome12345": Common, "administrator1": Common,
		"marseille2024": Common, "football2024": Common, "Summer2026!!": Common, "soleil12345678": Pattern,
		"123456789012": Pattern, "aaaaaaaaaaaa": Pattern, "abcabcabcabc": Pattern, "azertyuiop12": Pattern,
		"qwertyuiop12": Common, "1q2w3e4r5t6y": Pattern, "abcdefghijkl": Pattern, "19900101199001": Common,
		"qsdfghjklm12": Pattern, "partnerdpartnerd": Own, "partnerd2026!": Own, "olga.operator@partners.example": Own,
		"Olga Operator1": Own,
		"olgaopéra2026":  Own,
		"0lg@0perator12": Own,
		"short":          Length, "elevenchars": Length, strings.Repeat("x9", 129): Length,
		"a long phrase for the desk": "", "correct horse battery staple": "", "xK9#mQ2$vL8p": "",
		"chat chien maison": "", "tulipe vélo mercredi": "",
		strings.Repeat("a long phrase ", 18): "",
	} {
		err := OfStaff.Check(plain, own...)
		if got := Weakness(""); errors.As(err, &got) != (want != "") || got != want {
			t.Errorf("%q: %v, want %q", plain, err, want)
		}
	}
	for plain, want := range map[string]Weakness{
		"password1": Common, "12345678": Pattern, "aaaaaaaa": Pattern, "olga1234": Own, "partnerd": Own,
		"azerty12": Common, "sunshine": Common, "seven77": Length, "x7Kq9mTz": "", "correct horse": "",
		"une phrase assez longue": "",
	} {
		err := OfClients.Check(plain, own...)
		if got := Weakness(""); errors.As(err, &got) != (want != "") || got != want {
			t.Errorf("of a client, %q: %v, want %q", plain, err, want)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	long := strings.Repeat("4@8({[<369&6!1i|7+0", 14)[:MaxLength]
	for b.Loop() {
		_ = OfStaff.Check(long, "olga.operator@partners.example", "Olga Operator")
	}
}
