package manual

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// Place says where a contract is documented and published.
type Place struct {
	Path     string // of the page
	Contract string // address of the published contract, without its ending
	Other    string // path of the other contract's page
	What     string // the other one is about
}

// The manuals that there are.
var (
	Partner = Place{"/docs", "/openapi", "/docs/platform",
		"Platform API: webhook settings, delivery log and redelivery, for your own servers"}
	Platform = Place{"/docs/platform", "/openapi/platform", "/docs",
		"Partner API: clients, wallet, consultations, and what each webhook says"}
	Sandbox = Place{"/docs/sandbox", "/openapi/sandbox", "/docs",
		"Partner API: clients, wallet, consultations, and what each webhook says"}
)

//go:embed manual.html
var source string

var page = template.Must(template.New("manual").Parse(source))

// Render makes the manual of a contract: what stands between the head and the foot of its page, in English. base is the
// address of the service, for the examples. An error means that the contract is none.
func Render(p Place, contract []byte, base string) (template.HTML, error) {
	d, err := read(p, contract, base)
	if err != nil {
		return "", err
	}
	var body strings.Builder
	if err := page.ExecuteTemplate(&body, "manual", d); err != nil {
		return "", fmt.Errorf("render: %w", err)
	}
	return template.HTML(body.String()), nil //nolint:gosec // html/template has made it
}

// manual is what the template is made of.
type manual struct {
	Place
	Title, Version, Base string
	Summary              string
	Lead                 template.HTML
	Chapters             []chapter
	Groups               []group
	Webhooks             group
	Scopes               []row
	Codes                []errorCode
	Snippets             []snippet
}

type chapter struct {
	ID, Title string
	HTML      template.HTML
}

// group is a tag of the contract with its operations.
type group struct {
	ID, Name   string
	HTML       template.HTML
	Operations []operation
}

type operation struct {
	ID, Method, Path, Summary string
	HTML                      template.HTML
	Scopes                    []string
	Open                      bool // needs no token
	Basic                     bool // needs the credentials of the application
	Parameters                []row
	BodyType                  string
	Body                      []row
	Examples                  []example
	Curl                      string
	Responses                 []response
}

// row is a field, a parameter or a header.
type row struct {
	Name, In, Type string
	Required       bool
	Notes          []string // constraints
	HTML           template.HTML
}

type example struct{ Summary, Text string }

type response struct {
	Status   string
	HTML     template.HTML
	Success  bool
	Codes    []string
	Headers  []row
	Body     []row
	Examples []example
}

type errorCode struct {
	Code       string
	Statuses   []string
	Operations []string // ids
}

func read(p Place, contract []byte, base string) (manual, error) {
	s, err := readSpec(contract)
	if err != nil {
		return manual{}, err
	}
	info := s.root.get("info")
	d := manual{Place: p, Title: info.text("title"), Version: info.text("version"), Summary: info.text("summary"), Base: base}
	if d.Snippets, err = readSnippets(); err != nil {
		return manual{}, err
	}
	d.Lead, d.Chapters = splitChapters(info.text("description"))
	for name, text := range s.root.get("components", "securitySchemes", "oauth2", "flows", "authorizationCode", "scopes").pairs() {
		d.Scopes = append(d.Scopes, row{Name: name, HTML: markdown(text.Value, "", 0)})
	}
	byTag := map[string]*group{}
	for _, tag := range s.root.get("tags").items() {
		g := group{ID: "tag-" + slug(tag.text("name")), Name: tag.text("name")}
		g.HTML = markdown(tag.text("description"), g.ID+"-", 1)
		d.Groups = append(d.Groups, g)
	}
	for i := range d.Groups {
		byTag[d.Groups[i].Name] = &d.Groups[i]
	}
	for _, o := range slices.Concat(s.operations("paths", base), s.operations("webhooks", "")) {
		g := byTag[o.tag]
		if g == nil {
			return manual{}, fmt.Errorf("operation %s has no known tag", o.ID)
		}
		g.Operations = append(g.Operations, o.operation)
	}
	d.Codes = errorCodes(d.Groups)
	for i, g := range d.Groups {
		if g.Name == "Webhooks" {
			d.Webhooks = g
			d.Groups = slices.Delete(d.Groups, i, i+1)
			break
		}
	}
	return d, nil
}

// splitChapters makes a chapter of every "##" heading; what stands before the first is the lead.
func splitChapters(src string) (template.HTML, []chapter) {
	lead, rest, _ := strings.Cut(src, "\n## ")
	var out []chapter
	for _, part := range strings.Split(rest, "\n## ") {
		title, body, _ := strings.Cut(part, "\n")
		if title != "" {
			out = append(out, chapter{ID: slug(title), Title: title, HTML: markdown(body, slug(title)+"-", 0)})
		}
	}
	return markdown(lead, "", 0), out
}

// errorCodes collects every code with the statuses and operations where it occurs.
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
					e.Statuses = appendOnce(e.Statuses, r.Status)
					e.Operations = appendOnce(e.Operations, o.ID)
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

func appendOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
