package shell

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Site contains what every page shows about the service.
type Site struct {
	Name    string
	Logo    string   // URL of the picture; empty for none
	Contact string   // URL; empty for none
	Legal   []string // pages of the operator
}

// LegalPages lists the possible pages of the operator.
var LegalPages = []string{"notice", "terms", "privacy"}

// Legal are the operator's legal pages in Markdown, by page and language.
type Legal map[string]map[string]string

// ReadLegal reads <page>.<language>.md. It returns an error if a page lacks a language, or if the folder has no page.
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

// Pages returns the pages that exist, in the order of [LegalPages].
func (l Legal) Pages() []string {
	return slices.DeleteFunc(slices.Clone(LegalPages), func(page string) bool { return l[page] == nil })
}

// ContactName returns the contact in readable form.
func (s Site) ContactName() string {
	return strings.TrimPrefix(strings.TrimPrefix(s.Contact, "mailto:"), "https://")
}
