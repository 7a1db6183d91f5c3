package public

import (
	"net/http"
	"regexp"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/consultation"
	"partnerd/internal/server/web/shell"
)

var waiverVersion = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}$`)

// accessibility serves the accessibility statement that the law requires.
func (p *Pages) accessibility(c echo.Context) error {
	return p.RenderPublic(c, "accessibility", shell.View{Title: "accessibility.title"})
}

type waiverView struct{ Version, Text string }

// waiver shows one version of the text that clients acknowledge before a consultation.
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

// newestWaiver redirects to the current version of that text.
func (p *Pages) newestWaiver(c echo.Context) error {
	address := "/legal/waiver/" + consultation.WaiverVersion
	if q := c.Request().URL.RawQuery; q != "" {
		address += "?" + q
	}
	return c.Redirect(http.StatusFound, address)
}
