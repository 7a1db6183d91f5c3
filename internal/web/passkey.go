package web

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/account"
	"partnerd/internal/postgres"
)

const challengesPerAddress = 30 // a minute

// passkeyView is a page whose button asks the browser for a passkey. It is the only kind of page with a script: there
// is no other way to a passkey.
type passkeyView struct {
	Heading, Lead, Button string // keys
	Action                string
	Do                    string // of navigator.credentials: "get" or "create"
	Token, Options        string
	Next                  string
	Fields                []field
	Error                 string // key
	Back                  link
}

func (p *Pages) showPasskey(c echo.Context, status int, client *account.Client, v passkeyView) error {
	return p.renderPasskey(c, status, view{Client: client, CSRF: p.csrf(c)}, v)
}

// renderPasskey renders the page for the person that of names, or for nobody.
func (p *Pages) renderPasskey(c echo.Context, status int, of view, v passkeyView) error {
	c.Response().Header().Set("Content-Security-Policy", policy+"; script-src 'self'")
	if leadsToApplication(v.Next) {
		allowFormsToLeave(c)
	}
	of.Title, of.Narrow, of.Scripts, of.Data = v.Heading, true, []string{p.passkeyScript.path}, v
	if v.Error != "" {
		of.Title += ".error"
	}
	return p.render(c, status, "passkey", of)
}

// passkeyLoginForm asks the browser for any passkey of this site; it knows whose it is.
func (p *Pages) passkeyLoginForm(c echo.Context) error {
	return p.showPasskeyLogin(c, http.StatusOK, safeNext(c.QueryParam("next")), "")
}

func (p *Pages) showPasskeyLogin(c echo.Context, status int, next, fault string) error {
	if wait := p.attempt(c.Request().Context(), from(c, "passkey", challengesPerAddress)); wait > 0 {
		return tooMany(c, wait)
	}
	ctx := c.Request().Context()
	challenge, err := p.deps.SelfService.BeginPasskeySignIn(ctx, p.deps.DB.Read())
	if err != nil {
		return err
	}
	return p.showPasskey(c, status, nil, passkeyView{Heading: "passkey.login.title", Lead: "passkey.login.lead", Button: "passkey.login.submit", Do: "get",
		Action: "/login/passkey", Token: challenge.Token, Options: string(challenge.Options), Next: next, Error: fault,
		Back: link{"/login?next=" + queryEscape(next), "passkey.login.password"}})
}

func (p *Pages) passkeyLogin(c echo.Context) error {
	form := c.Request().PostForm
	next := safeNext(form.Get("next"))
	if !p.ownForm(c) {
		return p.showPasskeyLogin(c, http.StatusForbidden, next, "login.stale")
	}
	ctx := c.Request().Context()
	var client account.Client
	var by proof
	var refused error
	err := p.deps.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		client, by.passkeyID, err = p.deps.SelfService.PasskeySignIn(ctx, tx, form.Get("token"), []byte(form.Get("answer")))
		if refused = nil; errors.Is(err, account.ErrPasskey) {
			refused, err = err, nil // the challenge is spent all the same
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("sign in with passkey: %w", err)
	}
	if refused != nil {
		p.deps.Logger.InfoContext(ctx, "passkey refused", "reason", refused)
		return p.showPasskeyLogin(c, http.StatusUnprocessableEntity, next, "passkey.refused")
	}
	return p.signIn(c, client, next, by)
}

func (p *Pages) newPasskeyForm(c echo.Context, client *account.Client) error {
	return p.showNewPasskey(c, http.StatusOK, client, "", "")
}

func (p *Pages) showNewPasskey(c echo.Context, status int, client *account.Client, fault, nameFault string) error {
	name := field{ID: "name", Label: "passkey.name", Type: "text", Autocomplete: "off", Hint: "passkey.name.hint", Fault: nameFault, Focus: nameFault != ""}
	v := passkeyView{Heading: "passkey.new.title", Lead: "passkey.new.lead", Button: "passkey.new.submit", Do: "create", Action: "/account/security/passkeys",
		Fields: []field{name}, Error: fault, Back: link{"/account/security", "passkey.new.back"}}
	ctx := c.Request().Context()
	challenge, err := p.deps.SelfService.BeginPasskey(ctx, p.deps.DB.Read(), client.ID)
	if errors.Is(err, account.ErrTooMany) {
		v.Error, status = "passkey.enough", http.StatusConflict
	} else if err != nil {
		return err
	}
	v.Token, v.Options = challenge.Token, string(challenge.Options)
	return p.showPasskey(c, status, client, v)
}

func (p *Pages) addPasskey(c echo.Context, client *account.Client) error {
	form, ctx := c.Request().PostForm, c.Request().Context()
	err := p.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		return p.deps.SelfService.AddPasskey(ctx, tx, client.ID, form.Get("token"), form.Get("name"), []byte(form.Get("answer")), p.language(c))
	})
	switch {
	case errors.Is(err, account.ErrInvalid):
		return p.showNewPasskey(c, http.StatusUnprocessableEntity, client, "", "passkey.name.missing")
	case errors.Is(err, account.ErrTooMany):
		return p.showNewPasskey(c, http.StatusConflict, client, "", "")
	case errors.Is(err, account.ErrPasskey):
		p.deps.Logger.InfoContext(ctx, "passkey refused", "reason", err)
		return p.showNewPasskey(c, http.StatusUnprocessableEntity, client, "passkey.refused", "")
	case err != nil:
		return fmt.Errorf("add passkey: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, "/account/security?done=passkey")
}

func (p *Pages) removePasskey(c echo.Context, client *account.Client) error {
	id := c.Param("id")
	if !identifier.MatchString(id) {
		return statusError(http.StatusNotFound)
	}
	ctx := c.Request().Context()
	err := p.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		return p.deps.SelfService.RemovePasskey(ctx, tx, client.ID, id, p.language(c))
	})
	if err != nil {
		return fmt.Errorf("remove passkey: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, "/account/security?done=passkey-gone")
}
