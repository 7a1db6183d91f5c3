package public

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/consultation"
	"partnerd/internal/server/edge"
	"partnerd/internal/server/manual"
	"partnerd/internal/server/web/shell"
	"partnerd/openapi"
)

const searchAddress = manual.Root + "/search"

// docs is the documentation. Its pages are the same for everyone, and created once per language.
type docs struct {
	sites map[string]manual.Site   // by language
	pages map[string]edge.Document // by language and path, including Markdown versions
	llms  edge.Document
}

// docsView is a page of the documentation.
type docsView struct {
	manual.Page
	Sections []docsSection
	Search   string // path of the search
	Try      string // path of the page that links a client
	Query    string
	Searched bool
	Hits     []manual.Hit
}

type docsSection struct {
	ID    manual.Section
	Links []docsLink
}

type docsLink struct {
	manual.Page
	Current bool
}

// newDocs creates the documentation of this deployment.
func (p *Pages) newDocs() (d docs, err error) {
	facts := manual.Facts{Base: p.BaseURL, Partner: p.deps.Contract, Platform: p.deps.Platform,
		Player: p.deps.Player, Changelog: openapi.Changelog, Waiver: consultation.WaiverVersion, Steps: lifeOf(),
		Downloads: p.deps.Packages,
		Contact:   shell.Site{Contact: p.Contact}.ContactName(),
		Security:  shell.Site{Contact: p.deps.SecurityContact}.ContactName()}
	if p.Sandbox { // in a live deployment, an operator creates applications
		facts.Portal = shell.DevelopersDesk
	}
	all, err := manual.New(facts, shell.Languages...)
	if err != nil {
		return d, fmt.Errorf("make documentation: %w", err)
	}
	feed, err := manual.NewFeed(facts)
	if err != nil {
		return d, fmt.Errorf("make feed of the changelog: %w", err)
	}
	d = docs{sites: map[string]manual.Site{}, pages: map[string]edge.Document{},
		llms: edge.NewDocument("text/plain; charset=utf-8", []byte(all[0].LLMs(p.BaseURL)))}
	for _, s := range all {
		d.sites[s.Lang] = s
		d.pages[s.Lang+manual.Feed] = edge.NewDocument("application/atom+xml; charset=utf-8", feed)
		for _, page := range s.Pages {
			body, err := p.fillDocs(s, docsView{Page: page})
			if err != nil {
				return d, err
			}
			d.pages[s.Lang+page.Path] = edge.NewDocument(echo.MIMETextHTMLCharsetUTF8, body)
			d.pages[s.Lang+page.Path+".md"] = edge.NewDocument("text/markdown; charset=utf-8", []byte(page.Markdown))
		}
	}
	return d, nil
}

// lifeOf returns the state table of consultations for the documentation.
func lifeOf() (steps []manual.Step) {
	for _, s := range consultation.Steps() {
		step := manual.Step{From: string(s.From), To: string(s.To), Trigger: s.Trigger, Money: s.Money}
		for _, e := range s.Events {
			step.Events = append(step.Events, string(e))
		}
		steps = append(steps, step)
	}
	return steps
}

func (p *Pages) fillDocs(s manual.Site, v docsView) ([]byte, error) {
	v.Search, v.Try = searchAddress, manual.Try
	for _, id := range manual.Sections() {
		section := docsSection{ID: id}
		for _, page := range s.Pages {
			if page.Section == id {
				section.Links = append(section.Links, docsLink{page, page.Path == v.Path})
			}
		}
		v.Sections = append(v.Sections, section)
	}
	of := shell.View{Title: "docs.title", Name: v.Title, Lang: s.Lang, Sandbox: p.Sandbox,
		Scripts: []string{p.Scripts["docs"].Path}, Data: v}
	if p.Sandbox {
		of.Scripts = append(of.Scripts, p.Scripts["try"].Path)
	}
	of.Languages = shell.LinksTo("", queryOf(v.Query), s.Lang)
	if v.Path != searchAddress {
		of.Canonical, of.Twin = p.BaseURL+v.Path, v.Path+".md"
	}
	var body bytes.Buffer
	if err := p.Views.Execute(&body, s.Lang, "docs", of); err != nil {
		return nil, fmt.Errorf("render page %s: %w", v.Path, err)
	}
	return body.Bytes(), nil
}

func queryOf(q string) url.Values {
	if q == "" {
		return url.Values{}
	}
	return url.Values{"q": {q}}
}

// registerDocs adds the routes of the documentation.
func (p *Pages) registerDocs(e *echo.Echo, read []string) {
	for _, path := range []string{manual.Root, manual.Root + ".md", manual.Root + "/*"} {
		e.Match(read, path, p.Page(p.docsPage))
	}
	e.Match(read, searchAddress, p.Page(p.searchDocs))
	e.Match(read, "/llms.txt", p.Page(p.llms))
}

// docsPage serves a page or its Markdown version.
func (p *Pages) docsPage(c echo.Context) error {
	all, err := p.docs()
	if err != nil {
		return err
	}
	d, ok := all.pages[p.Language(c)+c.Request().URL.Path]
	if !ok {
		return shell.StatusError(http.StatusNotFound)
	}
	return p.showDocs(c, d)
}

// llms serves the list of pages for language models.
func (p *Pages) llms(c echo.Context) error {
	all, err := p.docs()
	if err != nil {
		return err
	}
	return p.showDocs(c, all.llms)
}

func (p *Pages) showDocs(c echo.Context, d edge.Document) error {
	h := c.Response().Header()
	h.Add("Vary", "Accept-Language, Cookie")
	h.Set("Content-Language", p.Language(c))
	h.Set("Content-Security-Policy", shell.Policy+"; script-src 'self'; connect-src 'self'")
	h.Set("Cache-Control", "no-cache")
	d.ServeHTTP(c.Response(), c.Request())
	return nil
}

// searchDocs shows the search results for a query.
func (p *Pages) searchDocs(c echo.Context) error {
	all, err := p.docs()
	if err != nil {
		return err
	}
	site, query := all.sites[p.Language(c)], strings.ToValidUTF8(c.QueryParam("q"), "")
	v := docsView{Query: query, Searched: strings.TrimSpace(query) != "", Hits: site.Search(query)}
	v.Path = searchAddress
	body, err := p.fillDocs(site, v)
	if err != nil {
		return err
	}
	return p.showDocs(c, edge.NewDocument(echo.MIMETextHTMLCharsetUTF8, body))
}
