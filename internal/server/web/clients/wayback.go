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

// applicationParameter names the application that sends a client to a page of the account, to put something right
// there: a phone number, money. The addresses that problems carry have it.
const applicationParameter = "application"

const (
	WayBackCookie   = "partnerd-from"
	wayBackLifetime = time.Hour
)

// cameFrom is the application that sent the client here within the last hour, as long as they are linked with it; nil
// for none. What a link names is kept only once it is known to be such an application. It leads to the origin where the
// client was linked, so that no address in a link can choose where they go.
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
