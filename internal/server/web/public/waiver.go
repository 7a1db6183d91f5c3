package public

import (
	"net/http"
	"regexp"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/consultation"
	"partnerd/internal/server/web/shell"
)

var waiverVersion = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}$`)

// accessibility is the statement that the law asks for.
func (p *Pages) accessibility(c echo.Context) error {
	return p.RenderPublic(c, "accessibility", shell.View{Title: "accessibility.title"})
}

type waiverView struct{ Version, Text string }

// waiver shows a version of the text that a client acknowledges before a consultation.
func (p *Pages) waiver(c echo.Context) error {
	version := c.Param("version")
	text, ok := "", false
	if waiverVersion.MatchString(version) {
		text, ok = consultation.WaiverText(version, p.Language(c))
	}
	if !ok {
		return shell.StatusError(http.StatusNotFound)
	}
	return p.RenderPublic(c, "waiver", shell.View{Title: "waiver.title", Data: waiverView{version, text}})
}

// newestWaiver leads to the text that clients acknowledge now.
func (p *Pages) newestWaiver(c echo.Context) error {
	address := "/legal/waiver/" + consultation.WaiverVersion
	if q := c.Request().URL.RawQuery; q != "" {
		address += "?" + q
	}
	return c.Redirect(http.StatusFound, address)
}
