package manual

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
	texttemplate "text/template"
)

// place says where a contract is documented and published.
type place struct {
	Path     string // of its first page; the pages of its groups are below
	Contract string // URL of the published contract, without its extension
	Name     string
}

// The documented contracts.
var (
	partnerPlace  = place{Root + "/reference", "/openapi", "Partner API"}
	platformPlace = place{Root + "/platform", "/openapi/platform", "Platform API"}
	sandboxPlace  = place{Root + "/sandbox", "/openapi/sandbox", "Sandbox API"}
)

// Templates of the reference, with the same content in HTML and in Markdown.
var (
	//go:embed reference.html
	htmlSource string
	//go:embed reference.md
	markdownSource string

	htmlPages     = template.Must(template.New("html").Parse(htmlSource))
	markdownPages = texttemplate.Must(texttemplate.New("markdown").Funcs(texttemplate.FuncMap{"indent": indent}).
			Parse(markdownSource))
)

// manual is the data of the templates.
type manual struct {
	place
	Title, Version, Base string
	Summary              string
	Lead                 prose
	Chapters             []chapter
	Groups               []group
	Scopes               []row
	Codes                []errorCode
}

type chapter struct {
	ID, Title string
	prose
}

// group is a tag of the contract with its operations.
type group struct {
	ID, Name   string
	Path       string
	Text       prose
	Webhooks   bool
	Operations []operation
}

type operation struct {
	ID, Method, Path, Summary string
	Page                      string // path of its page
	Text                      prose
	Scopes                    []string
	Open                      bool // needs no token
	Basic                     bool // needs the credentials of the application
	Webhook                   bool // sent by the service
	Parameters                []row
	BodyType                  string
	Body                      []row
	Examples                  []example
	Samples                   []sample
	Trial                     *trial // nil if the page cannot send it
	Responses                 []response
}

// row is a field, a parameter or a header.
type row struct {
	Name, In, Type string
	Required       bool
	Values         []string // the only ones it can have; nil when there are others
	Notes          []string // constraints
	Text           prose
}

type example struct{ Summary, Text string }

type response struct {
	Status   string
	Text     prose
	Success  bool
	Codes    []string
	Headers  []row
	Body     []row
	Examples []example
}

type errorCode struct {
	Code       string
	Statuses   []string
	Operations []operation
}

func read(p place, contract []byte, base string, sandbox bool) (manual, error) {
	s, err := readSpec(contract)
	if err != nil {
		return manual{}, err
	}
	info := s.root.get("info")
	d := manual{place: p, Title: info.text("title"), Version: info.text("version"), Summary: info.text("summary"),
		Base: base}
	d.Lead, d.Chapters = splitChapters(info.text("description"))
	for name, text := range s.root.get("components", "securitySchemes", "oauth2", "flows",
		"authorizationCode", "scopes").pairs() {
		d.Scopes = append(d.Scopes, row{Name: name, Text: prose{source: text.Value}})
	}
	for _, tag := range s.root.get("tags").items() {
		id := slug(tag.text("name"))
		d.Groups = append(d.Groups, group{ID: "tag-" + id, Name: tag.text("name"), Path: p.Path + "/" + id,
			Text: prose{source: tag.text("description"), prefix: "tag-" + id + "-"}})
	}
	for _, o := range slices.Concat(s.operations("paths", base), s.operations("webhooks", "")) {
		i := slices.IndexFunc(d.Groups, func(g group) bool { return g.Name == o.tag })
		if i < 0 {
			return manual{}, fmt.Errorf("operation %s has no known tag", o.ID)
		}
		g := &d.Groups[i]
		o.operation.Page = g.Path
		if !sandbox {
			o.Trial = nil
		}
		g.Operations, g.Webhooks = append(g.Operations, o.operation), o.Webhook
	}
	d.Codes = errorCodes(d.Groups)
	return d, nil
}

// splitChapters creates a chapter from every "##" heading. The text before the first heading is the lead.
func splitChapters(src string) (prose, []chapter) {
	lead, rest, _ := strings.Cut(src, "\n## ")
	var out []chapter
	for _, part := range strings.Split(rest, "\n## ") {
		title, body, _ := strings.Cut(part, "\n")
		if title != "" {
			id := contractAnchor(slug(title))
			out = append(out, chapter{ID: id, Title: title, prose: prose{source: body, prefix: id + "-"}})
		}
	}
	return prose{source: lead}, out
}

// keptAnchors are the earlier anchors of headings of contracts, by the anchor of their current words, so that links
// stay valid.
var keptAnchors = map[string]string{
	"how-it-works":                        "the-way-through",
	"tag-webhooks-responding":             "tag-webhooks-answering",
	"tag-webhooks-managing-your-endpoint": "tag-webhooks-looking-after-your-endpoint",
}

// contractAnchor returns the anchor of a heading of a contract: the earlier one if its words have changed.
func contractAnchor(id string) string { return cmp.Or(keptAnchors[id], id) }

