// Package picture draws plots for report pages.
package picture

import (
	"bytes"
	"fmt"
	"html/template"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Picture is a figure on a report page.
type Picture struct {
	Title, Text string
	SVG         template.HTML
}

// Render draws p at a width that fits a page.
func Render(p *plot.Plot, title, text string) (Picture, error) {
	canvas := vgsvg.New(18*vg.Centimeter, 9*vg.Centimeter)
	p.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return Picture{}, fmt.Errorf("draw %s: %w", title, err)
	}
	svg := out.Bytes()
	if i := bytes.Index(svg, []byte("<svg")); i > 0 {
		svg = svg[i:]
	}
	return Picture{title, text, template.HTML(svg)}, nil //nolint:gosec // generated here, from numbers
}
