package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/account"
	"partnerd/internal/infra/postgres"
)

const emailFormAddress = "/account/security/email"

func emailView(client *account.Client, email string) formView {
	return formView{Heading: "email.title", Lead: "email.lead", Args: []any{client.Email}, Action: emailFormAddress,
		Button: "signup.submit",
		Hidden: map[string]string{"username": client.Email, formOwner: client.ID},
		Fields: []field{{ID: "email", Label: "email.new", Type: "email", Autocomplete: "email", Value: email},
			presentPasswordField("")},
		Links: []link{{"/account/security", "email.back"}, {"/password/forgot", "login.forgot"}}}
}

func (p *Pages) emailForm(c echo.Context, client *account.Client) error {
	return p.showForm(c, http.StatusOK, "email.title", emailView(client, p.keptForm(c, client.ID).Get("email")))
}

// requestEmail says the same whether another account has the address or not. Every account has a password, also one
// that is only opened with passkeys; the form leads to where a forgotten one is replaced.
func (p *Pages) requestEmail(c echo.Context, client *account.Client) error {
	form, ctx := c.Request().PostForm, c.Request().Context()
	email := strings.TrimSpace(form.Get("email"))
	if wait := p.attempt(c.Request().Context(), from(c, "mail", mailsPerAddress),
		try{"e-mail of " + client.ID, mailsPerAccount}); wait > 0 {
		return tooMany(c, wait)
	}
	v := emailView(client, email)
	if require(v.Fields, form) {
		return p.showForm(c, http.StatusUnprocessableEntity, "email.title", v)
	}
	wait, err := p.withPresent(c, client, func(tx postgres.Tx) error {
		return p.deps.SelfService.RequestEmail(ctx, tx, client.ID, email, form.Get("present"), p.language(c))
	})
	switch {
	case wait > 0:
		return tooMany(c, wait)
	case errors.Is(err, account.ErrBadCredentials):
		v.Fields[1] = presentPasswordField("security.password.wrong")
		return p.showForm(c, http.StatusUnprocessableEntity, "email.title", v)
	case errors.Is(err, account.ErrSameEmail):
		v.Fields[0].Fault, v.Fields[0].Focus = "email.same", true
		return p.showForm(c, http.StatusUnprocessableEntity, "email.title", v)
	case errors.Is(err, account.ErrInvalid) && refuse(v.Fields, err):
		return p.showForm(c, http.StatusUnprocessableEntity, "email.title", v)
	case err != nil:
		return fmt.Errorf("request change of e-mail address: %w", err)
	}
	return p.mailSent(c, "email.sent", email)
}

// confirmEmailForm uses nothing up: programs that look into mails open links.
func (p *Pages) confirmEmailForm(c echo.Context, client *account.Client) error {
	email, err := p.deps.SelfService.PendingEmail(c.Request().Context(), p.deps.DB.Read(), client.ID,
		c.QueryParam("token"))
	if errors.Is(err, account.ErrBadLink) {
		return p.badLink(c, link{emailFormAddress, "email.title"})
	}
	if err != nil {
		return err
	}
	return p.confirm(c, http.StatusOK, client, confirmEmailView(c, client, email))
}

func confirmEmailView(c echo.Context, client *account.Client, email string) confirmView {
	return confirmView{Heading: "email.confirm", Text: "email.confirm.text", Args: []any{email, client.Email},
		Button: "email.confirm.submit", Action: emailFormAddress + "/confirm?token=" +
			queryEscape(c.QueryParam("token")), Back: "/account/security"}
}

func (p *Pages) confirmEmail(c echo.Context, client *account.Client) error {
	if wait := p.attempt(c.Request().Context(), from(c, "link", linksPerAddress)); wait > 0 {
		return tooMany(c, wait)
	}
	ctx := c.Request().Context()
	err := p.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		_, err := p.deps.SelfService.ConfirmEmail(ctx, tx, client.ID, c.QueryParam("token"), p.language(c))
		return err
	})
	switch {
	case errors.Is(err, account.ErrBadLink):
		return p.badLink(c, link{emailFormAddress, "email.title"})
	case errors.Is(err, account.ErrEmailTaken):
		v := confirmEmailView(c, client, "")
		v.Refused = "email.taken"
		return p.confirm(c, http.StatusConflict, client, v)
	case err != nil:
		return fmt.Errorf("change e-mail address: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, "/account/security?done=email")
}

// undoEmailPage is [Pages.resetPage] for the owner of the address that the account had before.
func (p *Pages) undoEmailPage() linkPage {
	page := p.resetPage()
	page.taken = "undo.taken"
	page.read = func(ctx context.Context, tx postgres.Tx, token string) (formView, string, error) {
		client, email, err := p.deps.SelfService.PendingUndo(ctx, tx, token)
		if err != nil {
			return formView{}, "", err
		}
		v := formView{Heading: "undo.title", Lead: "undo.lead", Args: []any{email}, Action: "/email/undo",
			Button: "undo.submit", Hidden: map[string]string{"token": token, "username": email},
			Fields: []field{newPasswordField()}}
		v.Recovery, err = p.recovery(ctx, tx, client.ID)
		return v, "/account/security?done=undone", err
	}
	page.use = p.recoverBy(p.deps.SelfService.UndoEmail)
	return page
}