// pages returns the first page of a contract and one page for each of its groups.
func (m manual) pages() ([]Page, error) {
	first, err := m.page("overview", m)
	if err != nil {
		return nil, err
	}
	first.Path, first.Title, first.Summary = m.Path, m.Name, m.Summary
	first.Parts = append(first.Parts, Part{"", m.Name, m.Title + ". " + m.Summary + " " + m.Lead.source})
	for _, c := range m.Chapters {
		first.Heads = append(first.Heads, Head{c.ID, c.Title})
		first.Parts = append(first.Parts, Part{c.ID, c.Title, c.source})
	}
	if len(m.Scopes) > 0 {
		first.Parts = append(first.Parts, Part{"scopes", "Scopes", scopesOf(m)})
	}
	first.Parts = append(first.Parts, Part{"operations", "Operations", m.Name + " " + contents(m)})
	all := []Page{first}
	for _, g := range m.Groups {
		p, err := m.page("group", struct {
			manual
			Group group
		}{m, g})
		if err != nil {
			return nil, err
		}
		p.Path, p.Title, p.Sub = g.Path, g.Name, true
		p.Summary, _, _ = strings.Cut(strings.Join(strings.Fields(g.Text.source), " "), ". ")
		p.Summary = strings.TrimSuffix(p.Summary, ".") + "."
		p.Parts = append(p.Parts, Part{"", g.Name, g.Text.source})
		p.Parts = append(p.Parts, g.Text.parts()...)
		for _, o := range g.Operations {
			p.Heads = append(p.Heads, Head{o.ID, o.Title()})
			p.Parts = append(p.Parts, Part{o.ID, o.Title(),
				o.Method + " " + o.Path + " " + o.ID + " " + o.Summary + ". " + o.Text.source + " " + names(o)})
		}
		all = append(all, p)
	}
	return all, nil
}

// scopesOf lists the scopes of a contract and what they allow.
func scopesOf(m manual) string {
	var lines []string
	for _, r := range m.Scopes {
		lines = append(lines, r.Name+" "+r.Text.source)
	}
	return strings.Join(lines, ". ")
}

// contents lists the titles of everything in a contract.
func contents(m manual) string {
	var titles []string
	for _, g := range m.Groups {
		titles = append(titles, g.Name)
		for _, o := range g.Operations {
			titles = append(titles, o.Title())
		}
	}
	return strings.Join(titles, ". ")
}

// Title returns the name of the operation in lists. A webhook is named by its type.
func (o operation) Title() string {
	if o.Webhook {
		return o.Path
	}
	return o.Summary
}

// names lists the fields of an operation, so that a search finds them.
func names(o operation) string {
	var all []string
	for _, r := range slices.Concat(o.Parameters, o.Body) {
		all = append(all, r.Name)
	}
	for _, r := range o.Responses {
		all = append(all, r.Codes...)
		for _, f := range r.Body {
			all = append(all, f.Name)
		}
	}
	return strings.Join(all, " ")
}

// page renders a page of the reference in HTML and in Markdown.
func (m manual) page(name string, data any) (Page, error) {
	var body, twin strings.Builder
	if err := htmlPages.ExecuteTemplate(&body, name, data); err != nil {
		return Page{}, fmt.Errorf("render: %w", err)
	}
	if err := markdownPages.ExecuteTemplate(&twin, name, data); err != nil {
		return Page{}, fmt.Errorf("render: %w", err)
	}
	return Page{Section: Reference, English: true, Body: template.HTML(body.String()), Markdown: twin.String()}, nil //nolint:gosec // html/template has made it
}

// entry is an entry of an index. It tells where a heading is now that had its anchors on the first page.
type entry struct {
	ID    string
	Also  []string // anchors within it
	Title string
	URL   string
}

// Index lists where everything in the contract is now. Its entries have the anchors of the single long page of earlier
// versions.
func (m manual) Index() []entry {
	var all []entry
	if m.place == partnerPlace {
		for _, c := range m.Chapters {
			all = append(all, entry{ID: c.ID, Title: c.Title, URL: m.Path + "#" + c.ID})
		}
		all = append(all, entry{ID: "scopes", Title: "Scopes", URL: m.Path + "#scopes"},
			entry{ID: "error-codes", Title: "Error codes", URL: Root + "/errors"},
			entry{ID: "verify", Also: []string{"verify-go", "verify-js", "verify-py", "verify-php"},
				Title: "Code that verifies a signature", URL: Root + "/webhooks#code-samples"})
	}
	for _, g := range m.Groups {
		all = append(all, entry{ID: g.ID, Also: g.Text.ids(), Title: g.Name, URL: g.Path})
		for _, o := range g.Operations {
			also := o.Text.ids()
			for _, part := range []string{"parameters", "body", "examples", "curl", "responses"} {
				also = append(also, o.ID+"-"+part)
			}
			for _, r := range o.Responses {
				also = append(also, o.ID+"-"+r.Status)
			}
			all = append(all, entry{o.ID, also, o.Title(), g.Path + "#" + o.ID})
		}
	}
	return all
}

// indexOf returns the index of the Partner API for the first page of the documentation.
func indexOf(m manual) (template.HTML, error) {
	var b strings.Builder
	if err := htmlPages.ExecuteTemplate(&b, "index", m); err != nil {
		return "", fmt.Errorf("render: %w", err)
	}
	return template.HTML(b.String()), nil //nolint:gosec // html/template has made it
}

// errorCodes collects every code with the statuses and operations in which it occurs.
func errorCodes(groups []group) []errorCode {
	found := map[string]*errorCode{}
	for _, g := range groups {
		for _, o := range g.Operations {
			for _, r := range o.Responses {
				for _, code := range r.Codes {
					e := found[code]
					if e == nil {
						e = &errorCode{Code: code}
						found[code] = e
					}
					if !slices.Contains(e.Statuses, r.Status) {
						e.Statuses = append(e.Statuses, r.Status)
					}
					if !slices.ContainsFunc(e.Operations, func(known operation) bool { return known.ID == o.ID }) {
						e.Operations = append(e.Operations, o)
					}
				}
			}
		}
	}
	var out []errorCode
	for _, e := range found {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b errorCode) int {
		return cmp.Or(cmp.Compare(a.Statuses[0], b.Statuses[0]), cmp.Compare(a.Code, b.Code))
	})
	return out
}

// Own reports whether the old anchors are on the contract's own first page.
func (m manual) Own() bool { return m.place != partnerPlace }
