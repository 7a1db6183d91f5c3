package internal

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// series are the numbers that code and tests may name, and the file that defines those of each letter. A definition is
// a table row that begins with the number.
var series = map[string]string{
	"R": "openapi/spec/requirements.md", "X": "openapi/spec/states.md",
	"H": "openapi/spec/decisions.md", "T": "openapi/spec/traps.md",
}

const sectionsFile = "openapi/spec/sections.md"

var (
	number     = regexp.MustCompile(`\b[RXHT][0-9]{1,3}\b`)
	called     = regexp.MustCompile(`\b(requirement|decision|trap|transition) ([RXHT][0-9]{1,3})\b`)
	definition = regexp.MustCompile(`(?m)^\| ([RXHT][0-9]+) \|`)
	heading    = regexp.MustCompile(`(?m)^#+ ([0-9]+(?:\.[0-9]+)?)\.? `)
	section    = regexp.MustCompile(`(RFC [0-9]+,?[\s/#*]+)?[Ss]ections?[\s/#*]+([0-9]+(?:\.[0-9]+)*(?:(?:,[\s/#*]+|,?[\s/#*]+(?:and|to)[\s/#*]+)[0-9]+(?:\.[0-9]+)*)*)`)
	relative   = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)
)

// kinds are the names of the numbers of each series.
var kinds = map[string]string{"R": "requirement", "X": "transition", "H": "decision", "T": "trap"}

// tracked returns every handwritten file that may contain references, by its path from the root.
func tracked(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "--full-name", "..").
		Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	texts := map[string]string{}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSuffix(name, "\n")
		known := slices.Contains([]string{".go", ".yaml", ".yml", ".sql", ".md", ".html", ".sh", ".js", ".ts", ".css"},
			filepath.Ext(name)) ||
			name == "Makefile" || strings.HasPrefix(name, ".ci/")
		if !known || strings.HasPrefix(name, "gen/") { // it repeats the contracts
			continue
		}
		raw, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
		if os.IsNotExist(err) { // removed, and not committed yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(raw)
	}
	if len(texts) < 100 {
		t.Fatalf("only %d files were found: the test looks in the wrong place", len(texts))
	}
	return texts
}

// TestEveryNumberLeadsToItsRule checks that every number such as R42 or H47 in code and tests is defined exactly once,
// and that no number is skipped.
func TestEveryNumberLeadsToItsRule(t *testing.T) {
	t.Parallel()
	texts := tracked(t)
	defined := map[string]bool{}
	for letter, file := range series {
		highest := 0
		for _, m := range definition.FindAllStringSubmatch(texts[file], -1) {
			if defined[m[1]] {
				t.Errorf("%s defines %s twice", file, m[1])
			}
			if !strings.HasPrefix(m[1], letter) {
				t.Errorf("%s defines %s, which belongs in %s", file, m[1], series[m[1][:1]])
			}
			defined[m[1]] = true
			n, _ := strconv.Atoi(m[1][1:])
			highest = max(highest, n)
		}
		for n := 1; n <= highest; n++ {
			if !defined[letter+strconv.Itoa(n)] {
				t.Errorf("%s leaves out %s%d", file, letter, n)
			}
		}
	}
	for name, text := range texts {
		if name == "internal/references_test.go" {
			continue
		}
		for line, content := range numbered(text) {
			for _, n := range number.FindAllString(content, -1) {
				if !defined[n] {
					t.Errorf("%s:%d names %s, which openapi/spec does not explain", name, line, n)
				}
			}
			for _, m := range called.FindAllStringSubmatch(content, -1) {
				if letter := m[2][:1]; kinds[letter] != m[1] {
					t.Errorf("%s:%d calls %s a %s: it is a %s", name, line, m[2], m[1], kinds[letter])
				}
			}
		}
	}
}

// TestEverySectionExists checks that every section mentioned, except those of an RFC, exists in the specification.
func TestEverySectionExists(t *testing.T) {
	t.Parallel()
	texts := tracked(t)
	headings := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(texts[sectionsFile], -1) {
		if headings[m[1]] {
			t.Errorf("%s has section %s twice", sectionsFile, m[1])
		}
		headings[m[1]] = true
	}
	if len(headings) == 0 {
		t.Fatalf("%s has no sections", sectionsFile)
	}
	for name, text := range texts {
		for _, m := range section.FindAllStringSubmatchIndex(text, -1) {
			if m[2] >= 0 {
				continue
			}
			for _, n := range regexp.MustCompile(`[0-9.]+`).FindAllString(text[m[4]:m[5]], -1) {
				if !headings[strings.TrimRight(n, ".")] {
					t.Errorf("%s:%d names section %s, which %s does not have", name, 1+strings.Count(text[:m[0]], "\n"),
						n, sectionsFile)
				}
			}
		}
	}
}

// TestLinksOfDocumentsLeadSomewhere checks that every link of a Markdown file into the repository has a target.
func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	found := 0
	for name, text := range tracked(t) {
		// These belong to the site; its own test checks the pages.
		if filepath.Ext(name) != ".md" || strings.HasPrefix(name, "internal/server/manual/") {
			continue
		}
		for line, content := range numbered(text) {
			for _, m := range relative.FindAllStringSubmatch(content, -1) {
				u, err := url.Parse(m[1])
				if err != nil || u.IsAbs() {
					continue
				}
				found++
				target := filepath.Join(filepath.Dir(name), u.Path)
				if strings.HasPrefix(target, "..") {
					t.Errorf("%s:%d points out of the repository: %s", name, line, m[1])
				} else if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(target))); err != nil {
					t.Errorf("%s:%d points to %s, which does not exist", name, line, m[1])
				}
			}
		}
	}
	if found == 0 {
		t.Error("no link was found: the test looks in the wrong place")
	}
}

// numbered yields the lines of a text, from 1.
func numbered(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		n := 0
		for line := range strings.Lines(text) {
			if n++; !yield(n, line) {
				return
			}
		}
	}
}
