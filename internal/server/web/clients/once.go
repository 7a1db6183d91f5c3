package clients

import (
	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/account"
	"partnerd/internal/server/web/shell"
)

// mineOnce is for what a client sends; see [shell.Shell.SentOnce].
func (p *Pages) mineOnce(h func(echo.Context, *account.Client) error) func(echo.Context, *account.Client) error {
	return func(c echo.Context, client *account.Client) error {
		return p.SentOnce(c, client.ID, func() error { return h(c, client) })
	}
}

// clientOn is where a sign-in leads the client who is signed in; empty for nobody.
func (p *Pages) clientOn(c echo.Context) (string, error) {
	client, err := p.Client(c)
	if err != nil || client == nil {
		return "", err
	}
	return shell.SafeNext(c.Request().PostForm.Get("next")), nil
}
