package clients

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/account"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// mine wraps a page for the signed-in client. Everyone else signs in first and then returns. A POST must come from a
// form created for this sign-in. The language chosen for the pages also applies to emails.
func (p *Pages) mine(h func(echo.Context, *account.Client) error) echo.HandlerFunc {
	return p.Page(func(c echo.Context) error {
		client, err := p.Client(c)
		if err != nil {
			return err
		}
		if client == nil {
			return p.keepAndLogIn(c)
		}
		if c.Request().Method == http.MethodPost && !p.OwnForm(c) {
			return shell.StatusError(http.StatusForbidden)
		}
		if lang := c.QueryParam("lang"); shell.LanguageNames[lang] != "" && lang != client.Language {
			if err := p.deps.Accounts.SetLanguage(c.Request().Context(), p.DB.Read(),
				client.ID, lang); err != nil {
				return err
			}
		}
		p.restOnSession(c)
		if err = h(c, client); errors.Is(err, account.ErrNoSession) { // the session ended during the request
			return p.keepAndLogIn(c)
		}
		return err
	})
}

// restOnSession makes the client's further actions in this request depend on their session.
func (p *Pages) restOnSession(c echo.Context) {
	shell.Rests(c, account.SignedIn(p.Cookie(c, shell.SessionCookie)))
}

// keepAndLogIn asks the visitor to sign in. A form that was sent is shown again afterwards.
func (p *Pages) keepAndLogIn(c echo.Context) error {
	if err := p.KeepForm(c); err != nil {
		return fmt.Errorf("keep a form: %w", err)
	}
	return shell.ToLogin(c, backTo(c))
}

// fresh is [Pages.mine] for what protects the account. If the sign-in is too old, the client signs in again first.
func (p *Pages) fresh(h func(echo.Context, *account.Client) error) echo.HandlerFunc {
	return p.mine(func(c echo.Context, client *account.Client) error {
		tx := p.DB.Read()
		at, err := p.deps.Accounts.SignedInAt(c.Request().Context(), tx, p.Cookie(c, shell.SessionCookie))
		if err != nil && !errors.Is(err, account.ErrNoSession) {
			return fmt.Errorf("read browser session: %w", err)
		}
		if tx.Now.Sub(at) > account.FreshSignIn {
			if err := p.KeepForm(c); err != nil {
				return fmt.Errorf("keep a form: %w", err)
			}
			return c.Redirect(http.StatusSeeOther, "/login?again=1&next="+url.QueryEscape(backTo(c)))
		}
		return h(c, client)
	})
}

// backTo returns the page to return to after a sign-in. A form that was sent is not sent again.
func backTo(c echo.Context) string {
	if c.Request().Method == http.MethodPost {
		return shell.PageOf(c)
	}
	return c.Request().URL.RequestURI()
}

type overviewView struct {
	Wallet   wallet.Balance
	Phone    string // masked; empty if none is verified
	Open     int    // number of consultations
	Apps     []oauth.Connection
	Passkeys int
}

// overview is the start page of the account.
func (p *Pages) overview(c echo.Context, client *account.Client) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	var v overviewView
	var err error
	if v.Wallet, err = p.deps.Wallet.Balance(ctx, tx, client.ID); err != nil {
		return fmt.Errorf("read wallet: %w", err)
	}
	if v.Phone, err = p.deps.SelfService.MaskedPhone(ctx, tx, client.ID); err != nil {
		return fmt.Errorf("read phone: %w", err)
	}
	if v.Open, err = p.deps.Consultations.OpenOf(ctx, tx, client.ID); err != nil {
		return err
	}
	if v.Apps, err = p.deps.OAuth.Connections(ctx, tx, client.ID); err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	keys, err := p.deps.SelfService.Passkeys(ctx, tx, client.ID)
	if err != nil {
		return err
	}
	v.Passkeys = len(keys)
	return p.showAccount(c, http.StatusOK, client, "overview", "overview.title", v)
}

// showAccount renders a page of the account with its navigation.
func (p *Pages) showAccount(c echo.Context, status int, client *account.Client, name, title string, data any) error {
	from, err := p.cameFrom(c, client)
	if err != nil {
		return fmt.Errorf("find the way back: %w", err)
	}
	v := shell.View{Title: title, Client: client, CSRF: p.CSRF(c), Section: name, Done: doneText(c),
		Kept: shell.WasKept(c), From: from, Data: data}
	if name != "statement" { // the months of a statement are those of UTC
		p.ShowLocalTime(c, &v)
	}
	return p.Render(c, status, name, v)
}

// doneTexts are the messages after a successful form.
var doneTexts = map[string]string{
	"app": "apps.done", "app-cancel": "apps.done.cancelled", "password": "security.password.done",
	"passkey": "security.passkey.done", "passkey-gone": "security.passkey.gone", "session": "security.session.done",
	"sessions": "security.sessions.done", "phone": "phone.done", "phone-gone": "phone.gone", "zone": "phone.zone.done",
	"cancelled": "consultation.done.cancelled", "withdrawn": "consultation.done.withdrawn",
	"refund": "wallet.refund.done", "topup-cancelled": "wallet.topup.cancelled", "topup-over": "wallet.topup.over",
	"welcome": "overview.welcome", "sent": "phone.sent", "email": "email.done", "undone": "undo.done",
}

func doneText(c echo.Context) string {
	if c.QueryParam("topup") == "success" { // back from the checkout
		return "wallet.topup.done"
	}
	return doneTexts[c.QueryParam("done")]
}

// confirmView asks for confirmation before something that cannot be undone.
type confirmView struct {
	Heading string // text key
	Text    string // text key
	Args    []any
	Facts   []forms.Fact
	Action  string // path of the form
	Button  string // text key
	Danger  bool
	Back    string
	Fields  []forms.Input
	Refused string // text key of why it is not possible; replaces the form
}

func (p *Pages) confirm(c echo.Context, status int, client *account.Client, v confirmView) error {
	title := v.Heading
	if slices.ContainsFunc(v.Fields, func(f forms.Input) bool { return f.Fault != "" }) {
		title += ".error"
	}
	page := shell.View{Title: title, Client: client, CSRF: p.CSRF(c), Narrow: true, Data: v}
	p.ShowLocalTime(c, &page)
	return p.Render(c, status, "confirm", page)
}

// EndsOfExpired are the reasons for which a consultation expires. The client sees the reason, because in most cases a
// lawyer was found.
var EndsOfExpired = []consultation.Reason{consultation.GuaranteeMissed, consultation.ClientNotReached,
	consultation.PhoneLost, consultation.WrongPerson, consultation.TooShort, consultation.TechnicalFault,
	consultation.NoteMissing, consultation.WithdrawnFrom}

// StatusKey returns the text key for the status of a consultation.
func StatusKey(s consultation.Status, why consultation.Reason) string {
	key := "status." + string(s)
	if s == consultation.Expired && slices.Contains(EndsOfExpired, why) {
		key += "." + string(why)
	}
	return key
}
