package manual

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Feed is the address of the changelog's Atom feed.
const Feed = Root + "/changelog.atom"

// change is an entry of the changelog.
type change struct {
	ID, API, Kind string
	At            time.Time // the beginning of its date
	Title, Text   string    // Text is Markdown
}

// kinds are the headings that entries stand under.
var kinds = []string{"Added", "Changed", "Fixed", "Documentation"}

var (
	changeStart = regexp.MustCompile(`^- \*\*(.+?)\.\*\* (.+)$`)
	dateLine    = regexp.MustCompile(`^### (\d{4}-\d{2}-\d{2})$`)
)

// changeID is the anchor of an entry.
func changeID(date, title string) string { return date + "-" + slug(title) }

// Changes is what changed in the contracts that partners use, in Markdown.
func (f Facts) Changes() string {
	_, rest, _ := strings.Cut(f.Changelog, "\n## ")
	var kept []string
	for _, part := range strings.Split(rest, "\n## ") {
		if !strings.HasPrefix(part, "Desk API") && (f.Sandbox() || !strings.HasPrefix(part, "Sandbox API")) {
			kept = append(kept, "## "+strings.TrimSpace(part))
		}
	}
	return strings.Join(kept, "\n\n")
}

// changes are its entries, the newest first. An error means that one stands under no date or no kind, or has no title,
// or the title of another.
func (f Facts) changes() ([]change, error) {
	var all []change
	var at change
	var date string
	seen := map[string]bool{}
	for line := range strings.SplitSeq(f.Changes(), "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			at, date = change{API: line[3:]}, ""
		case dateLine.MatchString(line):
			date = line[4:]
			begins, err := time.Parse(time.DateOnly, date)
			if err != nil {
				return nil, fmt.Errorf("changelog: %w", err)
			}
			at = change{API: at.API, At: begins}
		case strings.HasPrefix(line, "#### ") && slices.Contains(kinds, line[5:]):
			at.Kind = line[5:]
		case strings.HasPrefix(line, "- "):
			m := changeStart.FindStringSubmatch(line)
			if m == nil || date == "" || at.Kind == "" {
				return nil, fmt.Errorf("changelog: %q has no title, date or kind", line)
			}
			c := at
			c.ID, c.Title, c.Text = changeID(date, m[1]), m[1], m[2]
			if seen[c.ID] {
				return nil, fmt.Errorf("changelog: two entries are called %q", c.ID)
			}
			seen[c.ID] = true
			all = append(all, c)
		case strings.HasPrefix(line, "  ") && len(all) > 0:
			all[len(all)-1].Text += "\n" + strings.TrimSpace(line)
		case strings.TrimSpace(line) != "":
			return nil, fmt.Errorf("changelog: %q is no heading and belongs to no entry", line)
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return b.At.Compare(a.At) })
	return all, nil
}

type atomLink struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
}

type atomText struct {
	Type string `xml:"type,attr"`
	Text string `xml:",chardata"`
}

type atomTerm struct {
	Term string `xml:"term,attr"`
}

type atomEntry struct {
	ID       string   `xml:"id"`
	Title    string   `xml:"title"`
	Updated  string   `xml:"updated"`
	Link     atomLink `xml:"link"`
	Category atomTerm `xml:"category"`
	Content  atomText `xml:"content"`
}

type atomFeed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	Base    string      `xml:"xml:base,attr"`
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Updated string      `xml:"updated"`
	Author  string      `xml:"author>name"`
	Links   []atomLink  `xml:"link"`
	Entries []atomEntry `xml:"entry"`
}

// NewFeed is the changelog as an Atom feed (RFC 4287).
func NewFeed(f Facts) ([]byte, error) {
	all, err := f.changes()
	if err != nil {
		return nil, err
	}
	page := f.Base + Root + "/changelog"
	feed := atomFeed{Base: f.Base, ID: f.Base + Feed, Title: "API changelog", Author: f.Base,
		Links: []atomLink{{"self", f.Base + Feed}, {"alternate", page}}}
	for i, c := range all {
		updated := c.At.Format(time.RFC3339)
		if i == 0 {
			feed.Updated = updated
		}
		feed.Entries = append(feed.Entries, atomEntry{ID: page + "#" + c.ID, Title: c.API + ": " + c.Title,
			Updated: updated, Link: atomLink{"alternate", page + "#" + c.ID}, Category: atomTerm{c.Kind},
			Content: atomText{"html", string(rendered(c.Text, renderOptions{}).html)}})
	}
	out, err := xml.MarshalIndent(feed, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write feed: %w", err)
	}
	return append([]byte(xml.Header), append(out, '\n')...), nil
}
