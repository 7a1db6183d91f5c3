package public

import (
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/status"
	"partnerd/internal/server/web/shell"
)

// statusView is the page with the service status.
type statusView struct {
	status.Report
	All     []status.Part
	Since   *time.Time // the first measured day; nil for none
	Worked  float64    // uptime in percent of the measured minutes
	Total   status.Promises
	Counted int // number of days in Total
}

// StatusPage shows the current and past status of the service.
func (p *Pages) StatusPage(c echo.Context, code int, r status.Report) error {
	v := statusView{Report: r, All: status.Parts()}
	worked, of := 0, 0
	for i, d := range r.Days {
		if !d.Measured {
			continue
		}
		if v.Since == nil {
			v.Since = &r.Days[i].Date
		}
		worked, of = worked+d.Minutes, of+d.Of
	}
	if of > 0 {
		v.Worked = min(100, 100*float64(worked)/float64(of))
	}
	v.Total, v.Counted = status.Total(r.Days)
	p.SetHeaders(c)
	p.ChooseLanguage(c)
	return p.Render(c, code, "status", shell.View{Title: "status.title", Canonical: p.BaseURL + "/status", Data: v})
}
