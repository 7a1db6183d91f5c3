package shell

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Site is what every page says of the service.
type Site struct {
	Name    string
	Logo    string   // address of the picture; empty for none
	Contact string   // a URL; empty for none
	Legal   []string // pages of the operator
}

// LegalPages are the operator's pages that there can be.
var LegalPages = []string{"notice", "terms", "privacy"}

// Legal are the operator's legal pages in Markdown, by page and language.
type Legal map[string]map[string]string

// ReadLegal reads <page>.<language>.md. A page in one language needs its twins; an error, too, is a folder without a
// page.
func ReadLegal(folder fs.FS) (Legal, error) {
	all := Legal{}
	for _, page := range LegalPages {
		for _, lang := range Languages {
			b, err := fs.ReadFile(folder, page+"."+lang+".md")
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read legal page: %w", err)
			}
			if all[page] == nil {
				all[page] = map[string]string{}
			}
			all[page][lang] = string(b)
		}
		if n := len(all[page]); n > 0 && n < len(Languages) {
			return nil, fmt.Errorf("legal page %s is not there in every language", page)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("there is no page like notice.fr.md")
	}
	return all, nil
}

// Pages are those that there are, in their order.
func (l Legal) Pages() []string {
	return slices.DeleteFunc(slices.Clone(LegalPages), func(page string) bool { return l[page] == nil })
}

// ContactName is the contact as people read it.
func (s Site) ContactName() string {
	return strings.TrimPrefix(strings.TrimPrefix(s.Contact, "mailto:"), "https://")
}
