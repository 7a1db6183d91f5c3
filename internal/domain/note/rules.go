package note

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Lengths in Unicode code points after trimming (decision H45).
const (
	MaxPreview = 500
	MaxNote    = 20000
)

// ErrInvalid is wrapped by every error about a text. The messages name the error, never the text.
var ErrInvalid = errors.New("the note or preview is not valid")

func normalize(what, text string, limit int) (string, error) {
	text = norm.NFC.String(strings.TrimSpace(text))
	if text == "" {
		return "", fmt.Errorf("%w: the %s is empty", ErrInvalid, what)
	}
	if err := checkText(what, text, limit); err != nil {
		return "", err
	}
	return text, nil
}

// checkText rejects text that is not plain text or has more than limit code points.
func checkText(what, text string, limit int) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fmt.Errorf("%w: the %s is not plain text", ErrInvalid, what)
	}
	if n := utf8.RuneCountInString(text); n > limit {
		return fmt.Errorf("%w: the %s has %d characters; at most %d are allowed", ErrInvalid, what, n, limit)
	}
	return nil
}
