package manual

import (
	"embed"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"
	texttemplate "text/template"

	"partnerd/internal/base/text"
)

// Facts are the details of a deployment that the documentation shows.
type Facts struct {
	Base      string    // URL of the service, without a trailing slash
	Partner   []byte    // published contract of the Partner API
	Platform  []byte    // of the Platform API
	Player    []byte    // of the Sandbox API; nil in live
	Changelog string    // what changed in the contracts, in Markdown
	Waiver    string    // version of the waiver's text
	Steps     []Step    // what moves a consultation
	Portal    string    // path where a partner creates applications; empty when there is none
	Downloads Downloads // packages to install; empty for none
	Contact   string    // whom to write to; empty when nobody is named
	Security  string    // whom to report a vulnerability to; empty when nobody is named
}

// Sandbox reports whether money, lawyers and calls are simulated.
func (f Facts) Sandbox() bool { return f.Player != nil }

// Section is a group of pages in the navigation.
type Section string

// The sections in their order.
const (
	Start     Section = "start"
	Topics    Section = "topics"
	Test      Section = "test"
	Live      Section = "live"
	Reference Section = "reference"
	More      Section = "more"
)

// sections are all of them with their English names.
var sections = []struct {
	id   Section
	name string
}{
	{Start, "Get started"}, {Topics, "Guides"}, {Test, "Test"}, {Live, "Go live"}, {Reference, "API reference"},
	{More, "Resources"},
}

// Sections lists them.
func Sections() (all []Section) {
	for _, s := range sections {
		all = append(all, s.id)
	}
	return all
}

// Page is a page of the documentation in one language.
type Page struct {
	Path     string
	Section  Section
	Sub      bool // belongs to the last page before it without Sub
	Title    string
	Summary  string // a sentence or two
	English  bool   // in English, whatever the language of the site
	Body     template.HTML
	Markdown string // its Markdown version
	Heads    []Head
	Parts    []Part
}

// Head is a heading below the title.
type Head struct{ ID, Title string }

// Part is a unit of the search: a heading with the text below it.
type Part struct{ ID, Title, Text string }

// Site is the documentation in one language, with its pages in the order of the navigation.
type Site struct {
	Lang  string
	Pages []Page

	folded [][2]string // folded title and text of every part, in the order of the pages
}

// guides lists the guides in the order of the navigation. A guide is guides/<language>/<name>.md: a heading, a summary
// paragraph, then the rest.
var guides = []struct {
	name    string
	section Section
	sandbox bool // absent in live
}{
	{"overview", Start, false}, {"quickstart", Start, false}, {"sdks", Start, false},
	{"linking", Topics, false}, {"tokens", Topics, false}, {"wallet", Topics, false}, {"life", Topics, false},
	{"webhooks", Topics, false}, {"idempotency", Topics, false}, {"pagination", Topics, false},
	{"recipes", Topics, false},
	{"testing", Test, false}, {"try", Test, true},
	{"going-live", Live, false}, {"security", Live, false},
	{"errors", More, false}, {"limits", More, false}, {"glossary", More, false},
	{"changelog", More, false}, {"versions", More, false}, {"support", More, false},
}

// former are the earlier anchors of headings, by page and current anchor. Links to them stay valid.
var former = map[string]map[string][]string{
	"overview": {"where-to-start": {"where-to-begin"}, "how-it-works": {"how-it-fits-together"}},
	"quickstart": {"3-check-that-the-client-is-ready": {"3-make-sure-that-the-client-can-start"},
		"6-follow-the-consultation": {"6-follow-it-to-the-end"}},
	"testing": {"what-is-simulated": {"what-is-simulated-here"}, "advance-the-clock": {"let-time-pass"},
		"choose-a-scenario": {"choose-what-happens"}, "bring-a-consultation-to-a-status": {"run-to-a-status",
			"go-to-a-status"},
		"test-clients-and-their-inbox":    {"test-clients-and-their-messages"},
		"your-own-lawyers":                {"lawyers-of-your-own"},
		"where-to-find-the-sandbox":       {"where-the-sandbox-is"},
		"what-to-test-before-you-go-live": {"what-to-try-before-you-go-live"}},
	"going-live": {"before-you-go-live": {"before"}, "what-changes-in-production": {"what-changes"},
		"how-to-go-live": {"how-to-get-there"}, "after-you-go-live": {"afterwards"}},
	"linking": {"steps": {"the-steps"}, "identify-the-client": {"who-the-client-is"},
		"disconnect-a-client": {"ending-a-link"}, "troubleshooting": {"when-it-goes-wrong"}},
	"tokens": {"use-an-access-token": {"using-an-access-token"},
		"refresh-without-losing-the-client": {"refreshing-without-losing-the-client"},
		"helpers-for-typescript-and-python": {"ready-made-for-typescript-and-python"},
		"when-a-refresh-fails":              {"when-a-refresh-is-refused"},
		"application-credentials":           {"credentials-of-the-application"}},
	"wallet": {"top-up": {"topping-up"}},
	"life": {"states": {"the-states"}, "time-limits": {"the-times-that-matter"}, "end-reasons": {"why-it-ended"},
		"cancel-a-consultation": {"cancelling"}, "note-preview": {"the-note"}},
	"idempotency": {"send-an-idempotency-key": {"how-to"}, "responses": {"what-comes-back"},
		"when-to-retry": {"when-to-repeat"}},
	"errors": {"error-format": {"what-an-error-looks-like"}, "which-errors-to-retry": {"which-to-repeat"},
		"error-codes": {"codes"}},
	"webhooks": {"handle-a-webhook": {"a-receiver-that-is-right"}, "code-samples": {"code"},
		"event-ordering": {"order-and-the-race-with-the-201"}},
	"pagination": {"request-pages": {"how-to"}, "what-you-can-rely-on": {"what-to-rely-on"}},
	"limits":     {"rate-limits": {"calls"}, "timeouts-and-lifetimes": {"times"}},
}

