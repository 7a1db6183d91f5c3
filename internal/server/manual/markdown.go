package manual

import (
	"bytes"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// commonMark parses CommonMark with tables. Its output is safe to show: HTML is displayed as text, and links with
// schemes other than those of pages and email lead nowhere.
var commonMark = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone))),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(pageHTML{}, 100))),
)

// renderOptions control how a text is rendered.
type renderOptions struct {
	prefix  string                            // of the anchors of headings
	shift   int                               // a heading "##" becomes level h2+shift
	anchors []string                          // of the headings in their order; nil to make them of their words
	former  map[string][]string               // earlier anchors of a heading, by its anchor
	link    bool                              // headings link to themselves
	entries bool                              // items of lists have anchors, of the date above and their title
	diagram func(source string) template.HTML // draws a block of Mermaid
}

// document is a rendered text with its parts.
type document struct {
	html  template.HTML
	ids   []string // anchors of its headings
	heads []Head   // its headings of the second level
	parts []Part
}

// rendered renders Markdown. Every heading gets an anchor, so that links to it stay valid.
func rendered(src string, o renderOptions) document {
	source := []byte(src)
	tree := commonMark.Parser().Parse(text.NewReader(source))
	var d document
	var begins []int // start of the text below each heading
	var pictures []*ast.FencedCodeBlock
	var date string // the last heading of the third level
	for n := tree.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			words := plain(string(n.Lines().Value(source)))
			id := o.prefix + slug(words)
			if o.prefix != "" {
				id = contractAnchor(id)
			}
			if len(d.ids) < len(o.anchors) {
				id = o.anchors[len(d.ids)]
			}
			for same, n := id, 2; slices.Contains(d.ids, id); n++ {
				id = fmt.Sprint(same, "-", n)
			}
			d.ids = append(d.ids, id)
			if n.Level == 3 {
				date = words
			}
			if n.Level == 2 {
				d.heads = append(d.heads, Head{id, words})
			}
			if len(begins) > 0 {
				d.parts[len(begins)-1].Text = plain(src[begins[len(begins)-1]:n.Lines().At(0).Start])
			}
			begins = append(begins, n.Lines().At(0).Stop)
			if n.Level == 1 {
				d.parts = append(d.parts, Part{"", words, ""})
				continue
			}
			d.parts = append(d.parts, Part{id, words, ""})
			n.SetAttributeString("id", []byte(id))
			n.Level = min(n.Level+o.shift, 6)
			for _, old := range o.former[id] {
				place := ast.NewString([]byte(`<span id="` + template.HTMLEscapeString(old) + `"></span>`))
				place.SetCode(true) // as it is
				n.AppendChild(n, place)
			}
			if o.link {
				sign := ast.NewString([]byte(anchorOf(id)))
				sign.SetCode(true) // unescaped
				n.AppendChild(n, sign)
			}
		case *ast.List:
			if o.entries {
				anchorItems(n, source, date)
			}
		case *ast.FencedCodeBlock:
			if o.diagram != nil && string(n.Language(source)) == "mermaid" {
				pictures = append(pictures, n)
			}
		}
	}
	if len(begins) > 0 {
		d.parts[len(begins)-1].Text = plain(src[begins[len(begins)-1]:])
	}
	for _, n := range pictures {
		tree.ReplaceChild(tree, n, &drawing{html: o.diagram(string(n.Lines().Value(source)))})
	}
	var out bytes.Buffer
	if err := commonMark.Renderer().Render(&out, source, tree); err != nil {
		panic(err) // the buffer and the renderers below do not fail
	}
	d.html = template.HTML(out.String()) //nolint:gosec // of our own documents; HTML in them is written as text
	return d
}

// anchorItems gives the items of a list that begin with a title in bold an anchor and a link to it.
func anchorItems(list *ast.List, source []byte, date string) {
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		block := item.FirstChild()
		if block == nil {
			continue
		}
		title, ok := block.FirstChild().(*ast.Emphasis)
		if !ok || title.FirstChild() == nil {
			continue
		}
		id := changeID(date, strings.TrimSuffix(plain(textOf(title, source)), "."))
		item.SetAttributeString("id", []byte(id))
		sign := ast.NewString([]byte(anchorOf(id)))
		sign.SetCode(true) // as it is
		block.AppendChild(block, sign)
	}
}

// textOf is the text within a node.
func textOf(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(source))
			continue
		}
		b.WriteString(textOf(c, source))
	}
	return b.String()
}

// Text renders a document of the operator: HTML in it is shown as it is written.
func Text(markdown string) template.HTML { return rendered(markdown, renderOptions{}).html }

