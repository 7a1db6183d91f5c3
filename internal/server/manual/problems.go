package manual

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

//go:embed problems.json
var problemsSource []byte

// remedy gives the cause of an error code and what to do about it.
type remedy struct{ Cause, Remedy string }

// problems returns the remedies of every error code, by language.
func problems() (map[string]map[string]remedy, error) {
	var all map[string]map[string]remedy
	if err := json.Unmarshal(problemsSource, &all); err != nil {
		return nil, fmt.Errorf("read problems.json: %w", err)
	}
	return all, nil
}

// Errors lists all error codes of the contracts in Markdown.
func (w writer) Errors() (string, error) {
	known, err := problems()
	if err != nil {
		return "", err
	}
	words := map[string]map[string]string{
		"cause":  {"en": "Cause", "fr": "Cause"},
		"remedy": {"en": "What to do", "fr": "Que faire"},
		"where":  {"en": "Returned by", "fr": "Renvoyé par"},
		"every":  {"en": "%d operations", "fr": "%d opérations"},
	}
	colon := map[string]string{"en": ":", "fr": " :"}[w.Lang]
	var b strings.Builder
	for _, code := range allCodes(w.manuals) {
		fmt.Fprintf(&b, "### `%s`\n\n**HTTP %s**\n\n", code.Code, strings.Join(code.Statuses, ", "))
		about := known[code.Code][w.Lang]
		var where []string
		for _, o := range code.Operations {
			where = append(where, fmt.Sprintf("[%s](%s#%s)", o.ID, o.Page, o.ID))
		}
		if len(where) > 8 {
			where = []string{fmt.Sprintf(words["every"][w.Lang], len(where))}
		}
		for _, line := range [][2]string{
			{"cause", about.Cause}, {"remedy", about.Remedy}, {"where", strings.Join(where, ", ")},
		} {
			fmt.Fprintf(&b, "- **%s%s** %s\n", words[line[0]][w.Lang], colon, line[1])
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}

// allCodes lists the error codes of several contracts, each once. Codes of the caller come before those of the service.
func allCodes(manuals []manual) []errorCode {
	var groups []group
	for _, m := range manuals {
		groups = append(groups, m.Groups...)
	}
	return slices.DeleteFunc(errorCodes(groups), func(e errorCode) bool { return e.Code == "" })
}
