package manual

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed snippets
var snippetFiles embed.FS

// snippet is code with which a handler verifies the signature of a webhook (specification section 6.4).
type snippet struct{ ID, Language, Code string }

func readSnippets() ([]snippet, error) {
	list := []snippet{{ID: "go", Language: "Go"}, {ID: "js", Language: "JavaScript (Node.js)"},
		{ID: "py", Language: "Python"}, {ID: "php", Language: "PHP"}}
	for i := range list {
		b, err := snippetFiles.ReadFile("snippets/verify." + list[i].ID + ".txt")
		if err != nil {
			return nil, fmt.Errorf("read snippet: %w", err)
		}
		list[i].Code = string(b)
	}
	return list, nil
}

// Verify returns the code that verifies a signature, in Markdown.
func (w writer) Verify() (string, error) {
	list, err := readSnippets()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "### %s\n\n```%s\n%s\n```\n\n", s.Language, s.ID, strings.TrimSpace(s.Code))
	}
	return b.String(), nil
}
