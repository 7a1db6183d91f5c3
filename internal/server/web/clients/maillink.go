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

// linkPage is what stands behind a link in a mail: a form that asks for a password, uses the link up, and signs the
// owner of the mailbox in.
type linkPage struct {
	again forms.Link // where one asks for another link
	gone  forms.Link // where one goes when the link was used while the form was open
	taken string     // key of the fault for account.ErrEmailTaken; empty: as with a link that was used

	// read returns the form and where its success leads; account.ErrBadLink when the link is no good.
	read func(ctx context.Context, tx postgres.Tx, token string) (v forms.View, next string, err error)
	// use fails with account.ErrInvalid (the password is refused), account.ErrBadLink or account.ErrEmailTaken.
	use func(ctx context.Context, tx postgres.Tx, form url.Values, language string) (account.Client, error)
}

// openLink shows the form. Opening the link uses nothing up: programs that look into mails do that.
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
