package web

import (
	"fmt"
	"net/http"
	"regexp"

	"github.com/labstack/echo/v4"

	"partnerd/internal/oauth"
	"partnerd/internal/postgres"
	"partnerd/internal/wallet"
)

type appsView struct {
	Connections  []oauth.Connection
	Wallet       wallet.Balance
	Disconnected bool
}

func (p *Pages) account(c echo.Context) error {
	return c.Redirect(http.StatusFound, "/account/apps")
}

// apps lists the connected applications of the signed-in client.
func (p *Pages) apps(c echo.Context) error {
	client, err := p.client(c)
	if err != nil {
		return err
	}
	if client == nil {
		return toLogin(c, "/account/apps")
	}
	ctx, tx := c.Request().Context(), p.DB.Read()
	v := appsView{Disconnected: c.QueryParam("disconnected") == "1"}
	if v.Connections, err = p.OAuth.Connections(ctx, tx, client.ID); err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	if v.Wallet, err = p.Wallet.Balance(ctx, tx, client.ID); err != nil {
		return fmt.Errorf("read wallet: %w", err)
	}
	return p.render(c, http.StatusOK, "apps", view{Title: "apps.title", Client: client, CSRF: p.csrf(c), Data: v})
}

// disconnect ends every token that one application holds for the signed-in client, at once.
func (p *Pages) disconnect(c echo.Context) error {
	client, err := p.client(c)
	if err != nil {
		return err
	}
	if client == nil {
		return toLogin(c, "/account/apps")
	}
	if !p.ownForm(c) {
		return statusError(http.StatusForbidden)
	}
	application := c.Param("id")
	if !identifier.MatchString(application) {
		return statusError(http.StatusNotFound)
	}
	ctx := c.Request().Context()
	err = p.DB.InTx(ctx, func(tx postgres.Tx) error { return p.OAuth.Disconnect(ctx, tx, client.ID, application) })
	if err != nil {
		return fmt.Errorf("disconnect application: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, "/account/apps?disconnected=1")
}

// identifier is the shape of every identifier in an address (decision H46).
var identifier = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
