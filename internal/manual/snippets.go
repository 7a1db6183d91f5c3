package manual

import (
	"embed"
	"fmt"
)

//go:embed snippets
var snippetFiles embed.FS

// snippet shows how a receiver checks the signature of a webhook (specification section 6.4).
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
