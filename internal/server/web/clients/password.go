package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/text"
	"partnerd/internal/domain/account"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

func forgotView(email string) forms.View {
	return forms.View{Heading: "forgot.title", Lead: "forgot.lead", Action: "/password/forgot", Button: "forgot.submit",
		Fields: []forms.Input{forms.EmailField(email)}, Links: []forms.Link{forms.LinkTo("/login", "forgot.back")}}
}

func (p *Pages) forgotForm(c echo.Context) error {
	return p.showForm(c, http.StatusOK, "forgot.title", forgotView(""))
}

// forgot sends an email. Its response is the same whether or not the address has an account.
func (p *Pages) forgot(c echo.Context) error {
	email := strings.TrimSpace(c.Request().PostForm.Get("email"))
	v := forgotView(email)
	if !p.OwnForm(c) {
		v.Error = "login.stale"
		return p.showForm(c, http.StatusForbidden, "forgot.title", v)
	}
	if wait := p.TryMail(c, "reset account "+shell.Digest(email)); wait > 0 {
		return shell.TooMany(c, wait)
	}
	ctx := c.Request().Context()
	err := p.DB.InTx(ctx,
		func(tx postgres.Tx) error { return p.deps.SelfService.RequestReset(ctx, tx, email, p.Language(c)) })
	if errors.Is(err, account.ErrInvalid) {
		v.Fields[0].Fault, v.Fields[0].Focus = "login.email.missing", true
		return p.showForm(c, http.StatusUnprocessableEntity, "forgot.title", v)
	}
	if err != nil {
		return fmt.Errorf("request reset: %w", err)
	}
	return p.MailSent(c, "forgot.sent", email)
}

func (p *Pages) recovery(ctx context.Context, tx postgres.Tx, clientID string) (*forms.RecoveryView, error) {
	v := &forms.RecoveryView{}
	phone, ok, err := p.deps.SelfService.VerifiedNumber(ctx, tx, clientID)
	if err != nil {
		return nil, err
	}
	if ok {
		v.Items = append(v.Items, forms.RecoveryItem{ID: phone.ID, Name: phone.Masked, Kind: "reset.phone",
			Since:  phone.At,
			Ticked: account.Suspect(phone.At, tx.Now)})
	}
	keys, err := p.deps.SelfService.Passkeys(ctx, tx, clientID)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		v.Items = append(v.Items, forms.RecoveryItem{ID: k.ID, Name: k.Name, Kind: "reset.passkey", Since: k.CreatedAt,
			Ticked: account.Suspect(k.CreatedAt, tx.Now)})
	}
	links, err := p.deps.OAuth.Connections(ctx, tx, clientID)
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		v.Items = append(v.Items, forms.RecoveryItem{ID: l.Application.ID, Name: l.Application.Name, Kind: "reset.app",
			Since:  l.Newest,
			Ticked: account.Suspect(l.Newest, tx.Now)})
	}
	sessions, err := p.deps.Accounts.Sessions(ctx, tx, clientID, "")
	for _, s := range sessions {
		v.Sessions = append(v.Sessions, forms.SessionView{BrowserSession: s, Browser: text.Browser(s.Device.UserAgent)})
	}
	return v, err
}

// resetPage sets the password, ends every session and everything that was ticked, and signs in the owner of the
// mailbox.
func (p *Pages) resetPage() linkPage {
	return linkPage{
		again: forms.LinkTo("/password/forgot", "forgot.title"),
		gone:  forms.LinkTo("/password/forgot", "forgot.title"),
		read: func(ctx context.Context, tx postgres.Tx, token string) (forms.View, string, error) {
			client, err := p.deps.SelfService.PendingReset(ctx, tx, token)
			if err != nil {
				return forms.View{}, "", err
			}
			v := forms.View{Heading: "reset.title", Lead: "reset.lead", Args: []any{client.Email},
				Action: "/password/reset", Button: "reset.submit",
				Hidden: map[string]string{"token": token, "username": client.Email},
				Fields: []forms.Input{forms.NewPasswordField()}}
			v.Recovery, err = p.recovery(ctx, tx, client.ID)
			return v, "/account/security?done=password", err
		},
		use: p.recoverBy(p.deps.SelfService.Reset),
	}
}

// recoverBy uses up a link with the form's values, and ends the chosen connections to applications.
func (p *Pages) recoverBy(
	use func(ctx context.Context, tx postgres.Tx, token, plain, lang string,
		also account.Recovery) (account.Client, error),
) func(context.Context, postgres.Tx, url.Values, string) (account.Client, error) {
	return func(ctx context.Context, tx postgres.Tx, form url.Values, language string) (account.Client, error) {
		also := account.Recovery{Shown: form["shown"], Ticked: form["end"]}
		client, err := use(ctx, tx, form.Get("token"), form.Get("password"), language, also)
		if err != nil {
			return account.Client{}, err
		}
		return client, p.deps.OAuth.Recover(ctx, tx, client.ID, also)
	}
}
