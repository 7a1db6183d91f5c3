package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/account"
	"partnerd/internal/domain/privacy"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// privacyView says why an account cannot be erased now.
type privacyView struct {
	Obstacles []obstacleView // empty if it can be erased
	Refused   bool           // the client has just requested it
}

func (p *Pages) privacy(c echo.Context, client *account.Client) error {
	all, err := p.deps.Privacy.Obstacles(c.Request().Context(), p.DB.Read(), client.ID)
	if err != nil {
		return err
	}
	return p.showAccount(c, http.StatusOK, client, "privacy", "privacy.title", p.obstacles(c, all))
}

// export sends all of the client's data as one file.
func (p *Pages) export(c echo.Context, client *account.Client) error {
	ctx := c.Request().Context()
	e, err := p.deps.Privacy.Export(ctx, p.DB, client.ID)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	raw, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	c.Response().Header().Set("Content-Disposition",
		`attachment; filename="partnerd-`+time.Time(e.ExportedAt).Format("2006-01-02")+`.json"`)
	return c.Blob(http.StatusOK, "application/json; charset=utf-8", raw)
}

func (p *Pages) eraseForm(c echo.Context, client *account.Client) error {
	all, err := p.deps.Privacy.Obstacles(c.Request().Context(), p.DB.Read(), client.ID)
	if err != nil {
		return err
	}
	if len(all) > 0 {
		return p.refuseErasure(c, http.StatusOK, client, all)
	}
	return p.showErase(c, http.StatusOK, client, "")
}

// refuseErasure shows all obstacles.
func (p *Pages) refuseErasure(c echo.Context, status int, client *account.Client, all privacy.Refused) error {
	v := p.obstacles(c, all)
	v.Refused = true
	return p.showAccount(c, status, client, "privacy", "privacy.title", v)
}

func (p *Pages) showErase(c echo.Context, status int, client *account.Client, presentFault string) error {
	return p.confirm(c, status, client, confirmView{Heading: "erase.title", Text: "erase.text",
		Args: []any{client.Email}, Action: "/account/privacy/erase",
		Button: "erase.submit", Danger: true, Back: "/account/privacy",
		Fields: []forms.Input{forms.PresentPasswordField(presentFault)}})
}

// erase erases the account and ends its session.
func (p *Pages) erase(c echo.Context, client *account.Client) error {
	ctx := c.Request().Context()
	wait, err := p.withPresent(c, client, func(tx postgres.Tx) error {
		return p.deps.Privacy.Erase(ctx, tx, client.ID, c.Request().PostForm.Get("present"), p.Language(c))
	})
	if wait > 0 {
		return shell.TooMany(c, wait)
	}
	if errors.Is(err, account.ErrBadCredentials) {
		return p.showErase(c, http.StatusUnprocessableEntity, client, "security.password.wrong")
	}
	var refused privacy.Refused
	if errors.As(err, &refused) {
		return p.refuseErasure(c, http.StatusConflict, client, refused)
	}
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	for _, name := range []string{shell.SessionCookie, shell.KnownCookie} {
		p.SetCookie(c, name, "")
	}
	return p.MailSent(c, "erase.done", client.Email)
}
