package clients

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/account"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/infra/access"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/shell"
)

// listedDays is the number of days for which the page lists uses day by day. The export has older ones.
const listedDays = 30

type appsView struct {
	Connected []connectionView
	Former    []connectionView // no longer connected
}

type connectionView struct {
	oauth.Connection
	consultation.Usage
	Uses usesView
}

// usesView is an application's use of the account within [listedDays].
type usesView struct {
	Categories []UseView
	Days       []dayView // newest first
}

// UseView is how often a category of data was used, and when it was used last.
type UseView struct {
	Category access.Category
	Count    int64
	LastAt   time.Time
}

// Label returns the text key of the category.
func (u UseView) Label() string { return "apps.uses." + string(u.Category) }

type dayView struct {
	Day  time.Time
	Uses []UseView
}

// usesOf groups the counts of one application, which are sorted by day, newest first.
func usesOf(counts []access.Count) (v usesView) {
	for _, category := range access.Categories {
		total := UseView{Category: category}
		for _, c := range counts {
			if c.Category != category {
				continue
			}
			total.Count += c.Uses
			if c.LastAt.After(total.LastAt) {
				total.LastAt = c.LastAt
			}
		}
		if total.Count > 0 {
			v.Categories = append(v.Categories, total)
		}
	}
	for _, c := range counts {
		if n := len(v.Days); n == 0 || !v.Days[n-1].Day.Equal(c.Day) {
			v.Days = append(v.Days, dayView{Day: c.Day})
		}
		day := &v.Days[len(v.Days)-1]
		day.Uses = append(day.Uses, UseView{c.Category, c.Uses, c.LastAt})
	}
	return v
}

// apps lists the applications of the signed-in client, and what each used of the account.
func (p *Pages) apps(c echo.Context, client *account.Client) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	connections, err := p.deps.OAuth.Connections(ctx, tx, client.ID)
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	usage, err := p.deps.Consultations.UsageOf(ctx, tx, client.ID)
	if err != nil {
		return err
	}
	counts, err := p.deps.Access.Of(ctx, tx, client.ID, tx.Now.AddDate(0, 0, -listedDays))
	if err != nil {
		return err
	}
	used := map[string][]access.Count{}
	for _, count := range counts {
		used[count.ApplicationID] = append(used[count.ApplicationID], count)
	}
	var v appsView
	for _, connection := range connections {
		app := connection.Application.ID
		v.Connected = append(v.Connected, connectionView{connection, usage[app], usesOf(used[app])})
		delete(used, app)
	}
	for _, app := range slices.Sorted(maps.Keys(used)) {
		a, err := p.deps.Applications.Get(ctx, tx, app)
		if err != nil {
			return err
		}
		v.Former = append(v.Former, connectionView{oauth.Connection{Application: a}, usage[app], usesOf(used[app])})
	}
	return p.showAccount(c, http.StatusOK, client, "apps", "apps.title", v)
}

// disconnect immediately ends all tokens of one application for the signed-in client. With cancel=1, it also cancels
// the consultations of that application that have not begun.
func (p *Pages) disconnect(c echo.Context, client *account.Client) error {
	application := c.Param("id")
	if !shell.Identifier.MatchString(application) {
		return shell.StatusError(http.StatusNotFound)
	}
	ctx, done := c.Request().Context(), "app"
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := p.deps.OAuth.Disconnect(ctx, tx, client.ID, application); err != nil {
			return err
		}
		if c.Request().PostForm.Get("cancel") != "1" {
			return nil
		}
		done = "app-cancel"
		_, err := p.deps.Consultations.CancelNotStarted(ctx, tx, client.ID, application)
		return err
	})
	if err != nil {
		return fmt.Errorf("disconnect application: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, "/account/apps?done="+done)
}