// anchorOf returns the link behind a heading for mouse users. The contents beside the page have the same links.
func anchorOf(id string) string {
	return ` <a class="anchor" href="#` + template.HTMLEscapeString(id) + `" aria-hidden="true" tabindex="-1">#</a>`
}

// prose is a text of a contract.
type prose struct{ source, prefix string }

// HTML renders the text with headings from the given level. Level 2 is that of the sections of a page.
func (p prose) HTML(level int) template.HTML {
	return rendered(p.source, renderOptions{prefix: p.prefix, shift: level - 2, link: true}).html
}

// Markdown returns the text with its headings moved down by the given number of levels.
func (p prose) Markdown(deeper int) string {
	return headingLine.ReplaceAllString(strings.TrimSpace(p.source), strings.Repeat("#", deeper)+"$0")
}

// parts returns its headings with the text below each.
func (p prose) parts() []Part { return rendered(p.source, renderOptions{prefix: p.prefix}).parts }

func (p prose) ids() []string { return rendered(p.source, renderOptions{prefix: p.prefix}).ids }

var (
	headingLine = regexp.MustCompile(`(?m)^##+ `)
	markup      = regexp.MustCompile("\\]\\([^)]*\\)|[`*|#\\[]|^---+|\\{#[^}]*\\}")
)

// plain returns a text on one line, without Markdown syntax.
func plain(s string) string {
	return strings.Join(strings.Fields(markup.ReplaceAllString(s, " ")), " ")
}

// indent indents a text for a list item.
func indent(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") }

// drawing is a picture among the blocks of a text.
type drawing struct {
	ast.BaseBlock
	html template.HTML
}

var kindDrawing = ast.NewNodeKind("Drawing")

// Kind implements ast.Node.
func (*drawing) Kind() ast.NodeKind { return kindDrawing }

// Dump implements ast.Node.
func (d *drawing) Dump(source []byte, level int) { ast.DumpHelper(d, source, level, nil, nil) }

func draw(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	_, err := w.WriteString(string(n.(*drawing).html))
	return ast.WalkSkipChildren, err
}

// pageHTML renders what differs from plain HTML. Wide parts scroll by keyboard, columns name their cells, and HTML is
// displayed as text.
type pageHTML struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (pageHTML) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, code)
	r.Register(ast.KindCodeBlock, code)
	r.Register(kindDrawing, draw)
	r.Register(ast.KindHTMLBlock, htmlBlock)
	r.Register(ast.KindRawHTML, rawHTML)
	r.Register(extast.KindTable, around(`<div class="scroll" tabindex="0"><table>`+"\n", "</tbody></table></div>\n"))
	r.Register(extast.KindTableHeader, around("<thead><tr>", "</tr>\n</thead>\n<tbody>\n"))
	r.Register(extast.KindTableRow, around("<tr>", "</tr>\n"))
	r.Register(extast.KindTableCell, cell)
}

func around(opening, closing string) renderer.NodeRendererFunc {
	return func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			_, err := w.WriteString(opening)
			return ast.WalkContinue, err
		}
		_, err := w.WriteString(closing)
		return ast.WalkContinue, err
	}
}

func cell(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if n.Parent().Kind() == extast.KindTableHeader {
		return around(`<th scope="col">`, "</th>")(w, source, n, entering)
	}
	return around("<td>", "</td>")(w, source, n, entering)
}

func code(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, err := w.WriteString(`<pre tabindex="0"><code>` + escaped(bytes.TrimRight(n.Lines().Value(source), "\n")))
		return ast.WalkSkipChildren, err
	}
	_, err := w.WriteString("</code></pre>\n")
	return ast.WalkContinue, err
}

func htmlBlock(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	whole := n.Lines().Value(source)
	if b := n.(*ast.HTMLBlock); b.HasClosure() {
		whole = append(bytes.Clone(whole), b.ClosureLine.Value(source)...)
	}
	_, err := w.WriteString("<p>" + escaped(bytes.TrimSpace(whole)) + "</p>\n")
	return ast.WalkContinue, err
}

func rawHTML(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	_, err := w.WriteString(escaped(n.(*ast.RawHTML).Segments.Value(source)))
	return ast.WalkSkipChildren, err
}

func escaped(b []byte) string { return template.HTMLEscapeString(string(b)) }

var notWord = regexp.MustCompile(`[^a-z0-9]+`)

// slug converts a heading to an anchor.
func slug(s string) string {
	return strings.Trim(notWord.ReplaceAllString(strings.ToLower(s), "-"), "-")
}