// Root is the path of the documentation.
const Root = "/docs"

//go:embed guides
var guideFiles embed.FS

// New creates the documentation in every language of langs. The first language determines the anchors of headings. An
// error means that a contract or a guide is invalid.
func New(f Facts, langs ...string) ([]Site, error) {
	manuals, err := readAll(f)
	if err != nil {
		return nil, err
	}
	if _, err := f.changes(); err != nil {
		return nil, err
	}
	var reference []Page
	for _, m := range manuals {
		pages, err := m.pages()
		if err != nil {
			return nil, err
		}
		reference = append(reference, pages...)
	}
	var sites []Site
	anchors := map[string][]string{}
	for _, lang := range langs {
		s := Site{Lang: lang}
		w := writer{f, lang, manuals}
		for i, g := range guides {
			if g.section == More && guides[i-1].section != More {
				s.Pages = append(s.Pages, reference...)
			}
			if g.sandbox && !f.Sandbox() {
				continue
			}
			p, err := w.guide(g.name, anchors)
			if err != nil {
				return nil, fmt.Errorf("guide %s in %s: %w", g.name, lang, err)
			}
			p.Section = g.section
			s.Pages = append(s.Pages, p)
		}
		for _, p := range s.Pages {
			for _, part := range p.Parts {
				s.folded = append(s.folded, [2]string{fold(part.Title), fold(part.Text)})
			}
		}
		sites = append(sites, s)
	}
	return sites, nil
}

// readAll reads the contracts of the deployment.
func readAll(f Facts) ([]manual, error) {
	var all []manual
	for _, c := range []struct {
		at       place
		contract []byte
	}{{partnerPlace, f.Partner}, {platformPlace, f.Platform}, {sandboxPlace, f.Player}} {
		if c.at == sandboxPlace && c.contract == nil {
			continue
		}
		m, err := read(c.at, c.contract, f.Base, f.Sandbox())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.at.Contract, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// writer writes the guides of a language.
type writer struct {
	Facts
	Lang    string
	manuals []manual
}

// guide reads a guide. anchors holds the anchors of its headings in the first language, which all languages share.
func (w writer) guide(name string, anchors map[string][]string) (Page, error) {
	source, err := guideFiles.ReadFile("guides/" + w.Lang + "/" + name + ".md")
	if err != nil {
		return Page{}, err
	}
	t, err := texttemplate.New(name).Option("missingkey=error").Parse(string(source))
	if err != nil {
		return Page{}, err
	}
	var out strings.Builder
	if err := t.Execute(&out, w); err != nil {
		return Page{}, err
	}
	p := Page{Path: Root, Markdown: out.String()}
	if w.Lang == "fr" {
		p.Markdown = french(p.Markdown)
	}
	if name != "overview" {
		p.Path += "/" + name
	}
	var ok bool
	if p.Title, p.Summary, ok = titleOf(p.Markdown); !ok {
		return Page{}, fmt.Errorf("it does not begin with a heading and a paragraph")
	}
	doc := rendered(p.Markdown, renderOptions{anchors: anchors[name], former: former[name], diagram: w.diagram,
		link: true, entries: name == "changelog"})
	if anchors[name] == nil {
		anchors[name] = doc.ids
	}
	p.Body, p.Heads, p.Parts = doc.html, doc.heads, doc.parts
	if name == "overview" {
		index, err := indexOf(w.manuals[0])
		if err != nil {
			return Page{}, err
		}
		p.Body += index
	}
	return p, nil
}

// french applies French typography to a text, except in code.
func french(markdown string) string {
	return outsideCode.ReplaceAllStringFunc(markdown, func(s string) string {
		if strings.HasPrefix(s, "`") {
			return s
		}
		return text.French(s)
	})
}

// outsideCode splits a text into code blocks, inline code and other text.
var outsideCode = regexp.MustCompile("(?s)```.*?```|`[^`]*`|[^`]+")

// titleOf takes the first heading and the paragraph after it.
func titleOf(markdown string) (title, summary string, ok bool) {
	title, rest, _ := strings.Cut(markdown, "\n\n")
	summary, _, _ = strings.Cut(rest, "\n\n")
	title, ok = strings.CutPrefix(title, "# ")
	return title, strings.Join(strings.Fields(summary), " "), ok && summary != ""
}

// Find returns the page at a path, or false if there is none.
func (s Site) Find(path string) (Page, bool) {
	i := slices.IndexFunc(s.Pages, func(p Page) bool { return p.Path == path })
	if i < 0 {
		return Page{}, false
	}
	return s.Pages[i], true
}

// LLMs returns the index for language models: a list of the pages in Markdown (llmstxt.org).
func (s Site) LLMs(base string) string {
	var b strings.Builder
	home := s.Pages[0]
	fmt.Fprintf(&b, "# %s\n\n> %s\n", home.Title, home.Summary)
	for _, section := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n", section.name)
		for _, p := range s.Pages {
			if p.Section == section.id {
				fmt.Fprintf(&b, "- [%s](%s%s.md): %s\n", p.Title, base, p.Path, p.Summary)
			}
		}
	}
	return b.String()
}
