package internal

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const (
	readmeLines = 150
	readmeWords = 900 // of text and tables; blocks of code and HTML are not counted
	readmeWidth = 120 // characters, outside tables
)

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")
	htmlTag   = regexp.MustCompile(`<[a-z/][^>]*>`)
	anchored  = regexp.MustCompile(`\]\(([^)#\s]*)#([^)\s]+)\)`)
	titled    = regexp.MustCompile(`(?m)^#+ (.+)$`)
	pictured  = regexp.MustCompile(`(?:src|srcset)="([^"]+)"`)
)

// TestTheReadmeIsAFrontPage checks that README.md stays short and that its screenshots exist.
func TestTheReadmeIsAFrontPage(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	lines := 0
	for n, line := range numbered(text) {
		lines = n
		if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > readmeWidth &&
			!strings.HasPrefix(line, "|") {
			t.Errorf("README.md:%d has %d characters, at most %d are allowed", n, width, readmeWidth)
		}
	}
	if lines > readmeLines {
		t.Errorf("README.md has %d lines, at most %d are allowed", lines, readmeLines)
	}
	prose := htmlTag.ReplaceAllString(codeBlock.ReplaceAllString(text, ""), "")
	if words := len(strings.Fields(prose)); words > readmeWords {
		t.Errorf("README.md has %d words, at most %d are allowed", words, readmeWords)
	}
	pictures := pictured.FindAllStringSubmatch(text, -1)
	if len(pictures) == 0 {
		t.Error("no picture was found: the test cannot read README.md")
	}
	for _, m := range pictures {
		if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(m[1]))); err != nil {
			t.Errorf("README.md shows %s, which does not exist", m[1])
		}
	}
}

// TestLinksOfDocumentsLeadToHeadings checks that every link of a Markdown file to a heading of the repository finds
// that heading.
func TestLinksOfDocumentsLeadToHeadings(t *testing.T) {
	t.Parallel()
	texts := tracked(t)
	found := 0
	for name, text := range texts {
		// These belong to the site; its own test checks the headings.
		if filepath.Ext(name) != ".md" || strings.HasPrefix(name, "internal/server/manual/") {
			continue
		}
		for line, content := range numbered(text) {
			for _, m := range anchored.FindAllStringSubmatch(content, -1) {
				target := name
				if m[1] != "" {
					target = filepath.ToSlash(filepath.Join(filepath.Dir(name), m[1]))
				}
				in, ours := texts[target]
				if strings.Contains(m[1], "://") || !ours {
					continue
				}
				found++
				if !anchorsOf(in)[m[2]] {
					t.Errorf("%s:%d links to %s#%s, which %s does not have", name, line, m[1], m[2], target)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no link was found: the test looks in the wrong place")
	}
}

// anchorsOf returns the anchors that a code host generates for the headings of a Markdown file.
func anchorsOf(text string) map[string]bool {
	anchors := map[string]bool{}
	for _, m := range titled.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		anchors[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return anchors
}
