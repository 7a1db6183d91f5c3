package web

import (
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/server/manual"
)

// site is what every page says of the service.
type site struct {
	Name    string
	Logo    string   // address of the picture; empty for none
	Contact string   // a URL; empty for none
	Legal   []string // pages of the operator
}

// ContactName is the contact as people read it.
func (s site) ContactName() string {
	return strings.TrimPrefix(strings.TrimPrefix(s.Contact, "mailto:"), "https://")
}

// legalPages are the operator's pages that there can be.
var legalPages = []string{"notice", "terms", "privacy"}

// Legal are the operator's legal pages in Markdown, by page and language.
type Legal map[string]map[string]string

// ReadLegal reads <page>.<language>.md. A page in one language needs its twins; an error, too, is a folder without a
// page.
func ReadLegal(folder fs.FS) (Legal, error) {
	all := Legal{}
	for _, page := range legalPages {
		for _, lang := range languages {
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
		if n := len(all[page]); n > 0 && n < len(languages) {
			return nil, fmt.Errorf("legal page %s is not there in every language", page)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("there is no page like notice.fr.md")
	}
	return all, nil
}

// pages are those that there are, in their order.
func (l Legal) pages() []string {
	return slices.DeleteFunc(slices.Clone(legalPages), func(page string) bool { return l[page] == nil })
}

// legalView is a legal page. Its first heading is its own where it has one.
type legalView struct {
	HTML  template.HTML
	Title bool
}

func (p *Pages) legal(page string) echo.HandlerFunc {
	return func(c echo.Context) error {
		text := p.deps.Legal[page][p.language(c)]
		return p.renderPublic(c, "legal", view{Title: "legal." + page, Canonical: p.deps.BaseURL + "/legal/" + page,
			Data: legalView{manual.Text(text), strings.HasPrefix(text, "# ")}})
	}
}
