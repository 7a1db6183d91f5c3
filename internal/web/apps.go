package web

import (
	"fmt"
	"net/http"
	"regexp"

	"github.com/labstack/echo/v4"

	"partnerd/internal/account"
	"partnerd/internal/consultation"
	"partnerd/internal/oauth"
	"partnerd/internal/postgres"
)

type connectionView struct {
	oauth.Connection
	consultation.Usage
}

// apps lists the connected applications of the signed-in client.
func (p *Pages) apps(c echo.Context, client *account.Client) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	connections, err := p.OAuth.Connections(ctx, tx, client.ID)
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	usage, err := p.Consultations.UsageOf(ctx, tx, client.ID)
	if err != nil {
		return err
	}
	var v []connectionView
	for _, connection := range connections {
		v = append(v, connectionView{connection, usage[connection.Application.ID]})
	}
	return p.showAccount(c, http.StatusOK, client, "apps", "apps.title", v)
}

// disconnect ends every token that one application holds for the signed-in client, at once; with cancel=1 also the
// consultations that it started and that have not begun.
func (p *Pages) disconnect(c echo.Context, client *account.Client) error {
	application := c.Param("id")
	if !identifier.MatchString(application) {
		return statusError(http.StatusNotFound)
	}
	ctx, done := c.Request().Context(), "app"
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := p.OAuth.Disconnect(ctx, tx, client.ID, application); err != nil {
			return err
		}
		if c.Request().PostForm.Get("cancel") != "1" {
			return nil
		}
		done = "app-cancel"
		_, err := p.Consultations.CancelNotStarted(ctx, tx, client.ID, application)
		return err
	})
	if err != nil {
		return fmt.Errorf("disconnect application: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, "/account/apps?done="+done)
}

// identifier is the shape of every identifier in an address (decision H46).
var identifier = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
