package lawyers

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/staff"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

type callbacksView struct {
	Items []callbackView
	Zone  *time.Location
}

type callbackView struct {
	consultation.Callback
	Topic, Tongue string
}

func (p *Pages) callbacks(c echo.Context, s staff.Session) error {
	tx := p.DB.Read()
	list, err := p.deps.Desk.Callbacks(c.Request().Context(), tx, s)
	if err != nil {
		return err
	}
	l, err := p.labels(c, tx, s)
	if err != nil {
		return err
	}
	v := callbacksView{Zone: l.zone}
	for _, item := range list {
		v.Items = append(v.Items, callbackView{item, forms.Label(l.competences, item.Pair.Competence),
			forms.Label(l.languages, item.Pair.Language)})
	}
	return p.RenderStaff(c, http.StatusOK, s, "desk_callbacks", shell.View{Title: "desk.callbacks.title", Data: v})
}

type servedView struct {
	consultation.Served
	Topic, Tongue string
}

type historyView struct {
	Items    []servedView
	Earnings []consultation.Earned
	Older    string // URL of the next page
	Zone     *time.Location
}

const servedPerPage = 20

func (p *Pages) history(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	var before consultation.Position
	if at := c.QueryParam("before"); at != "" {
		t, err := time.Parse(time.RFC3339Nano, at)
		if err != nil || t.Year() < 1 || t.Year() > 9999 {
			return shell.StatusError(http.StatusBadRequest)
		}
		before = consultation.Position{CreatedAt: t, ID: c.QueryParam("id")}
		if !shell.Identifier.MatchString(before.ID) {
			return shell.StatusError(http.StatusBadRequest)
		}
	}
	items, more, err := p.deps.Desk.History(ctx, tx, s, before, servedPerPage)
	if err != nil {
		return err
	}
	l, err := p.labels(c, tx, s)
	if err != nil {
		return err
	}
	v := historyView{Zone: l.zone}
	for _, item := range items {
		v.Items = append(v.Items, servedView{item, forms.Label(l.competences, item.Pair.Competence),
			forms.Label(l.languages, item.Pair.Language)})
	}
	if more {
		last := items[len(items)-1]
		v.Older = "/desk/history?" + url.Values{"before": {last.CreatedAt.Format(time.RFC3339Nano)},
			"id": {last.ConsultationID}}.Encode()
	}
	if before.ID == "" {
		if v.Earnings, err = p.deps.Desk.Earnings(ctx, tx, s); err != nil {
			return fmt.Errorf("read earnings: %w", err)
		}
	}
	return p.RenderStaff(c, http.StatusOK, s, "desk_history", shell.View{Title: "desk.history.title", Data: v})
}
