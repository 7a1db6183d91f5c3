package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// staffLinkPage is the page behind an emailed link. Its form asks for a password, then for the second factor.
type staffLinkPage struct {
	heading, lead, action string
	dead                  string // text key for a link that no longer works
	joins                 bool   // the person has not signed in before
	read                  func(ctx context.Context, tx postgres.Tx, token string) (staff.Person, error)
	use                   func(ctx context.Context, tx postgres.Tx, token, plain string, d staff.Device) (string, error)
}

func (p *Pages) invitation() staffLinkPage {
	return staffLinkPage{"staff.invitation.title", "staff.invitation.lead", "/staff/invitation",
		"staff.badlink.text", true, p.deps.Staff.PendingInvitation, p.deps.Staff.AcceptInvitation}
}

func (p *Pages) staffReset() staffLinkPage {
	return staffLinkPage{"reset.title", "staff.reset.lead", "/staff/password/reset", "badlink.text", false,
		p.deps.Staff.PendingReset, p.deps.Staff.Reset}
}

func (page staffLinkPage) form(person staff.Person, token string) forms.View {
	password := forms.NewPasswordField()
	password.Hint = "staff.password.rule"
	return forms.View{Heading: page.heading, Lead: page.lead, Args: []any{person.Email}, Action: page.action,
		Button: "reset.submit", Hidden: map[string]string{"token": token, "username": person.Email},
		Fields: []forms.Input{password}}
}

// openStaffLink shows the form. Opening the link does not use it up, because mail scanners open links.
func (p *Pages) openStaffLink(page staffLinkPage) echo.HandlerFunc {
	return func(c echo.Context) error {
		token := c.QueryParam("token")
		person, err := page.read(c.Request().Context(), p.DB.Read(), token)
		if errors.Is(err, staff.ErrBadLink) {
			return p.badStaffLink(c, page)
		}
		if err != nil {
			return err
		}
		return p.ShowStaffForm(c, http.StatusOK, page.form(person, token))
	}
}

func (p *Pages) useStaffLink(page staffLinkPage) echo.HandlerFunc {
	return func(c echo.Context) error {
		if wait := p.TryLink(c); wait > 0 {
			return shell.TooMany(c, wait)
		}
		ctx, form := c.Request().Context(), c.Request().PostForm
		token := form.Get("token")
		person, err := page.read(ctx, p.DB.Read(), token)
		if errors.Is(err, staff.ErrBadLink) {
			return p.badStaffLink(c, page)
		}
		if err != nil {
			return err
		}
		v := page.form(person, token)
		if !p.OwnStaffForm(c) {
			status, key, err := p.Stale(c, p.StaffOn)
			if err != nil {
				return err
			}
			v.Error = key
			return p.ShowStaffForm(c, status, v)
		}
		lang := p.Language(c)
		if _, chosen := p.ChosenLanguage(c); !chosen && c.Request().Header.Get("Accept-Language") == "" {
			lang = person.Language
		}
		var session string
		err = p.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
			if session, err = page.use(ctx, tx, token, form.Get("password"), DeviceOf(c)); err != nil || !page.joins {
				return err
			}
			// The reader's language replaces that of the invitation.
			return p.deps.Staff.SetLanguage(ctx, tx, person.ID, lang)
		})
		switch {
		case errors.Is(err, staff.ErrInvalid):
			v.Fields[0].Fault, v.Fields[0].Focus = forms.PasswordFault(err, "staff.password.length"), true
			return p.ShowStaffForm(c, http.StatusUnprocessableEntity, v)
		case errors.Is(err, staff.ErrBadLink):
			return p.badStaffLink(c, page)
		case err != nil:
			return fmt.Errorf("use a link of a mail: %w", err)
		}
		p.SetStaffToken(c, session)
		if page.joins {
			p.KeepLanguage(c, lang)
		}
		return c.Redirect(http.StatusSeeOther, "/staff/login/code")
	}
}

func (p *Pages) badStaffLink(c echo.Context, page staffLinkPage) error {
	return p.BadLinkBecause(c, page.dead, forms.LinkTo(shell.StaffLogin, "staff.login.title"))
}

func staffForgotView(email string) forms.View {
	return forms.View{Heading: "forgot.title", Lead: "forgot.lead", Action: "/staff/password/forgot",
		Button: "forgot.submit", Fields: []forms.Input{forms.EmailField(email)},
		Links: []forms.Link{forms.LinkTo(shell.StaffLogin, "forgot.back")}}
}

func (p *Pages) staffForgotForm(c echo.Context) error {
	return p.ShowStaffForm(c, http.StatusOK, staffForgotView(""))
}

// staffForgot sends an email. Its response is the same whether or not the address belongs to a person.
func (p *Pages) staffForgot(c echo.Context) error {
	email := strings.TrimSpace(c.Request().PostForm.Get("email"))
	v := staffForgotView(email)
	if !p.OwnStaffForm(c) {
		v.Error = "login.stale"
		return p.ShowStaffForm(c, http.StatusForbidden, v)
	}
	if wait := p.TryMail(c, "staff reset "+shell.Digest(email)); wait > 0 {
		return shell.TooMany(c, wait)
	}
	ctx := c.Request().Context()
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error { return p.deps.Staff.RequestReset(ctx, tx, email) })
	if errors.Is(err, staff.ErrInvalid) {
		v.Fields[0].Fault, v.Fields[0].Focus = "login.email.missing", true
		return p.ShowStaffForm(c, http.StatusUnprocessableEntity, v)
	}
	if err != nil {
		return fmt.Errorf("request reset: %w", err)
	}
	return p.MailSent(c, "forgot.sent", email)
}
