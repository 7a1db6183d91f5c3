// Package text holds the texts that people read, in every language of the product, with one catalogue per place where
// they appear. A text that lacks a language fails the tests.
package text

import (
	"cmp"
	_ "embed" // embeds the catalogues
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Languages lists the languages of the product; the first serves people who prefer none of them.
var Languages = []string{"en", "fr"}

// Catalogue maps a key to its text in every language.
type Catalogue map[string]map[string]string

//go:embed messages.json
var messages []byte

// Product is the name of the service if its operators have not set one.
const Product = "partnerd"

// serviceMark stands for the service's name in the texts of emails and text messages.
const serviceMark = "{service}"

// Named inserts the service's name into a message; an empty name means [Product].
func Named(message, service string) string {
	return strings.ReplaceAll(message, serviceMark, cmp.Or(service, Product))
}

// Messages returns the texts of emails and text messages. The sender inserts the service's name, see [Named].
func Messages() (Catalogue, error) { return Parse(messages) }

// Parse parses a catalogue from JSON: {"key": {"en": "…", "fr": "…"}}. French texts are written with plain spaces and
// returned with the spaces of French typography, see [French].
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

// French inserts the non-breaking spaces before ; ! ? (narrow) and : » € and after «, and the curly apostrophe between
// letters.
func French(s string) string {
	s = beforeHigh.ReplaceAllString(s, "\u202f$1")
	s = beforeFull.ReplaceAllString(s, "\u00a0$1")
	s = afterQuote.ReplaceAllString(s, "«\u00a0")
	return elision.ReplaceAllString(s, "$1’$2")
}

// Letter returns the subject of an email (key.subject) and its body (key.text) with the arguments inserted.
func (c Catalogue) Letter(lang, key string, args ...any) (subject, body string, err error) {
	if subject, err = c.Get(lang, key+".subject"); err == nil {
		body, err = c.Get(lang, key+".text", args...)
	}
	return subject, body, err
}

// Get returns a text with its arguments inserted.
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

// Known returns lang if the product supports it, or else the first language.
func Known(lang string) string {
	for _, l := range Languages {
		if l == lang {
			return l
		}
	}
	return Languages[0]
}
