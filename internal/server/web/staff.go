package web

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/desk"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
)

// Where the people who work here sign in, and where they go then.
const (
	staffLogin   = "/staff/login"
	staffSafety  = "/staff/security"
	lawyersDesk  = "/desk"
	operatorDesk = "/ops"
)

// staffCookie holds the token of a sign-in that is complete, or that waits for the second factor.
func (p *Pages) staffCookie() string { return staff.CookieName(p.secure) }

func (p *Pages) staffToken(c echo.Context) string {
	k, err := c.Cookie(p.staffCookie())
	if err != nil {
		return ""
	}
	return k.Value
}

// setStaffToken keeps the token until the browser is closed; an empty one removes it.
func (p *Pages) setStaffToken(c echo.Context, token string) {
	k := &http.Cookie{Name: p.staffCookie(), Value: token, Path: "/", Secure: p.secure, HttpOnly: true,
		SameSite: http.SameSiteLaxMode}
	if token == "" {
		k.MaxAge = -1
	}
	c.SetCookie(k)
}

// staffCSRF is [Pages.csrf] for the forms of people who work here.
func (p *Pages) staffCSRF(c echo.Context) string {
	secret := p.staffFormSecret(c)
	if secret == "" {
		secret = rand.Text()
		p.setCookie(c, browserCookie, secret)
	}
	return withPageKey(staff.FormToken(secret))
}

// ownStaffForm tells whether the form was made by [Pages.staffCSRF] for this browser and this sign-in.
func (p *Pages) ownStaffForm(c echo.Context) bool {
	secret := p.staffFormSecret(c)
	got, _, _ := strings.Cut(c.Request().PostForm.Get("csrf"), pageKeyMark)
	return secret != "" && subtle.ConstantTimeCompare([]byte(got), []byte(staff.FormToken(secret))) == 1
}

func (p *Pages) staffFormSecret(c echo.Context) string {
	if token := p.staffToken(c); token != "" {
		return token
	}
	return p.cookie(c, browserCookie)
}

// withStaff wraps a page of somebody who works here: everybody else is sent to sign in and comes back. A POST must come
// from a form that was made for this sign-in. The language that they choose for the pages is that of their messages,
// too.
func (p *Pages) withStaff(h func(echo.Context, staff.Session) error) echo.HandlerFunc {
	return p.page(func(c echo.Context) error {
		s, err := p.deps.Staff.Session(c.Request().Context(), p.deps.DB.Read(), p.staffToken(c))
		if errors.Is(err, staff.ErrNoSession) {
			return p.keepAndLogInStaff(c)
		}
		if err != nil {
			return fmt.Errorf("read the session of somebody who works here: %w", err)
		}
		if c.Request().Method == http.MethodPost && !p.ownStaffForm(c) {
			return statusError(http.StatusForbidden)
		}
		if done, err := p.admit(c, s); done || err != nil {
			return err
		}
		if lang := c.QueryParam("lang"); languageNames[lang] != "" && lang != s.Person.Language {
			if err := p.deps.Staff.SetLanguage(c.Request().Context(), p.deps.DB.Read(), s.Person.ID, lang); err != nil {
				return err
			}
			s.Person.Language = lang
		}
		rests(c, restsOfStaff(c, s))
		if err = h(c, s); errors.Is(err, staff.ErrNoSession) { // it ended while the form was under way
			return p.keepAndLogInStaff(c)
		}
		return err
	})
}

// restsOfStaff is what a person's acts rest on: their session, and at the lawyers' desk what the Desk API's acts rest
// on.
func restsOfStaff(c echo.Context, s staff.Session) postgres.Rests {
	if s.Person.Kind == staff.Lawyer && strings.HasPrefix(c.Path(), lawyersDesk+"/") {
		return desk.Acting{Session: s, Act: webAct(c)}
	}
	return staff.InSession(s)
}

// keepAndLogInStaff sends somebody who works here to sign in; a form that was sent is not sent again, but shown there.
func (p *Pages) keepAndLogInStaff(c echo.Context) error {
	next := c.Request().URL.RequestURI()
	if c.Request().Method == http.MethodPost {
		if err := p.keepForm(c); err != nil {
			return fmt.Errorf("keep a form: %w", err)
		}
		next = pageOf(c)
	}
	return c.Redirect(http.StatusSeeOther, staffLogin+"?next="+url.QueryEscape(next))
}

// withLawyer is [Pages.withStaff] for the lawyer's desk.
func (p *Pages) withLawyer(h func(echo.Context, staff.Session) error) echo.HandlerFunc {
	return p.withStaff(func(c echo.Context, s staff.Session) error {
		if s.Person.Kind != staff.Lawyer {
			return p.notYours(c, s)
		}
		return h(c, s)
	})
}

// withOperator is [Pages.withStaff] for operators who have one of the roles; without roles, for every operator.
func (p *Pages) withOperator(roles []staff.Role, h func(echo.Context, staff.Session) error) echo.HandlerFunc {
	return p.withStaff(func(c echo.Context, s staff.Session) error {
		if !s.Person.May(roles...) {
			return p.notYours(c, s)
		}
		return h(c, s)
	})
}

// notYours tells somebody who works here that the page is for others.
func (p *Pages) notYours(c echo.Context, s staff.Session) error {
	const key = "error.role"
	return p.renderStaff(c, http.StatusForbidden, s, "error",
		view{Title: "error.role.title", Data: errorView{Status: http.StatusForbidden, Key: key,
			Back: deskOf(s.Person)}})
}

// renderStaff renders a page of somebody who works here, with his navigation.
func (p *Pages) renderStaff(c echo.Context, status int, s staff.Session, name string, v view) error {
	v.Staff, v.CSRF = &s.Person, p.staffCSRF(c)
	if name != "desk" {
		if err := p.withDesk(c, s, &v); err != nil {
			return err
		}
	}
	return p.render(c, status, name, v)
}

// deskOf is where a person works.
func deskOf(person staff.Person) string {
	switch person.Kind {
	case staff.Lawyer:
		return lawyersDesk
	case staff.Partner:
		return developersDesk
	case staff.Operator:
	}
	return operatorDesk
}

// staffNext returns raw when it is a page of a desk, else the desk of the person.
func staffNext(raw string, person staff.Person) string {
	next := safeNext(raw)
	for _, root := range []string{staffSafety, lawyersDesk, operatorDesk, developersDesk} {
		if next == root || strings.HasPrefix(next, root+"/") || strings.HasPrefix(next, root+"?") {
			return next
		}
	}
	return deskOf(person)
}
