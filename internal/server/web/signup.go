package web

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
)

// Tries a minute of asking for mails and of using links.
const (
	mailsPerAddress = 10
	mailsPerAccount = 3
	linksPerAddress = 30
)

type formView struct {
	Heading  string // key
	Lead     string // key
	Args     []any  // of Lead
	Action   string
	Hidden   map[string]string
	Fields   []field
	Recovery *recoveryView // of the reset alone
	Error    string        // key of what is wrong with the whole form
	Done     string        // key of what was done just before
	Button   string        // key
	Links    []link
}

type link struct{ URL, Text string }

func (v formView) faulty() bool {
	for _, f := range v.Fields {
		if f.Fault != "" {
			return true
		}
	}
	return v.Error != ""
}

// showForm renders a page with one form, for a visitor who need not be signed in. With a fault the title says so.
func (p *Pages) showForm(c echo.Context, status int, title string, v formView) error {
	if v.faulty() {
		title += ".error"
	}
	if leadsToApplication(v.Hidden["next"]) {
		allowFormsToLeave(c)
	}
	return p.render(c, status, "form", view{Title: title, CSRF: p.csrf(c), Kept: wasKept(c), Narrow: true, Data: v})
}

func emailField(value string) field {
	return field{ID: "email", Label: "login.email", Type: "email", Autocomplete: "username", Value: value}
}

func newPasswordField() field {
	return field{ID: "password", Label: "password.new", Type: "password", Autocomplete: "new-password",
		Hint: "password.rule"}
}

func signUpView(next, name, email string) formView {
	return formView{Heading: "signup.title", Lead: "signup.lead", Action: "/signup",
		Hidden: map[string]string{"next": next}, Button: "signup.submit",
		Fields: []field{{ID: "name", Label: "signup.name", Type: "text", Autocomplete: "name", Value: name},
			emailField(email)},
		Links: []link{{"/login?next=" + queryEscape(next), "signup.have"}}}
}

func (p *Pages) signUpForm(c echo.Context) error {
	return p.showForm(c, http.StatusOK, "signup.title", signUpView(safeNext(c.QueryParam("next")), "", ""))
}

// signUp has a mail sent and says the same whether there is an account for the address or not.
func (p *Pages) signUp(c echo.Context) error {
	form := c.Request().PostForm
	v := signUpView(safeNext(form.Get("next")), form.Get("name"), form.Get("email"))
	if !p.ownForm(c) {
		v.Error = "login.stale"
		return p.showForm(c, http.StatusForbidden, "signup.title", v)
	}
	email := strings.TrimSpace(form.Get("email"))
	if wait := p.attempt(c.Request().Context(), from(c, "mail", mailsPerAddress),
		try{"sign-up account " + digest(email), mailsPerAccount}); wait > 0 {
		return tooMany(c, wait)
	}
	ctx := c.Request().Context()
	err := p.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		return p.deps.SelfService.RequestSignUp(ctx, tx,
			account.SignUp{Email: email, Name: form.Get("name"), Next: v.Hidden["next"]}, p.language(c))
	})
	if errors.Is(err, account.ErrInvalid) && refuse(v.Fields, err) {
		return p.showForm(c, http.StatusUnprocessableEntity, "signup.title", v)
	}
	if err != nil {
		return fmt.Errorf("request sign-up: %w", err)
	}
	return p.mailSent(c, "signup.sent", email)
}

// mailSent says what happens next. It must not tell whether a mail was sent.
func (p *Pages) mailSent(c echo.Context, key, email string) error {
	return p.showSent(c, sentView{Key: key, Email: email})
}

func (p *Pages) showSent(c echo.Context, v sentView) error {
	c.Set(sentKey, &v)
	return p.render(c, http.StatusOK, "sent", view{Title: v.Key + ".title", Narrow: true, Data: v})
}

type sentView struct {
	Key, Email string
	Folder     string // where a sandbox keeps mail, for who has that machine before him; empty: not to be said
}

func confirmSignUpView(token string, up account.SignUp) formView {
	return formView{Heading: "signup.confirm", Lead: "signup.confirm.lead", Args: []any{up.Name, up.Email},
		Action: "/signup/confirm", Button: "signup.finish",
		Hidden: map[string]string{"token": token, "username": up.Email}, Fields: []field{newPasswordField()}}
}

// confirmSignUpPage creates the account and signs its owner in.
func (p *Pages) confirmSignUpPage() linkPage {
	return linkPage{
		again: link{"/signup", "signup.title"},
		gone:  link{"/login", "login.title"}, // somebody was quicker, most likely the same person in another window
		read: func(ctx context.Context, tx postgres.Tx, token string) (formView, string, error) {
			up, err := p.deps.SelfService.PendingSignUp(ctx, tx, token)
			next := "/account?done=welcome"
			if up.Next != "" && up.Next != "/account" {
				next = safeNext(up.Next)
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
