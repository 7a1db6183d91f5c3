package developers

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
	"partnerd/internal/server/web/signin"
)

func developerSignUpView(email string) forms.View {
	return forms.View{Heading: "dev.signup.title", Lead: "dev.signup.lead", Action: "/developers/signup",
		Button: "signup.submit", Fields: []forms.Input{forms.EmailField(email)},
		Links: []forms.Link{forms.LinkTo(shell.DevelopersLogin, "dev.signup.have")}}
}

func (p *Pages) developerSignUpForm(c echo.Context) error {
	return p.ShowStaffForm(c, http.StatusOK, developerSignUpView(""))
}

// signUpQuota limits the sign-ups from one network address, which several people can share. All processes count
// together.
var signUpQuota = ratelimit.Quota{Burst: 30, Interval: 20 * time.Minute}

// developerSignUp sends an email. Its response is the same whether or not the address belongs to a person.
func (p *Pages) developerSignUp(c echo.Context) error {
	email := strings.TrimSpace(c.Request().PostForm.Get("email"))
	v := developerSignUpView(email)
	if !p.OwnStaffForm(c) {
		v.Error = "login.stale"
		return p.ShowStaffForm(c, http.StatusForbidden, v)
	}
	if wait := p.TryMail(c, "developer sign-up "+shell.Digest(email)); wait > 0 {
		return shell.TooMany(c, wait)
	}
	ctx := c.Request().Context()
	var d ratelimit.Decision
	err := p.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		if d, err = ratelimit.Take(ctx, tx, "portal sign-ups from "+ratelimit.Network(c.RealIP()),
			signUpQuota); err != nil || !d.Allowed {
			return err
		}
		return p.deps.Portal.RequestSignUp(ctx, tx, email, p.Language(c))
	})
	if err == nil && !d.Allowed {
		return shell.TooMany(c, d.RetryAfter)
	}
	if errors.Is(err, portal.ErrInvalid) {
		v.Fields[0].Fault, v.Fields[0].Focus = "login.email.missing", true
		return p.ShowStaffForm(c, http.StatusUnprocessableEntity, v)
	}
	if err != nil {
		return fmt.Errorf("request a sign-up to the portal: %w", err)
	}
	key := "dev.signup.sent"
	if p.deps.MailFolder != "" {
		return p.ShowSent(c, shell.SentView{Key: key, Email: email, Folder: p.deps.MailFolder})
	}
	return p.MailSent(c, key, email)
}

// joinView asks a new person for a name and a password, and a known person for nothing.
func joinView(pending portal.Pending, token, name string) forms.View {
	v := forms.View{Heading: "dev.join.title", Lead: "dev.join.lead", Args: []any{pending.Email},
		Action: "/developers/join", Button: "dev.join.submit", Hidden: map[string]string{"token": token,
			"username": pending.Email}}
	if pending.Application != nil {
		v.Lead, v.Args = "dev.join.app", []any{pending.Application.Name, pending.Email}
		if pending.Application.Suspended {
			v.Error = "dev.join.suspended"
		}
	}
	if !pending.Known {
		password := forms.NewPasswordField()
		password.Hint = "staff.password.rule"
		v.Fields = []forms.Input{{ID: "name", Label: "signup.name", Type: "text", Autocomplete: "name", Value: name},
			password}
	}
	return v
}

// joinForm shows the form. Opening the link does not use it up, because mail scanners open links.
func (p *Pages) joinForm(c echo.Context) error {
	token := c.QueryParam("token")
	pending, err := p.deps.Portal.PendingLink(c.Request().Context(), p.DB.Read(), token)
	if errors.Is(err, portal.ErrBadLink) {
		return p.badJoin(c)
	}
	if err != nil {
		return err
	}
	return p.ShowStaffForm(c, http.StatusOK, joinView(pending, token, ""))
}

// badJoin says what to do instead of using an invalid link. The purpose of the link is unknown. Where people can sign
// up themselves, it may have been a sign-up.
func (p *Pages) badJoin(c echo.Context) error {
	signIn := forms.LinkTo(shell.DevelopersLogin, "dev.login.title")
	if !p.Sandbox {
		return p.BadLinkBecause(c, "dev.badlink.text", signIn)
	}
	return p.ShowBadLink(c, shell.BadLinkView{Text: "dev.badlink.sandbox",
		Instead: forms.LinkTo("/developers/signup", "dev.badlink.signup"),
		Also:    &signIn})
}

func (p *Pages) join(c echo.Context) error {
	if wait := p.TryLink(c); wait > 0 {
		return shell.TooMany(c, wait)
	}
	ctx, form := c.Request().Context(), c.Request().PostForm
	token := form.Get("token")
	pending, err := p.deps.Portal.PendingLink(ctx, p.DB.Read(), token)
	if errors.Is(err, portal.ErrBadLink) {
		return p.badJoin(c)
	}
	if err != nil {
		return err
	}
	v := joinView(pending, token, form.Get("name"))
	if !p.OwnStaffForm(c) {
		status, key, err := p.Stale(c, p.StaffOn)
		if err != nil {
			return err
		}
		v.Error = key
		return p.ShowStaffForm(c, status, v)
	}
	if forms.Require(v.Fields, form) {
		return p.ShowStaffForm(c, http.StatusUnprocessableEntity, v)
	}
	var session string
	err = p.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		var person staff.Person
		person, session, err = p.deps.Portal.Join(ctx, tx, token, form.Get("name"), form.Get("password"),
			signin.DeviceOf(c))
		if err != nil || session == "" {
			return err
		}
		// The reader's language replaces that of the invitation.
		return p.deps.Staff.SetLanguage(ctx, tx, person.ID, p.Language(c))
	})
	switch {
	case errors.Is(err, staff.ErrInvalid) && forms.Refuse(v.Fields, err):
		return p.ShowStaffForm(c, http.StatusUnprocessableEntity, v)
	case errors.Is(err, staff.ErrInvalid):
		v.Fields[1].Fault, v.Fields[1].Focus = forms.PasswordFault(err, "staff.password.length"), true
		return p.ShowStaffForm(c, http.StatusUnprocessableEntity, v)
	case errors.Is(err, portal.ErrSuspended):
		v.Error = "dev.join.suspended"
		return p.ShowStaffForm(c, http.StatusConflict, v)
	case errors.Is(err, portal.ErrBadLink):
		return p.badJoin(c)
	case err != nil:
		return fmt.Errorf("join the portal: %w", err)
	}
	if session == "" {
		return c.Redirect(http.StatusSeeOther, shell.DevelopersLogin)
	}
	p.SetStaffToken(c, session)
	p.KeepLanguage(c, p.Language(c))
	return c.Redirect(http.StatusSeeOther, "/staff/login/code?next="+shell.QueryEscape(shell.DevelopersDesk))
}
