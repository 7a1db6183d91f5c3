package web

import (
	"net/url"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/account"
	"partnerd/internal/oauth"
)

// applicationParameter names the application that sends a client to a page of the account, to put something right there: a phone
// number, money. The addresses that problems carry have it.
const applicationParameter = "application"

const (
	wayBackCookie   = "partnerd-from"
	wayBackLifetime = time.Hour
)

// wayBack is how a client returns to the application that sent him.
type wayBack struct{ Name, URL string }

// cameFrom is the application that sent the client here within the last hour, as long as he is linked with it; nil for none. It leads
// to the origin of the redirect URI that was registered first, so that no address in a link can choose where he goes.
func (p *Pages) cameFrom(c echo.Context, client *account.Client) (*wayBack, error) {
	id := c.QueryParam(applicationParameter)
	if id != "" {
		p.keepCookie(c, wayBackCookie, id, wayBackLifetime)
	} else if id = p.cookie(c, wayBackCookie); id == "" {
		return nil, nil
	}
	links, err := p.deps.OAuth.Connections(c.Request().Context(), p.deps.DB.Read(), client.ID)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(links, func(l oauth.Connection) bool { return l.Application.ID == id })
	if i < 0 {
		return nil, nil
	}
	app := links[i].Application
	u, err := url.Parse(app.RedirectURIs[0])
	if err != nil {
		return nil, err
	}
	return &wayBack{app.Name, u.Scheme + "://" + u.Host + "/"}, nil
}
