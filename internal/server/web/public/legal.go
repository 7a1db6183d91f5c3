package public

import (
	"html/template"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/server/manual"
	"partnerd/internal/server/web/shell"
)

// legalView is a legal page. If the text has a first heading, that heading is the title.
type legalView struct {
	HTML  template.HTML
	Title bool
}

func (p *Pages) legal(page string) echo.HandlerFunc {
	return func(c echo.Context) error {
		text := p.Legal[page][p.Language(c)]
		return p.RenderPublic(c, "legal", shell.View{Title: "legal." + page, Canonical: p.BaseURL + "/legal/" + page,
			Data: legalView{manual.Text(text), strings.HasPrefix(text, "# ")}})
	}
}
