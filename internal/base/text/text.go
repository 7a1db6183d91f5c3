// Package text holds the wordings that people read, in every language of the product: one catalogue a place where they
// appear. A wording that misses a language fails the tests.
package text

import (
	"cmp"
	_ "embed" // the catalogues are part of the program
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Languages of the product; the first serves people who prefer none of them.
var Languages = []string{"en", "fr"}

// Catalogue maps a key to its wording in every language.
type Catalogue map[string]map[string]string

//go:embed messages.json
var messages []byte

// Product is what the service is called where its operators have given it no name.
const Product = "partnerd"

// serviceMark stands for the service's name in the wordings of mails and text messages.
const serviceMark = "{service}"

// Named puts the service's name into a message; an empty one is [Product].
func Named(message, service string) string {
	return strings.ReplaceAll(message, serviceMark, cmp.Or(service, Product))
}

// Messages are the wordings of mails and text messages. Whoever sends one puts the service's name in, see [Named].
func Messages() (Catalogue, error) { return Parse(messages) }

// Parse reads a catalogue from JSON: {"key": {"en": "…", "fr": "…"}}. French wordings are written with plain spaces and
// come out with those that their typography asks for, see [French].
func Parse(raw []byte) (Catalogue, error) {
	var c Catalogue
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("read texts: %w", err)
	}
	for _, wordings := range c {
		if fr, ok := wordings["fr"]; ok {
			wordings["fr"] = French(fr)
		}
	}
	return c, nil
}

var (
	beforeHigh = regexp.MustCompile(` ([;!?])`)
	beforeFull = regexp.MustCompile(` ([:»€])`)
	elision    = regexp.MustCompile(`(\pL)'(\pL)`)
	afterQuote = regexp.MustCompile(`« `)
)

// French puts the spaces that no line may break at before ; ! ? (narrow) and : » € and after «, and the curved
// apostrophe between letters.
func French(s string) string {
	s = beforeHigh.ReplaceAllString(s, "\u202f$1")
	s = beforeFull.ReplaceAllString(s, "\u00a0$1")
	s = afterQuote.ReplaceAllString(s, "«\u00a0")
	return elision.ReplaceAllString(s, "$1’$2")
}

// Letter returns the subject, key.subject, and the body of a mail, key.text, which has the arguments put in.
func (c Catalogue) Letter(lang, key string, args ...any) (subject, body string, err error) {
	if subject, err = c.Get(lang, key+".subject"); err == nil {
		body, err = c.Get(lang, key+".text", args...)
	}
	return subject, body, err
}

// Get returns a wording with its arguments put in.
func (c Catalogue) Get(lang, key string, args ...any) (string, error) {
	s, ok := c[key][lang]
	if !ok {
		return "", fmt.Errorf("no text %q in %q", key, lang)
	}
	if len(args) == 0 {
		return s, nil
	}
	return fmt.Sprintf(s, args...), nil
}

// Known returns lang when the product speaks it, else the first language.
func Known(lang string) string {
	for _, l := range Languages {
		if l == lang {
			return l
		}
	}
	return Languages[0]
}
