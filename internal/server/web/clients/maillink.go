package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/account"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// linkPage is the page behind an emailed link. Its form asks for a password, uses up the link, and signs in the owner
// of the mailbox.
type linkPage struct {
	again forms.Link // where to request another link
	gone  forms.Link // where to go if the link was used while the form was open
	taken string     // text key for account.ErrEmailTaken; if empty, as for a used link

	// read returns the form and the page after success, or account.ErrBadLink for an invalid link.
	read func(ctx context.Context, tx postgres.Tx, token string) (v forms.View, next string, err error)
	// use returns account.ErrInvalid for a rejected password, account.ErrBadLink or account.ErrEmailTaken.
	use func(ctx context.Context, tx postgres.Tx, form url.Values, language string) (account.Client, error)
}

// openLink shows the form. Opening the link does not use it up, because mail scanners open links.
func (p *Pages) openLink(page linkPage) echo.HandlerFunc {
	return func(c echo.Context) error {
		v, _, err := page.read(c.Request().Context(), p.DB.Read(), c.QueryParam("token"))
		if errors.Is(err, account.ErrBadLink) {
			return p.BadLink(c, page.again)
		}
		if err != nil {
			return err
		}
		return p.showForm(c, http.StatusOK, v.Heading, v)
	}
}

func (p *Pages) useLink(page linkPage) echo.HandlerFunc {
	return func(c echo.Context) error {
		if wait := p.TryLink(c); wait > 0 {
			return shell.TooMany(c, wait)
		}
		ctx, form := c.Request().Context(), c.Request().PostForm
		v, next, err := page.read(ctx, p.DB.Read(), form.Get("token"))
		if errors.Is(err, account.ErrBadLink) {
			return p.BadLink(c, page.again)
		}
		if err != nil {
			return err
		}
		v.Recovery.Tick(form["end"])
		if !p.OwnForm(c) {
			status, key, err := p.Stale(c, p.clientOn)
			if err != nil {
				return err
			}
			v.Error = key
			return p.showForm(c, status, v.Heading, v)
		}
		var client account.Client
		err = p.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
			client, err = page.use(ctx, tx, form, p.Language(c))
			return err
		})
		switch {
		case errors.Is(err, account.ErrInvalid):
			v.Fields[0].Fault, v.Fields[0].Focus = forms.PasswordFault(err, "password.weak.length"), true
			return p.showForm(c, http.StatusUnprocessableEntity, v.Heading, v)
		case errors.Is(err, account.ErrEmailTaken) && page.taken != "":
			v.Error = page.taken
			return p.showForm(c, http.StatusConflict, v.Heading, v)
		case errors.Is(err, account.ErrBadLink), errors.Is(err, account.ErrEmailTaken):
			return p.BadLink(c, page.gone)
		case err != nil:
			return fmt.Errorf("use a link of a mail: %w", err)
		}
		return p.signIn(c, client, next, proof{mailbox: true})
	}
}
