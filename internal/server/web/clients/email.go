package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/account"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// EmailFormAddress is the path of the page on which a client changes the email address.
const EmailFormAddress = "/account/security/email"

func emailView(client *account.Client, email string) forms.View {
	return forms.View{Heading: "email.title", Lead: "email.lead", Args: []any{client.Email}, Action: EmailFormAddress,
		Button: "signup.submit",
		Hidden: map[string]string{"username": client.Email, shell.FormOwner: client.ID},
		Fields: []forms.Input{{ID: "email", Label: "email.new", Type: "email", Autocomplete: "email", Value: email},
			forms.PresentPasswordField("")},
		Links: []forms.Link{forms.LinkTo("/account/security", "email.back"),
			forms.LinkTo("/password/forgot", "login.forgot")}}
}

func (p *Pages) emailForm(c echo.Context, client *account.Client) error {
	return p.showForm(c, http.StatusOK, "email.title", emailView(client, p.KeptForm(c, client.ID).Get("email")))
}

// requestEmail responds in the same way whether or not another account has the address. Every account has a password,
// even if its owner only uses passkeys. The form links to the page that replaces a forgotten one.
func (p *Pages) requestEmail(c echo.Context, client *account.Client) error {
	form, ctx := c.Request().PostForm, c.Request().Context()
	email := strings.TrimSpace(form.Get("email"))
	if wait := p.TryMail(c, "e-mail of "+client.ID); wait > 0 {
		return shell.TooMany(c, wait)
	}
	v := emailView(client, email)
	if forms.Require(v.Fields, form) {
		return p.showForm(c, http.StatusUnprocessableEntity, "email.title", v)
	}
	wait, err := p.withPresent(c, client, func(tx postgres.Tx) error {
		return p.deps.SelfService.RequestEmail(ctx, tx, client.ID, email, form.Get("present"), p.Language(c))
	})
	switch {
	case wait > 0:
		return shell.TooMany(c, wait)
	case errors.Is(err, account.ErrBadCredentials):
		v.Fields[1] = forms.PresentPasswordField("security.password.wrong")
		return p.showForm(c, http.StatusUnprocessableEntity, "email.title", v)
	case errors.Is(err, account.ErrSameEmail):
		v.Fields[0].Fault, v.Fields[0].Focus = "email.same", true
		return p.showForm(c, http.StatusUnprocessableEntity, "email.title", v)
	case errors.Is(err, account.ErrInvalid) && forms.Refuse(v.Fields, err):
		return p.showForm(c, http.StatusUnprocessableEntity, "email.title", v)
	case err != nil:
		return fmt.Errorf("request change of e-mail address: %w", err)
	}
	return p.MailSent(c, "email.sent", email)
}

// confirmEmailForm does not use the link up, because mail scanners open links.
func (p *Pages) confirmEmailForm(c echo.Context, client *account.Client) error {
	email, err := p.deps.SelfService.PendingEmail(c.Request().Context(), p.DB.Read(), client.ID,
		c.QueryParam("token"))
	if errors.Is(err, account.ErrBadLink) {
		return p.BadLink(c, forms.LinkTo(EmailFormAddress, "email.title"))
	}
	if err != nil {
		return err
	}
	return p.confirm(c, http.StatusOK, client, confirmEmailView(c, client, email))
}

func confirmEmailView(c echo.Context, client *account.Client, email string) confirmView {
	return confirmView{Heading: "email.confirm", Text: "email.confirm.text", Args: []any{email, client.Email},
		Button: "email.confirm.submit", Action: EmailFormAddress + "/confirm?token=" +
			shell.QueryEscape(c.QueryParam("token")), Back: "/account/security"}
}

func (p *Pages) confirmEmail(c echo.Context, client *account.Client) error {
	if wait := p.TryLink(c); wait > 0 {
		return shell.TooMany(c, wait)
	}
	ctx := c.Request().Context()
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error {
		_, err := p.deps.SelfService.ConfirmEmail(ctx, tx, client.ID, c.QueryParam("token"), p.Language(c))
		return err
	})
	switch {
	case errors.Is(err, account.ErrBadLink):
		return p.BadLink(c, forms.LinkTo(EmailFormAddress, "email.title"))
	case errors.Is(err, account.ErrEmailTaken):
		v := confirmEmailView(c, client, "")
		v.Refused = "email.taken"
		return p.confirm(c, http.StatusConflict, client, v)
	case err != nil:
		return fmt.Errorf("change e-mail address: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, "/account/security?done=email")
}

// undoEmailPage is [Pages.resetPage] for the owner of the account's previous address.
func (p *Pages) undoEmailPage() linkPage {
	page := p.resetPage()
	page.taken = "undo.taken"
	page.read = func(ctx context.Context, tx postgres.Tx, token string) (forms.View, string, error) {
		client, email, err := p.deps.SelfService.PendingUndo(ctx, tx, token)
		if err != nil {
			return forms.View{}, "", err
		}
		v := forms.View{Heading: "undo.title", Lead: "undo.lead", Args: []any{email}, Action: "/email/undo",
			Button: "undo.submit", Hidden: map[string]string{"token": token, "username": email},
			Fields: []forms.Input{forms.NewPasswordField()}}
		v.Recovery, err = p.recovery(ctx, tx, client.ID)
		return v, "/account/security?done=undone", err
	}
	page.use = p.recoverBy(p.deps.SelfService.UndoEmail)
	return page
}
