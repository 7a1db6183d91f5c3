package clients

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/text"
	"partnerd/internal/domain/account"
	"partnerd/internal/infra/passkey"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

type securityView struct {
	Fields      []forms.Input // of the password form
	Passkeys    []passkey.Passkey
	HasPasskeys bool
	Sessions    []forms.SessionView
}

func (p *Pages) security(c echo.Context, client *account.Client) error {
	return p.showSecurity(c, http.StatusOK, client, "", "")
}

func (p *Pages) showSecurity(c echo.Context, status int, client *account.Client, presentFault, newFault string) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	v := securityView{HasPasskeys: p.deps.SelfService.HasPasskeys(), Fields: []forms.Input{
		forms.PresentPasswordField(presentFault), forms.NewPasswordField()}}
	v.Fields[1].Fault, v.Fields[1].Focus = newFault, newFault != "" && presentFault == ""
	var err error
	if v.Passkeys, err = p.deps.SelfService.Passkeys(ctx, tx, client.ID); err != nil {
		return err
	}
	sessions, err := p.deps.Accounts.Sessions(ctx, tx, client.ID, p.Cookie(c, shell.SessionCookie))
	if err != nil {
		return err
	}
	for _, s := range sessions {
		v.Sessions = append(v.Sessions, forms.SessionView{BrowserSession: s, Browser: text.Browser(s.Device.UserAgent)})
	}
	title := "security.title"
	if presentFault != "" || newFault != "" {
		title = "security.title.error"
	}
	return p.showAccount(c, status, client, "security", title, v)
}

// withPresent makes a change that requires the current password, even right after a sign-in. Otherwise an unattended
// browser would be enough. Wrong passwords are counted per client across all purposes. wait is the time until the next
// password is checked. change reports a wrong one as [account.ErrBadCredentials].
func (p *Pages) withPresent(c echo.Context, client *account.Client,
	change func(tx postgres.Tx) error,
) (wait time.Duration, err error) {
	key := "password of " + client.ID
	d, err := p.Judge(c.Request().Context(), shell.Guess{Tries: []shell.Try{{Bucket: key,
		PerMinute: shell.PasswordsPerMinute}}, Key: key},
		[]error{account.ErrBadCredentials}, change)
	return d.RetryAfter, err
}

func (p *Pages) changePassword(c echo.Context, client *account.Client) error {
	form, ctx := c.Request().PostForm, c.Request().Context()
	sent := []forms.Input{forms.PresentPasswordField(""), forms.NewPasswordField()}
	if forms.Require(sent, form) {
		return p.showSecurity(c, http.StatusUnprocessableEntity, client, sent[0].Fault, sent[1].Fault)
	}
	var known string
	wait, err := p.withPresent(c, client, func(tx postgres.Tx) error {
		now, err := p.deps.SelfService.ChangePassword(ctx, tx, client.ID, form.Get("present"), form.Get("password"),
			p.Cookie(c, shell.SessionCookie), p.Language(c))
		if err != nil {
			return err
		}
		known, err = p.deps.Accounts.KnownBrowser(tx, now, p.Cookie(c, shell.KnownCookie))
		return err
	})
	switch {
	case wait > 0:
		return shell.TooMany(c, wait)
	case errors.Is(err, account.ErrBadCredentials):
		return p.showSecurity(c, http.StatusUnprocessableEntity, client, "security.password.wrong", "")
	case errors.Is(err, account.ErrInvalid):
		return p.showSecurity(c, http.StatusUnprocessableEntity, client, "",
			forms.PasswordFault(err, "password.weak.length"))
	case err != nil:
		return fmt.Errorf("change password: %w", err)
	}
	p.KeepCookie(c, shell.KnownCookie, known, account.KnownLifetime)
	return c.Redirect(http.StatusSeeOther, "/account/security?done=password")
}

func (p *Pages) endSession(c echo.Context, client *account.Client) error {
	ctx := c.Request().Context()
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error {
		return p.deps.Accounts.EndSession(ctx, tx, client.ID, c.Param("id"))
	})
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/account/security?done=session")
}

func (p *Pages) endOtherSessions(c echo.Context, client *account.Client) error {
	ctx := c.Request().Context()
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error {
		_, err := p.deps.Accounts.EndOtherSessions(ctx, tx, client.ID, p.Cookie(c, shell.SessionCookie))
		return err
	})
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/account/security?done=sessions")
}
