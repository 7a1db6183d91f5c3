package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/id"
	"partnerd/internal/base/password"
	"partnerd/internal/base/text"
	"partnerd/internal/domain/account"
	"partnerd/internal/infra/postgres"
)

// passwordFault is the text about a password that may not be chosen; length is that about one that is too short or too
// long.
func passwordFault(err error, length string) string {
	var w password.Weakness
	errors.As(err, &w)
	switch w {
	case password.Own:
		return "password.weak.own"
	case password.Common:
		return "password.weak.common"
	case password.Pattern:
		return "password.weak.pattern"
	case password.Length:
	}
	return length
}

func digest(email string) string {
	return id.DigestOf(strings.ToLower(strings.TrimSpace(email))).String()
}

func forgotView(email string) formView {
	return formView{Heading: "forgot.title", Lead: "forgot.lead", Action: "/password/forgot", Button: "forgot.submit",
		Fields: []field{emailField(email)}, Links: []link{{"/login", "forgot.back"}}}
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
	if wait := p.attempt(c.Request().Context(), from(c, "mail", mailsPerAddress),
		try{"reset account " + digest(email), mailsPerAccount}); wait > 0 {
		return tooMany(c, wait)
	}
	ctx := c.Request().Context()
	err := p.deps.DB.InTx(ctx,
		func(tx postgres.Tx) error { return p.deps.SelfService.RequestReset(ctx, tx, email, p.language(c)) })
	if errors.Is(err, account.ErrInvalid) {
		v.Fields[0].Fault, v.Fields[0].Focus = "login.email.missing", true
		return p.showForm(c, http.StatusUnprocessableEntity, "forgot.title", v)
	}
	if err != nil {
		return fmt.Errorf("request reset: %w", err)
	}
	return p.mailSent(c, "forgot.sent", email)
}

// recoveryView is what else can be ended with a new password: an intruder may have left it behind.
type recoveryView struct {
	Items    []recoveryItem
	Sessions []sessionView // which all end
}

type recoveryItem struct {
	ID, Name string
	Kind     string // key of the text that says what it is
	Since    time.Time
	Ticked   bool
}

// tick puts the ticks as the form was sent.
func (v *recoveryView) tick(ids []string) {
	if v == nil {
		return
	}
	for i := range v.Items {
		v.Items[i].Ticked = slices.Contains(ids, v.Items[i].ID)
	}
}

func (p *Pages) recovery(ctx context.Context, tx postgres.Tx, clientID string) (*recoveryView, error) {
	v := &recoveryView{}
	phone, ok, err := p.deps.SelfService.VerifiedNumber(ctx, tx, clientID)
	if err != nil {
		return nil, err
	}
	if ok {
		v.Items = append(v.Items, recoveryItem{phone.ID, phone.Masked, "reset.phone", phone.At,
			account.Suspect(phone.At, tx.Now)})
	}
	keys, err := p.deps.SelfService.Passkeys(ctx, tx, clientID)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		v.Items = append(v.Items, recoveryItem{k.ID, k.Name, "reset.passkey", k.CreatedAt,
			account.Suspect(k.CreatedAt, tx.Now)})
	}
	links, err := p.deps.OAuth.Connections(ctx, tx, clientID)
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		v.Items = append(v.Items, recoveryItem{l.Application.ID, l.Application.Name, "reset.app", l.Newest,
			account.Suspect(l.Newest, tx.Now)})
	}
	sessions, err := p.deps.Accounts.Sessions(ctx, tx, clientID, "")
	for _, s := range sessions {
		v.Sessions = append(v.Sessions, sessionView{s, text.Browser(s.Device.UserAgent)})
	}
	return v, err
}

// resetPage sets the password, ends every session and what was ticked, and signs the owner of the mailbox in.
func (p *Pages) resetPage() linkPage {
	return linkPage{
		again: link{"/password/forgot", "forgot.title"},
		gone:  link{"/password/forgot", "forgot.title"},
		read: func(ctx context.Context, tx postgres.Tx, token string) (formView, string, error) {
			client, err := p.deps.SelfService.PendingReset(ctx, tx, token)
			if err != nil {
				return formView{}, "", err
			}
			v := formView{Heading: "reset.title", Lead: "reset.lead", Args: []any{client.Email},
				Action: "/password/reset", Button: "reset.submit",
				Hidden: map[string]string{"token": token, "username": client.Email},
				Fields: []field{newPasswordField()}}
			v.Recovery, err = p.recovery(ctx, tx, client.ID)
			return v, "/account/security?done=password", err
		},
		use: p.recoverBy(p.deps.SelfService.Reset),
	}
}

// recoverBy uses a link with what the form says, and ends the links to applications with it.
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
