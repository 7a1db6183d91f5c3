package text

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var verbs = regexp.MustCompile(`%[sd]`)

func TestEveryMessageExistsInEveryLanguageWithTheSameArguments(t *testing.T) {
	t.Parallel()
	c, err := Messages()
	if err != nil {
		t.Fatal(err)
	}
	for key, wordings := range c {
		if len(wordings) != len(Languages) {
			t.Errorf("%s has %d languages", key, len(wordings))
		}
		for _, lang := range Languages {
			if strings.TrimSpace(wordings[lang]) == "" {
				t.Errorf("%s has no text in %q", key, lang)
			}
			if !slices.Equal(verbs.FindAllString(wordings[lang], -1), verbs.FindAllString(wordings["en"], -1)) {
				t.Errorf("%s takes other arguments in %q", key, lang)
			}
		}
	}
}

// TestMessagesCallTheServiceByItsName exists because operators name the service, and people do not know the product.
func TestMessagesCallTheServiceByItsName(t *testing.T) {
	t.Parallel()
	c, err := Messages()
	if err != nil {
		t.Fatal(err)
	}
	for key, wordings := range c {
		for lang, wording := range wordings {
			if said := Named(wording, "Allo Droit"); strings.Contains(strings.ToLower(said), Product) ||
				strings.Contains(said, serviceMark) {
				t.Errorf("%s in %q: %s", key, lang, said)
			}
		}
	}
	if s := Named(c["phone.code"]["en"], ""); !strings.Contains(s, "your "+Product+" code") {
		t.Error(s)
	}
}

func TestAMissingTextIsAnError(t *testing.T) {
	t.Parallel()
	c := Catalogue{"a": {"en": "x %s"}}
	if s, err := c.Get("en", "a", "y"); s != "x y" || err != nil {
		t.Error(s, err)
	}
	for _, k := range [][2]string{{"fr", "a"}, {"en", "b"}} {
		if _, err := c.Get(k[0], k[1]); err == nil {
			t.Error(k)
		}
	}
	if Known("fr") != "fr" || Known("de") != "en" {
		t.Error("language")
	}
}

func TestFrenchPunctuationStaysOnTheLineOfItsWord(t *testing.T) {
	t.Parallel()
	c, err := Parse([]byte(`{"a": {"en": "No: %s ?", "fr": "Oublié ? Non ; l'« essai » : 20 € !"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := "Oublié\u202f? Non\u202f; l'«\u00a0essai\u00a0»\u00a0: 20\u00a0€\u202f!"; c["a"]["fr"] != want {
		t.Errorf("got %q, want %q", c["a"]["fr"], want)
	}
	if c["a"]["en"] != "No: %s ?" {
		t.Errorf("English became %q", c["a"]["en"])
	}
	if got := French("l'avocat d'Aix"); got != "l’avocat d’Aix" {
		t.Error(got)
	}
}
