package signin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/desk"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/shell"
)

// Deps contains the dependencies of the staff sign-in pages besides the shell.
type Deps struct {
	Desk        *desk.Service
	Idempotency *idempotency.Service
	Staff       *staff.Service
}

// Pages serves the staff sign-in pages.
type Pages struct {
	*shell.Shell
	deps    Deps
	Lawyers LawyersDoor // set before the first request
}

// New creates the pages. They are complete once Lawyers is set.
func New(s *shell.Shell, d Deps) *Pages { return &Pages{Shell: s, deps: d} }

// StaffCSRF is [shell.Shell.CSRF] for the forms of staff.
func (p *Pages) StaffCSRF(c echo.Context) string {
	return p.FormToken(c, p.StaffToken(c), staff.FormToken)
}

// OwnStaffForm reports whether [Pages.StaffCSRF] created the form for this browser and this sign-in.
func (p *Pages) OwnStaffForm(c echo.Context) bool {
	return p.MadeFor(c, p.StaffToken(c), staff.FormToken)
}

// LawyersDoor is the part of the lawyers' desk that concerns sessions.
type LawyersDoor interface {
	// Admit decides whether a lawyer may carry out the request. done reports that the response has been sent.
	Admit(c echo.Context, s staff.Session) (done bool, err error)
	// RestOn returns the premise of a lawyer's actions at the desk.
	RestOn(c echo.Context, s staff.Session) postgres.Rests
	// WithDesk keeps a lawyer on duty on a page other than the desk.
	WithDesk(c echo.Context, s staff.Session, v *shell.View) error
}

// WithStaff wraps a page for staff. Everyone else signs in first and then returns. A POST must come from a form created
// for this sign-in. The language chosen for the pages also applies to emails.
func (p *Pages) WithStaff(h func(echo.Context, staff.Session) error) echo.HandlerFunc {
	return p.Page(func(c echo.Context) error {
		s, err := p.deps.Staff.Session(c.Request().Context(), p.DB.Read(), p.StaffToken(c))
		if errors.Is(err, staff.ErrNoSession) {
			return p.keepAndLogInStaff(c)
		}
		if err != nil {
			return fmt.Errorf("read the session of somebody who works here: %w", err)
		}
		if c.Request().Method == http.MethodPost && !p.OwnStaffForm(c) {
			return shell.StatusError(http.StatusForbidden)
		}
		if done, err := p.Lawyers.Admit(c, s); done || err != nil {
			return err
		}
		if lang := c.QueryParam("lang"); shell.LanguageNames[lang] != "" && lang != s.Person.Language {
			if err := p.deps.Staff.SetLanguage(c.Request().Context(), p.DB.Read(), s.Person.ID, lang); err != nil {
				return err
			}
			s.Person.Language = lang
		}
		shell.Rests(c, p.restsOfStaff(c, s))
		if err = h(c, s); errors.Is(err, staff.ErrNoSession) { // the session ended during the request
			return p.keepAndLogInStaff(c)
		}
		return err
	})
}

// restsOfStaff returns the premise of a person's actions: their session, and at the lawyers' desk the premise of the
// Desk API.
func (p *Pages) restsOfStaff(c echo.Context, s staff.Session) postgres.Rests {
	if s.Person.Kind == staff.Lawyer && strings.HasPrefix(c.Path(), shell.LawyersDesk+"/") {
		return p.Lawyers.RestOn(c, s)
	}
	return staff.InSession(s)
}

// keepAndLogInStaff asks a staff member to sign in. A form that was sent is shown again afterwards, not sent.
func (p *Pages) keepAndLogInStaff(c echo.Context) error {
	next := c.Request().URL.RequestURI()
	if c.Request().Method == http.MethodPost {
		if err := p.KeepForm(c); err != nil {
			return fmt.Errorf("keep a form: %w", err)
		}
		next = shell.PageOf(c)
	}
	return c.Redirect(http.StatusSeeOther, shell.StaffLogin+"?next="+url.QueryEscape(next))
}

// WithLawyer is [Pages.WithStaff] for the lawyers' desk.
func (p *Pages) WithLawyer(h func(echo.Context, staff.Session) error) echo.HandlerFunc {
	return p.WithStaff(func(c echo.Context, s staff.Session) error {
		if s.Person.Kind != staff.Lawyer {
			return p.NotYours(c, s)
		}
		return h(c, s)
	})
}

// WithOperator is [Pages.WithStaff] for operators with one of the roles. Without roles, it admits every operator.
func (p *Pages) WithOperator(roles []staff.Role, h func(echo.Context, staff.Session) error) echo.HandlerFunc {
	return p.WithStaff(func(c echo.Context, s staff.Session) error {
		if !s.Person.May(roles...) {
			return p.NotYours(c, s)
		}
		return h(c, s)
	})
}

// NotYours tells a staff member that the page is for others.
func (p *Pages) NotYours(c echo.Context, s staff.Session) error {
	const key = "error.role"
	return p.RenderStaff(c, http.StatusForbidden, s, "error",
		shell.View{Title: "error.role.title", Data: shell.ErrorView{Status: http.StatusForbidden, Key: key,
			Back: shell.DeskOf(s.Person)}})
}

// RenderStaff renders a page for a staff member, with their navigation.
func (p *Pages) RenderStaff(c echo.Context, status int, s staff.Session, name string, v shell.View) error {
	v.Staff, v.CSRF = &s.Person, p.StaffCSRF(c)
	if name != "desk" {
		if err := p.Lawyers.WithDesk(c, s, &v); err != nil {
			return err
		}
	}
	return p.Render(c, status, name, v)
}
