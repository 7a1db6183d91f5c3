package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/account"
	"partnerd/internal/infra/passkey"
	"partnerd/internal/infra/postgres"
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
	if of.Bar == nil {
		allowScripts(c)
	}
	if leadsToApplication(v.Next) {
		allowFormsToLeave(c)
	}
	of.Title, of.Narrow, of.Scripts, of.Data = v.Heading, true, append(of.Scripts, p.passkeyScript.path), v
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
	return p.showPasskey(c, status, nil, passkeyView{Heading: "passkey.login.title", Lead: "passkey.login.lead",
		Button: "passkey.login.submit", Do: "get", Action: "/login/passkey", Token: challenge.Token,
		Options: string(challenge.Options), Next: next, Error: fault,
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
		client, by.passkeyID, err = p.deps.SelfService.PasskeySignIn(ctx, tx, form.Get("token"),
			[]byte(form.Get("answer")))
		if refused = nil; errors.Is(err, passkey.ErrRefused) || errors.Is(err, account.ErrDisabled) {
			refused, err = err, nil // the challenge is spent all the same
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
		p.deps.Logger.InfoContext(ctx, "passkey refused", "reason", refused)
		return p.showPasskeyLogin(c, http.StatusUnprocessableEntity, next, "passkey.refused")
	}
	return p.signIn(c, client, next, by)
}

func (p *Pages) newPasskeyForm(c echo.Context, client *account.Client) error {
	return p.showNewPasskey(c, client, passkeyFault{status: http.StatusOK})
}

func (p *Pages) showNewPasskey(c echo.Context, client *account.Client, fault passkeyFault) error {
	ctx := c.Request().Context()
	challenge, err := p.deps.SelfService.BeginPasskey(ctx, p.deps.DB.Read(), client.ID)
	v, status, err := newPasskey("/account/security", challenge, err, fault)
	if err != nil {
		return err
	}
	return p.showPasskey(c, status, client, v)
}

func (p *Pages) addPasskey(c echo.Context, client *account.Client) error {
	form, ctx := c.Request().PostForm, c.Request().Context()
	err := p.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		return p.deps.SelfService.AddPasskey(ctx, tx, client.ID, form.Get("token"), form.Get("name"),
			[]byte(form.Get("answer")), p.language(c))
	})
	if fault, refused := p.passkeyFault(ctx, err); refused {
		return p.showNewPasskey(c, client, fault)
	}
	if err != nil {
		return fmt.Errorf("add passkey: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, "/account/security?done=passkey")
}

// passkeyFault is with what the page to add a passkey is shown again.
type passkeyFault struct {
	status     int
	page, name string // keys, of what is wrong with the answer and with the name
}

// passkeyFault tells what is wrong with what a person sent to add a passkey.
func (p *Pages) passkeyFault(ctx context.Context, err error) (f passkeyFault, refused bool) {
	switch {
	case errors.Is(err, passkey.ErrName):
		return passkeyFault{status: http.StatusUnprocessableEntity, name: "passkey.name.missing"}, true
	case errors.Is(err, passkey.ErrTooMany):
		return passkeyFault{status: http.StatusConflict, page: "passkey.enough"}, true
	case errors.Is(err, passkey.ErrRefused):
		p.deps.Logger.InfoContext(ctx, "passkey refused", "reason", err)
		return passkeyFault{status: http.StatusUnprocessableEntity, page: "passkey.refused"}, true
	}
	return passkeyFault{}, false
}

// newPasskey is the page on which a person adds a passkey to those of the page at home. begun is what came of making
// the challenge.
func newPasskey(home string, challenge passkey.Challenge, begun error,
	fault passkeyFault,
) (v passkeyView, status int, err error) {
	if errors.Is(begun, passkey.ErrTooMany) {
		fault = passkeyFault{status: http.StatusConflict, page: "passkey.enough"}
	} else if begun != nil {
		return v, 0, begun
	}
	name := field{ID: "name", Label: "passkey.name", Type: "text", Autocomplete: "off", Hint: "passkey.name.hint",
		Fault: fault.name, Focus: fault.name != ""}
	return passkeyView{Heading: "passkey.new.title", Lead: "passkey.new.lead", Button: "passkey.new.submit",
		Do: "create", Action: home + "/passkeys", Fields: []field{name}, Error: fault.page,
		Back: link{home, "passkey.new.back"}, Token: challenge.Token,
		Options: string(challenge.Options)}, fault.status, nil
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
