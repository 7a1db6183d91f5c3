package web

import (
	"fmt"
	"html"
	"html/template"
	"regexp"
	"strings"
)

// markdown renders the subset of Markdown that the contract uses: headings, paragraphs, lists, tables, fenced code, and
// inline code, strong text and links. Everything else, HTML included, is shown as it is written. A heading "##" becomes
// level h2+shift; its id is prefix plus its words, so that links to it stay valid.
func markdown(src, prefix string, shift int) template.HTML {
	m := mdWriter{prefix: prefix, shift: shift}
	for _, block := range blocks(src) {
		m.block(block)
	}
	return template.HTML(m.out.String())
}

// blocks splits at blank lines (but not inside fences) and before headings and lists.
func blocks(src string) [][]string {
	var out [][]string
	var cur []string
	flush := func() {
		if len(cur) > 0 {
			out, cur = append(out, cur), nil
		}
	}
	fenced := false
	for line := range strings.Lines(src) {
		line = strings.TrimRight(line, " \n")
		fence := strings.HasPrefix(line, "```")
		switch {
		case fenced:
			cur = append(cur, line)
			if fence {
				fenced = false
				flush()
			}
			continue
		case fence:
			flush()
			fenced = true
		case line == "":
			flush()
			continue
		case headingLine.MatchString(line), len(cur) > 0 && itemLine.MatchString(line) && !itemLine.MatchString(cur[0]):
			flush()
		}
		cur = append(cur, line)
		if headingLine.MatchString(line) {
			flush()
		}
	}
	flush()
	return out
}

var (
	headingLine = regexp.MustCompile(`^(#{2,4}) (.+)$`)
	itemLine    = regexp.MustCompile(`^(?:(-)|\d+\.) +(.+)$`)
	tableRule   = regexp.MustCompile(`^\|[-:| ]+\|$`)
)

type mdWriter struct {
	out    strings.Builder
	prefix string
	shift  int
}

func (m *mdWriter) block(lines []string) {
	first := lines[0]
	switch {
	case strings.HasPrefix(first, "```"):
		code := strings.Join(lines[1:max(1, len(lines)-1)], "\n")
		fmt.Fprintf(&m.out, "<pre tabindex=\"0\"><code>%s</code></pre>\n", html.EscapeString(code))
	case headingLine.MatchString(first):
		h := headingLine.FindStringSubmatch(first)
		level := len(h[1]) + m.shift
		fmt.Fprintf(&m.out, "<h%d id=\"%s%s\">%s</h%d>\n", level, m.prefix, slug(h[2]), inline(h[2]), level)
	case itemLine.MatchString(first):
		m.list(lines)
	case len(lines) > 1 && tableRule.MatchString(lines[1]):
		m.table(lines)
	default:
		fmt.Fprintf(&m.out, "<p>%s</p>\n", inline(strings.Join(lines, " ")))
	}
}

func (m *mdWriter) list(lines []string) {
	tag := "ol"
	if itemLine.FindStringSubmatch(lines[0])[1] != "" {
		tag = "ul"
	}
	var items []string
	for _, line := range lines {
		if item := itemLine.FindStringSubmatch(line); item != nil {
			items = append(items, item[2])
		} else {
			items[len(items)-1] += " " + strings.TrimSpace(line)
		}
	}
	fmt.Fprintf(&m.out, "<%s>\n", tag)
	for _, item := range items {
		fmt.Fprintf(&m.out, "<li>%s</li>\n", inline(item))
	}
	fmt.Fprintf(&m.out, "</%s>\n", tag)
}

func (m *mdWriter) table(lines []string) {
	m.out.WriteString("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead>" + tableRow(lines[0], "th scope=\"col\"", "th") + "</thead>\n<tbody>\n")
	for _, line := range lines[2:] {
		m.out.WriteString(tableRow(line, "td", "td"))
	}
	m.out.WriteString("</tbody></table></div>\n")
}

func tableRow(line, open, end string) string {
	var b strings.Builder
	b.WriteString("<tr>")
	for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
		fmt.Fprintf(&b, "<%s>%s</%s>", open, inline(strings.TrimSpace(cell)), end)
	}
	b.WriteString("</tr>\n")
	return b.String()
}

var inlineMarks = regexp.MustCompile("`([^`]+)`|\\*\\*(.+?)\\*\\*|\\[([^\\]]+)\\]\\(((?:https?://|/|#)[^)\\s]*)\\)")

func inline(s string) string {
	var b strings.Builder
	last := 0
	for _, i := range inlineMarks.FindAllStringSubmatchIndex(s, -1) {
		b.WriteString(html.EscapeString(s[last:i[0]]))
		last = i[1]
		switch {
		case i[2] >= 0:
			b.WriteString("<code>" + html.EscapeString(s[i[2]:i[3]]) + "</code>")
		case i[4] >= 0:
			b.WriteString("<strong>" + inline(s[i[4]:i[5]]) + "</strong>")
		default:
			fmt.Fprintf(&b, "<a href=\"%s\">%s</a>", html.EscapeString(s[i[8]:i[9]]), inline(s[i[6]:i[7]]))
		}
	}
	b.WriteString(html.EscapeString(s[last:]))
	return b.String()
}

var notWord = regexp.MustCompile(`[^a-z0-9]+`)

// slug is a heading as an anchor.
func slug(s string) string {
	return strings.Trim(notWord.ReplaceAllString(strings.ToLower(s), "-"), "-")
}
