package clients

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/account"
	"partnerd/internal/infra/passkey"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

func (p *Pages) showPasskey(c echo.Context, status int, client *account.Client, v shell.PasskeyView) error {
	return p.RenderPasskey(c, status, shell.View{Client: client, CSRF: p.CSRF(c)}, v)
}

// passkeyLoginForm asks the browser for any passkey of this site. The passkey identifies its owner.
func (p *Pages) passkeyLoginForm(c echo.Context) error {
	return p.showPasskeyLogin(c, http.StatusOK, shell.SafeNext(c.QueryParam("next")), "")
}

func (p *Pages) showPasskeyLogin(c echo.Context, status int, next, fault string) error {
	if wait := p.TryPasskey(c); wait > 0 {
		return shell.TooMany(c, wait)
	}
	ctx := c.Request().Context()
	challenge, err := p.deps.SelfService.BeginPasskeySignIn(ctx, p.DB.Read())
	if err != nil {
		return err
	}
	return p.showPasskey(c, status, nil, shell.PasskeyView{Heading: "passkey.login.title", Lead: "passkey.login.lead",
		Button: "passkey.login.submit", Do: "get", Action: "/login/passkey", Token: challenge.Token,
		Options: string(challenge.Options), Next: next, Error: fault,
		Back: forms.LinkTo("/login?next="+shell.QueryEscape(next), "passkey.login.password")})
}

func (p *Pages) passkeyLogin(c echo.Context) error {
	form := c.Request().PostForm
	next := shell.SafeNext(form.Get("next"))
	if !p.OwnForm(c) {
		return p.showPasskeyLogin(c, http.StatusForbidden, next, "login.stale")
	}
	ctx := c.Request().Context()
	var client account.Client
	var by proof
	var refused error
	err := p.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		client, by.passkeyID, err = p.deps.SelfService.PasskeySignIn(ctx, tx, form.Get("token"),
			[]byte(form.Get("answer")))
		if refused = nil; errors.Is(err, passkey.ErrRefused) || errors.Is(err, account.ErrDisabled) {
			refused, err = err, nil // the challenge is used up in any case
		}
		return err
	})
	if errors.Is(refused, account.ErrDisabled) {
		return p.showDisabled(c)
	}
	if err != nil {
		return fmt.Errorf("sign in with passkey: %w", err)
	}
	if refused != nil {
		p.Logger.InfoContext(ctx, "passkey refused", "reason", refused)
		return p.showPasskeyLogin(c, http.StatusUnprocessableEntity, next, "passkey.refused")
	}
	return p.signIn(c, client, next, by)
}

func (p *Pages) newPasskeyForm(c echo.Context, client *account.Client) error {
	return p.showNewPasskey(c, client, shell.PasskeyFault{Status: http.StatusOK})
}

func (p *Pages) showNewPasskey(c echo.Context, client *account.Client, fault shell.PasskeyFault) error {
	ctx := c.Request().Context()
	challenge, err := p.deps.SelfService.BeginPasskey(ctx, p.DB.Read(), client.ID)
	v, status, err := shell.NewPasskey("/account/security", challenge, err, fault)
	if err != nil {
		return err
	}
	return p.showPasskey(c, status, client, v)
}

func (p *Pages) addPasskey(c echo.Context, client *account.Client) error {
	form, ctx := c.Request().PostForm, c.Request().Context()
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error {
		return p.deps.SelfService.AddPasskey(ctx, tx, client.ID, form.Get("token"), form.Get("name"),
			[]byte(form.Get("answer")), p.Language(c))
	})
	if fault, refused := p.PasskeyFault(ctx, err); refused {
		return p.showNewPasskey(c, client, fault)
	}
	if err != nil {
		return fmt.Errorf("add passkey: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, "/account/security?done=passkey")
}

func (p *Pages) removePasskey(c echo.Context, client *account.Client) error {
	id := c.Param("id")
	if !shell.Identifier.MatchString(id) {
		return shell.StatusError(http.StatusNotFound)
	}
	ctx := c.Request().Context()
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error {
		return p.deps.SelfService.RemovePasskey(ctx, tx, client.ID, id, p.Language(c))
	})
	if err != nil {
		return fmt.Errorf("remove passkey: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, "/account/security?done=passkey-gone")
}
