package web

import (
	"context"
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

// resetPage sets the password, ends every session and signs the owner of the mailbox in.
func (p *Pages) resetPage() linkPage {
	return linkPage{
		again: link{"/password/forgot", "forgot.title"},
		gone:  link{"/password/forgot", "forgot.title"},
		read: func(ctx context.Context, tx postgres.Tx, token string) (formView, string, error) {
			email, err := p.SelfService.PendingReset(ctx, tx, token)
			return resetView(token, email), "/account/security?done=password", err
		},
		use: p.SelfService.Reset,
	}
}
