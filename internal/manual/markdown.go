package manual

import (
	"bytes"
	"html/template"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// commonMark reads CommonMark with tables. What it renders is safe to show: HTML appears as it is written, and links
// with other schemes than those of pages and mail lead nowhere.
var commonMark = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone))),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(pageHTML{}, 100))),
)

// markdown renders the contract's texts. A heading "##" becomes level h2+shift; its id is prefix plus its words, so
// that links to it stay valid.
func markdown(src, prefix string, shift int) template.HTML {
	source := []byte(src)
	doc := commonMark.Parser().Parse(text.NewReader(source))
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			h.SetAttributeString("id", []byte(prefix+slug(string(h.Lines().Value(source)))))
			h.Level = min(h.Level+shift, 6)
		}
	}
	var out bytes.Buffer
	if err := commonMark.Renderer().Render(&out, source, doc); err != nil {
		panic(err) // the buffer and the renderers below do not fail
	}
	return template.HTML(out.String()) //nolint:gosec // of our own documents; HTML in them is written as text
}

// pageHTML renders what differs from plain HTML: wide parts scroll by keyboard, columns name their cells, HTML is text.
type pageHTML struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (pageHTML) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, code)
	r.Register(ast.KindCodeBlock, code)
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

// slug is a heading as an anchor.
func slug(s string) string {
	return strings.Trim(notWord.ReplaceAllString(strings.ToLower(s), "-"), "-")
}
