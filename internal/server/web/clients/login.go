package clients

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/text"
	"partnerd/internal/domain/account"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/shell"
)

type loginView struct {
	Next, Email string
	Application string // the application to link; empty if the visitor came on their own
	Error       string // text key of an error in the whole form
	Wait        int    // until the next attempt: seconds with login.throttled, minutes with login.held
	NoEmail     bool
	NoPassword  bool
	Again       bool // the visitor is signed in and must sign in again
	Passkeys    bool
}

func (p *Pages) loginForm(c echo.Context) error {
	next := shell.SafeNext(c.QueryParam("next"))
	client, err := p.Client(c)
	if err != nil {
		return err
	}
	again := c.QueryParam("again") == "1"
	if client != nil && !again {
		return c.Redirect(http.StatusFound, next)
	}
	v := loginView{Next: next, Again: client != nil}
	if client != nil {
		v.Email = client.Email
	}
	return p.showLogin(c, http.StatusOK, v)
}

func (p *Pages) showLogin(c echo.Context, status int, v loginView) error {
	title := "login.title"
	if v.Error != "" || v.NoEmail || v.NoPassword {
		title = "login.title.error"
	}
	v.Passkeys = p.deps.SelfService.HasPasskeys()
	if shell.LeadsToApplication(v.Next) {
		shell.AllowFormsToLeave(c)
		var err error
		if v.Application, err = p.applicationOf(c, v.Next); err != nil {
			return err
		}
	}
	return p.Render(c, status, "login", shell.View{Title: title, CSRF: p.CSRF(c), Narrow: true, Data: v})
}

// showDisabled tells a client with proven identity that the account is disabled, and whom to ask.
func (p *Pages) showDisabled(c echo.Context) error {
	return p.Render(c, http.StatusForbidden, "disabled", shell.View{Title: "disabled.title", Narrow: true})
}

// login checks the password. An unknown address and a wrong password get the same response after the same time. Only a
// caller with the right password learns that an account is disabled.
func (p *Pages) login(c echo.Context) error {
	form := c.Request().PostForm
	email, password := strings.TrimSpace(form.Get("email")), form.Get("password")
	v := loginView{Next: shell.SafeNext(form.Get("next")), Email: email, NoEmail: email == "",
		NoPassword: password == ""}
	if v.NoEmail || v.NoPassword {
		return p.showLogin(c, http.StatusUnprocessableEntity, v)
	}
	if !p.OwnForm(c) {
		v.Error = "login.stale"
		return p.showLogin(c, http.StatusForbidden, v)
	}
	ctx := c.Request().Context()
	g, err := p.loginGuess(c, email)
	if err != nil {
		return err
	}
	d, err := p.Guess(ctx, g)
	if err != nil {
		return err
	}
	if wait := d.RetryAfter; wait > 0 {
		v.Error, v.Wait = "login.throttled", int(math.Ceil(wait.Seconds()))
		c.Response().Header().Set("Retry-After", fmt.Sprint(v.Wait))
		if wait > 2*time.Minute {
			v.Error, v.Wait = "login.held", int(math.Ceil(wait.Minutes()))
		}
		return p.showLogin(c, http.StatusTooManyRequests, v)
	}
	client, err := p.deps.Accounts.CheckPassword(ctx, p.DB.Read(), email, password)
	if errors.Is(err, account.ErrBadCredentials) {
		v.Error = "login.failed"
		return p.showLogin(c, http.StatusUnprocessableEntity, v)
	}
	if errors.Is(err, account.ErrDisabled) {
		return p.showDisabled(c)
	}
	if err != nil {
		return fmt.Errorf("check password: %w", err)
	}
	if err := p.Forgive(ctx, g); err != nil {
		return err
	}
	return p.signIn(c, client, v.Next, proof{})
}

// proof is how a visitor proved their identity, other than by the password.
type proof struct {
	passkeyID string
	mailbox   bool // by an emailed link, so an email about the sign-in would tell its reader nothing new
}

// signIn ends this browser's session and begins one under a new ID. The proof may have been invalidated in the
// meantime.
func (p *Pages) signIn(c echo.Context, client account.Client, next string, by proof) error {
	ctx, before := c.Request().Context(), p.Cookie(c, shell.KnownCookie)
	var token, known string
	err := p.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		if old := p.Cookie(c, shell.SessionCookie); old != "" {
			if err := p.deps.Accounts.SignOut(ctx, tx, old); err != nil {
				return err
			}
		}
		if known, err = p.deps.Accounts.KnownBrowser(tx, client, before); err != nil {
			return err
		}
		agent := c.Request().UserAgent()
		if token, err = p.deps.Accounts.SignInFrom(ctx, tx, client.ID, account.Device{UserAgent: agent,
			Address: c.RealIP(), PasskeyID: by.passkeyID}); err != nil {
			return err
		}
		if err := p.deps.Accounts.LearnLanguage(ctx, tx, client.ID, p.Language(c)); err != nil {
			return err
		}
		if _, seen, err := p.deps.Accounts.Knows(ctx, tx, before, client.Email); err != nil || seen || by.mailbox {
			return err
		}
		return p.deps.SelfService.NotifyBrowser(ctx, tx, client, p.Language(c), text.Browser(agent))
	})
	if errors.Is(err, account.ErrBadCredentials) { // since the proof, the account was disabled or the passkey removed
		now, err := p.deps.Accounts.Get(ctx, p.DB.Read(), client.ID)
		if err == nil && now.Disabled {
			return p.showDisabled(c)
		}
		return p.showLogin(c, http.StatusUnprocessableEntity, loginView{Next: next, Email: client.Email,
			Error: "login.failed"})
	}
	if err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	p.SetCookie(c, shell.SessionCookie, token)
	p.SetCookie(c, shell.BrowserCookie, "")
	p.KeepCookie(c, shell.KnownCookie, known, account.KnownLifetime)
	// the browser's language may be the choice of an earlier user
	if client.Language != "" && client.Language != p.Language(c) {
		p.KeepLanguage(c, client.Language)
	}
	return c.Redirect(http.StatusSeeOther, next)
}

// loginGuess counts an attempt against its network address and its account, known or not. A browser that has signed in
// to the account before is counted separately. Strangers, even on the same network, therefore cannot lock out the
// owner.
func (p *Pages) loginGuess(c echo.Context, email string) (shell.Guess, error) {
	browser, ok, err := p.deps.Accounts.Knows(c.Request().Context(), p.DB.Read(), p.Cookie(c, shell.KnownCookie), email)
	if err != nil {
		return shell.Guess{}, fmt.Errorf("recognise the browser: %w", err)
	}
	if ok {
		return p.KnownGuess("login browser " + browser + " " + shell.Digest(email)), nil
	}
	return p.StrangeGuess(c, "login account "+shell.Digest(email)), nil
}

// logout ends the session and redirects to next, which the consent page uses to switch accounts.
func (p *Pages) logout(c echo.Context) error {
	if !p.OwnForm(c) {
		return shell.StatusError(http.StatusForbidden)
	}
	ctx := c.Request().Context()
	if token := p.Cookie(c, shell.SessionCookie); token != "" {
		if err := p.deps.Accounts.SignOut(ctx, p.DB.Read(), token); err != nil {
			return fmt.Errorf("sign out: %w", err)
		}
	}
	p.SetCookie(c, shell.SessionCookie, "")
	next := "/"
	if raw := c.Request().PostForm.Get("next"); raw != "" {
		next = shell.SafeNext(raw)
	}
	return c.Redirect(http.StatusSeeOther, next)
}
