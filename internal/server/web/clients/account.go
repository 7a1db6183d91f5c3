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

// mine wraps a page of the signed-in client: everybody else is sent to sign in and comes back. A POST must come from a
// form that was made for this sign-in. The language that the client chooses for the pages is that of their messages,
// too.
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
		if err = h(c, client); errors.Is(err, account.ErrNoSession) { // it ended while the form was under way
			return p.keepAndLogIn(c)
		}
		return err
	})
}

// restOnSession lets what the client does from here on rest on their session.
func (p *Pages) restOnSession(c echo.Context) {
	shell.Rests(c, account.SignedIn(p.Cookie(c, shell.SessionCookie)))
}

// keepAndLogIn sends the visitor to sign in; a form that was sent is shown there again.
func (p *Pages) keepAndLogIn(c echo.Context) error {
	if err := p.KeepForm(c); err != nil {
		return fmt.Errorf("keep a form: %w", err)
	}
	return shell.ToLogin(c, backTo(c))
}

// fresh is [Pages.mine] for what protects the account: it asks who signed in a while ago to do so again.
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

// backTo is where to return after a sign-in; a form that was sent is not sent again.
func backTo(c echo.Context) string {
	if c.Request().Method == http.MethodPost {
		return shell.PageOf(c)
	}
	return c.Request().URL.RequestURI()
}

type overviewView struct {
	Wallet   wallet.Balance
	Phone    string // masked; empty when none is verified
	Open     int    // consultations
	Apps     []oauth.Connection
	Passkeys int
}

// overview is the start of the account.
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

// showAccount renders a page of the account, with its navigation.
func (p *Pages) showAccount(c echo.Context, status int, client *account.Client, name, title string, data any) error {
	from, err := p.cameFrom(c, client)
	if err != nil {
		return fmt.Errorf("find the way back: %w", err)
	}
	v := shell.View{Title: title, Client: client, CSRF: p.CSRF(c), Section: name, Done: doneText(c),
		Kept: shell.WasKept(c), From: from, Data: data}
	if name != "statement" { // whose months are those of UTC
		p.ShowLocalTime(c, &v)
	}
	return p.Render(c, status, name, v)
}

// doneTexts are what a page can say after a form of it succeeded.
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

// confirmView is a question before something that cannot be taken back.
type confirmView struct {
	Heading string // key
	Text    string // key
	Args    []any
	Facts   []forms.Fact
	Action  string // where the form goes
	Button  string // key
	Danger  bool
	Back    string
	Fields  []forms.Input
	Refused string // key of why it cannot be done; there is no form then
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

// EndsOfExpired are the reasons for which a consultation expires: the client is told which, because most are not that
// nobody was found.
var EndsOfExpired = []consultation.Reason{consultation.GuaranteeMissed, consultation.ClientNotReached,
	consultation.PhoneLost, consultation.WrongPerson, consultation.TooShort, consultation.TechnicalFault,
	consultation.NoteMissing, consultation.WithdrawnFrom}

// StatusKey is the text of where a consultation stands.
func StatusKey(s consultation.Status, why consultation.Reason) string {
	key := "status." + string(s)
	if s == consultation.Expired && slices.Contains(EndsOfExpired, why) {
		key += "." + string(why)
	}
	return key
}
