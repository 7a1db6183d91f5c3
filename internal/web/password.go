package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/account"
	"partnerd/internal/id"
	"partnerd/internal/postgres"
)

func digest(email string) string {
	return id.DigestOf(strings.ToLower(strings.TrimSpace(email))).String()
}

func forgotView(email string) formView {
	return formView{Heading: "forgot.title", Lead: "forgot.lead", Action: "/password/forgot", Button: "forgot.submit", Fields: []field{emailField(email)},
		Links: []link{{"/login", "forgot.back"}}}
}

func (p *Pages) forgotForm(c echo.Context) error {
	return p.showForm(c, http.StatusOK, "forgot.title", forgotView(""))
}

// forgot has a mail sent and says the same whether there is an account for the address or not.
func (p *Pages) forgot(c echo.Context) error {
	email := strings.TrimSpace(c.Request().PostForm.Get("email"))
	v := forgotView(email)
	if !p.ownForm(c) {
		v.Error = "login.stale"
		return p.showForm(c, http.StatusForbidden, "forgot.title", v)
	}
	if wait := p.attempt(from(c, "mail", mailsPerAddress), try{"reset account " + digest(email), mailsPerAccount}); wait > 0 {
		return tooMany(c, wait)
	}
	ctx := c.Request().Context()
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error { return p.SelfService.RequestReset(ctx, tx, email, p.language(c)) })
	if errors.Is(err, account.ErrInvalid) {
		v.Fields[0].Fault, v.Fields[0].Focus = "login.email.missing", true
		return p.showForm(c, http.StatusUnprocessableEntity, "forgot.title", v)
	}
	if err != nil {
		return fmt.Errorf("request reset: %w", err)
	}
	return p.mailSent(c, "forgot.sent", email)
}

func resetView(token, email string) formView {
	return formView{Heading: "reset.title", Lead: "reset.lead", Args: []any{email}, Action: "/password/reset", Button: "reset.submit",
		Hidden: map[string]string{"token": token, "username": email}, Fields: []field{newPasswordField()}}
}

func (p *Pages) resetForm(c echo.Context) error {
	token := c.QueryParam("token")
	email, err := p.SelfService.PendingReset(c.Request().Context(), p.DB.Read(), token)
	if errors.Is(err, account.ErrBadLink) {
		return p.badLink(c, "/password/forgot", "forgot.title")
	}
	if err != nil {
		return err
	}
	return p.showForm(c, http.StatusOK, "reset.title", resetView(token, email))
}

// reset sets the password, ends every session and signs the owner of the mailbox in.
func (p *Pages) reset(c echo.Context) error {
	if wait := p.attempt(from(c, "link", linksPerAddress)); wait > 0 {
		return tooMany(c, wait)
	}
	ctx, form := c.Request().Context(), c.Request().PostForm
	email, err := p.SelfService.PendingReset(ctx, p.DB.Read(), form.Get("token"))
	if errors.Is(err, account.ErrBadLink) {
		return p.badLink(c, "/password/forgot", "forgot.title")
	}
	if err != nil {
		return err
	}
	v := resetView(form.Get("token"), email)
	if !p.ownForm(c) {
		v.Error = "login.stale"
		return p.showForm(c, http.StatusForbidden, "reset.title", v)
	}
	var client account.Client
	err = p.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		client, err = p.SelfService.Reset(ctx, tx, form.Get("token"), form.Get("password"), p.language(c))
		return err
	})
	switch {
	case errors.Is(err, account.ErrInvalid):
		v.Fields[0].Fault, v.Fields[0].Focus = "password.weak", true
		return p.showForm(c, http.StatusUnprocessableEntity, "reset.title", v)
	case errors.Is(err, account.ErrBadLink):
		return p.badLink(c, "/password/forgot", "forgot.title")
	case err != nil:
		return fmt.Errorf("reset password: %w", err)
	}
	return p.signIn(c, client, "/account/security?done=password")
}
