package clients

import (
	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/account"
	"partnerd/internal/server/web/shell"
)

// mineOnce handles a form of a client once; see [shell.Shell.SentOnce].
func (p *Pages) mineOnce(h func(echo.Context, *account.Client) error) func(echo.Context, *account.Client) error {
	return func(c echo.Context, client *account.Client) error {
		return p.SentOnce(c, client.ID, func() error { return h(c, client) })
	}
}

// clientOn returns the page after the sign-in of the signed-in client. It is empty if no one is signed in.
func (p *Pages) clientOn(c echo.Context) (string, error) {
	client, err := p.Client(c)
	if err != nil || client == nil {
		return "", err
	}
	return shell.SafeNext(c.Request().PostForm.Get("next")), nil
}
