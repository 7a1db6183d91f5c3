package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/account"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// showForm renders a page with one form for a visitor who need not be signed in. After an error, the title says so.
func (p *Pages) showForm(c echo.Context, status int, title string, v forms.View) error {
	if v.Faulty() {
		title += ".error"
	}
	if shell.LeadsToApplication(v.Hidden["next"]) {
		shell.AllowFormsToLeave(c)
	}
	return p.Render(c, status, "form", shell.View{Title: title, CSRF: p.CSRF(c), Kept: shell.WasKept(c), Narrow: true,
		Data: v})
}

func signUpView(next, name, email string) forms.View {
	return forms.View{Heading: "signup.title", Lead: "signup.lead", Action: "/signup",
		Hidden: map[string]string{"next": next}, Button: "signup.submit",
		Fields: []forms.Input{{ID: "name", Label: "signup.name", Type: "text", Autocomplete: "name", Value: name},
			forms.EmailField(email)},
		Links: []forms.Link{forms.LinkTo("/login?next="+shell.QueryEscape(next), "signup.have")}}
}

func (p *Pages) signUpForm(c echo.Context) error {
	return p.showForm(c, http.StatusOK, "signup.title", signUpView(shell.SafeNext(c.QueryParam("next")), "", ""))
}

// signUp sends an email. Its response is the same whether or not the address has an account.
func (p *Pages) signUp(c echo.Context) error {
	form := c.Request().PostForm
	v := signUpView(shell.SafeNext(form.Get("next")), form.Get("name"), form.Get("email"))
	if !p.OwnForm(c) {
		v.Error = "login.stale"
		return p.showForm(c, http.StatusForbidden, "signup.title", v)
	}
	email := strings.TrimSpace(form.Get("email"))
	if wait := p.TryMail(c, "sign-up account "+shell.Digest(email)); wait > 0 {
		return shell.TooMany(c, wait)
	}
	ctx := c.Request().Context()
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error {
		return p.deps.SelfService.RequestSignUp(ctx, tx,
			account.SignUp{Email: email, Name: form.Get("name"), Next: v.Hidden["next"]}, p.Language(c))
	})
	if errors.Is(err, account.ErrInvalid) && forms.Refuse(v.Fields, err) {
		return p.showForm(c, http.StatusUnprocessableEntity, "signup.title", v)
	}
	if err != nil {
		return fmt.Errorf("request sign-up: %w", err)
	}
	return p.MailSent(c, "signup.sent", email)
}

func confirmSignUpView(token string, up account.SignUp) forms.View {
	return forms.View{Heading: "signup.confirm", Lead: "signup.confirm.lead", Args: []any{up.Name, up.Email},
		Action: "/signup/confirm", Button: "signup.finish",
		Hidden: map[string]string{"token": token, "username": up.Email},
		Fields: []forms.Input{forms.NewPasswordField()}}
}

// confirmSignUpPage creates the account and signs its owner in.
func (p *Pages) confirmSignUpPage() linkPage {
	return linkPage{
		again: forms.LinkTo("/signup", "signup.title"),
		gone:  forms.LinkTo("/login", "login.title"),
		// the account exists by now, most likely created by the same person in another window
		read: func(ctx context.Context, tx postgres.Tx, token string) (forms.View, string, error) {
			up, err := p.deps.SelfService.PendingSignUp(ctx, tx, token)
			next := "/account?done=welcome"
			if up.Next != "" && up.Next != "/account" {
				next = shell.SafeNext(up.Next)
			}
			return confirmSignUpView(token, up), next, err
		},
		use: func(ctx context.Context, tx postgres.Tx, form url.Values, lang string) (account.Client, error) {
			client, _, err := p.deps.SelfService.SignUp(ctx, tx, form.Get("token"), form.Get("password"))
			if err != nil {
				return client, err
			}
			return client, p.deps.Accounts.SetLanguage(ctx, tx, client.ID, lang)
		},
	}
}
