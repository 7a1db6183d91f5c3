package clients

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/account"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/server/web/shell"
)

// applicationParameter names the application that sends a client to a page of the account, for example to add a phone
// number or money. The URLs in problems contain it.
const applicationParameter = "application"

const (
	WayBackCookie   = "partnerd-from"
	wayBackLifetime = time.Hour
)

// cameFrom returns the application that sent the client here within the last hour, as long as they are linked, or nil.
// An application named in a link is stored only if it is one of these. The way back leads to the origin at which the
// client was linked. No URL in a link can choose where the client goes.
func (p *Pages) cameFrom(c echo.Context, client *account.Client) (*shell.WayBack, error) {
	asked := c.QueryParam(applicationParameter)
	id := cmp.Or(asked, p.Cookie(c, WayBackCookie))
	if id == "" {
		return nil, nil
	}
	links, err := p.deps.OAuth.Connections(c.Request().Context(), p.DB.Read(), client.ID)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(links, func(l oauth.Connection) bool { return l.Application.ID == id })
	if i < 0 {
		return nil, nil
	}
	if asked != "" {
		p.KeepCookie(c, WayBackCookie, id, wayBackLifetime)
	}
	app := links[i].Application
	u, err := url.Parse(cmp.Or(links[i].RedirectURI, app.RedirectURIs[0]))
	if err != nil {
		return nil, err
	}
	return &shell.WayBack{Name: app.Name, URL: u.Scheme + "://" + u.Host + "/"}, nil
}
