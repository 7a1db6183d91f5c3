package signin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/text"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/passkey"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// freshStaff is [Pages.WithStaff] for actions that need a recent sign-in. If the sign-in is too old, the person signs
// in again and returns to page.
func (p *Pages) freshStaff(page string, h func(echo.Context, staff.Session) error) echo.HandlerFunc {
	return p.WithStaff(func(c echo.Context, s staff.Session) error {
		if !s.Fresh(p.DB.Clock().Now()) {
			return p.SignInAgain(c, page)
		}
		return h(c, s)
	})
}

// SignInAgain asks a person to sign in again and then returns to page.
func (p *Pages) SignInAgain(c echo.Context, page string) error {
	return c.Redirect(http.StatusSeeOther, shell.StaffLogin+"?again=1&next="+url.QueryEscape(page))
}

// KeepAndSignIn asks for a recent sign-in and then returns to the action. A form that was sent is shown again, filled
// in.
func (p *Pages) KeepAndSignIn(c echo.Context) error {
	if c.Request().Method == http.MethodPost && p.OwnStaffForm(c) {
		if err := p.KeepForm(c); err != nil {
			return fmt.Errorf("keep a form: %w", err)
		}
	}
	return p.SignInAgain(c, c.Request().URL.Path)
}

type staffSecurityView struct {
	Password    []forms.Input
	Code        forms.Input // for new recovery codes
	CodesLeft   int64
	Passkeys    []passkey.Passkey
	HasPasskeys bool
	Sessions    []staffSessionView
	Languages   []languageChoice
}

type staffSessionView struct {
	staff.OpenSession
	Browser string // if it can be recognised
	Current bool
}

type languageChoice struct {
	Code, Name string
	Chosen     bool
}

var staffDone = map[string]string{"password": "security.password.done", "passkey": "security.passkey.done",
	"passkey-gone": "security.passkey.gone", "session": "security.session.done", "sessions": "security.sessions.done",
	"language": "staff.language.done"}

func (p *Pages) staffSecurity(c echo.Context, s staff.Session) error {
	return p.showStaffSecurity(c, http.StatusOK, s, nil)
}

// showStaffSecurity shows the page with the errors of its fields.
func (p *Pages) showStaffSecurity(c echo.Context, status int, s staff.Session, faults map[string]string) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	present, chosen, code := forms.PresentPasswordField(faults["present"]), forms.NewPasswordField(),
		forms.CodeField("staff.codes.code",
			"staff.code.hint")
	chosen.Hint = "staff.password.rule"
	chosen.Fault, chosen.Focus = faults["password"], faults["password"] != ""
	code.Fault, code.Focus = faults["code"], faults["code"] != ""
	v := staffSecurityView{Password: []forms.Input{present, chosen}, Code: code,
		HasPasskeys: p.deps.Staff.HasPasskeys()}
	var err error
	if v.CodesLeft, err = p.deps.Staff.RecoveryCodesLeft(ctx, tx, s.Person.ID); err != nil {
		return err
	}
	if v.Passkeys, err = p.deps.Staff.Passkeys(ctx, tx, s.Person.ID); err != nil {
		return err
	}
	sessions, err := p.deps.Staff.Sessions(ctx, tx, s.Person.ID)
	if err != nil {
		return err
	}
	for _, open := range sessions {
		v.Sessions = append(v.Sessions, staffSessionView{open, text.Browser(open.Device.UserAgent), open.ID == s.ID})
	}
	for _, lang := range shell.Languages {
		v.Languages = append(v.Languages, languageChoice{lang, shell.LanguageNames[lang], lang == s.Person.Language})
	}
	title := "security.title"
	if len(faults) > 0 {
		title = "security.title.error"
	}
	return p.RenderStaff(c, status, s, "staff_security", shell.View{Title: title,
		Done: staffDone[c.QueryParam("done")], Data: v})
}

func (p *Pages) changeStaffPassword(c echo.Context, s staff.Session) error {
	form := c.Request().PostForm
	ctx := c.Request().Context()
	sent := []forms.Input{forms.PresentPasswordField(""), forms.NewPasswordField()}
	if forms.Require(sent, form) {
		faults := map[string]string{"present": sent[0].Fault, "password": sent[1].Fault}
		return p.showStaffSecurity(c, http.StatusUnprocessableEntity, s, faults)
	}
	wait, err := p.withSecret(c, "present", s.Person.ID, func(tx postgres.Tx) error {
		return p.deps.Staff.ChangePassword(ctx, tx, s.Person.ID, form.Get("present"), form.Get("password"), s.ID)
	})
	switch {
	case wait > 0:
		return shell.TooMany(c, wait)
	case errors.Is(err, staff.ErrBadCredentials):
		return p.showStaffSecurity(c, http.StatusUnprocessableEntity, s,
			map[string]string{"present": "security.password.wrong"})
	case errors.Is(err, staff.ErrInvalid):
		return p.showStaffSecurity(c, http.StatusUnprocessableEntity, s,
			map[string]string{"password": forms.PasswordFault(err, "staff.password.length")})
	case err != nil:
		return fmt.Errorf("change password: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, shell.StaffSafety+"?done=password")
}

func (p *Pages) renewCodes(c echo.Context, s staff.Session) error {
	ctx := c.Request().Context()
	to := ""
	wait, err := p.withSecret(c, "renewal", s.Person.ID, func(tx postgres.Tx) error {
		codes, err := p.deps.Staff.RenewRecoveryCodes(ctx, tx, s.Person.ID, c.Request().PostForm.Get("code"))
		if err != nil {
			return err
		}
		to, err = p.keepCodes(ctx, tx, s.ID, shell.StaffSafety, codes)
		return err
	})
	switch {
	case wait > 0:
		return shell.TooMany(c, wait)
	case errors.Is(err, staff.ErrCode):
		return p.showStaffSecurity(c, http.StatusUnprocessableEntity, s, map[string]string{"code": "staff.code.wrong"})
	case err != nil:
		return fmt.Errorf("renew recovery codes: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, to)
}

func (p *Pages) setStaffLanguage(c echo.Context, s staff.Session) error {
	lang := c.Request().PostForm.Get("language")
	if !slices.Contains(shell.Languages, lang) {
		return shell.StatusError(http.StatusBadRequest)
	}
	ctx := c.Request().Context()
	err := p.DB.InTx(ctx,
		func(tx postgres.Tx) error { return p.deps.Staff.SetLanguage(ctx, tx, s.Person.ID, lang) })
	if err != nil {
		return err
	}
	p.KeepLanguage(c, lang)
	return c.Redirect(http.StatusSeeOther, shell.StaffSafety+"?done=language")
}

func (p *Pages) endStaffSession(c echo.Context, s staff.Session) error {
	ctx := c.Request().Context()
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error {
		return p.deps.Staff.EndSession(ctx, tx, s.Person.ID, c.Param("id"))
	})
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, shell.StaffSafety+"?done=session")
}

func (p *Pages) endOtherStaffSessions(c echo.Context, s staff.Session) error {
	ctx := c.Request().Context()
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error {
		_, err := p.deps.Staff.EndSessions(ctx, tx, s.Person.ID, s.ID)
		return err
	})
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, shell.StaffSafety+"?done=sessions")
}

func (p *Pages) newStaffPasskeyForm(c echo.Context, s staff.Session) error {
	return p.showNewStaffPasskey(c, s, shell.PasskeyFault{Status: http.StatusOK})
}

func (p *Pages) showNewStaffPasskey(c echo.Context, s staff.Session, fault shell.PasskeyFault) error {
	challenge, err := p.deps.Staff.BeginPasskey(c.Request().Context(), p.DB.Read(), s.Person.ID)
	v, status, err := shell.NewPasskey(shell.StaffSafety, challenge, err, fault)
	if err != nil {
		return err
	}
	of := shell.View{Staff: &s.Person, CSRF: p.StaffCSRF(c)}
	if err := p.Lawyers.WithDesk(c, s, &of); err != nil {
		return err
	}
	return p.RenderPasskey(c, status, of, v)
}

func (p *Pages) addStaffPasskey(c echo.Context, s staff.Session) error {
	form, ctx := c.Request().PostForm, c.Request().Context()
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error {
		return p.deps.Staff.AddPasskey(ctx, tx, s.Person.ID, form.Get("token"), form.Get("name"),
			[]byte(form.Get("answer")))
	})
	if fault, refused := p.PasskeyFault(ctx, err); refused {
		return p.showNewStaffPasskey(c, s, fault)
	}
	if err != nil {
		return fmt.Errorf("add passkey: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, shell.StaffSafety+"?done=passkey")
}

func (p *Pages) removeStaffPasskey(c echo.Context, s staff.Session) error {
	id := c.Param("id")
	if !shell.Identifier.MatchString(id) {
		return shell.StatusError(http.StatusNotFound)
	}
	ctx := c.Request().Context()
	err := p.DB.InTx(ctx,
		func(tx postgres.Tx) error { return p.deps.Staff.RemovePasskey(ctx, tx, s.Person.ID, id) })
	if err != nil {
		return fmt.Errorf("remove passkey: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, shell.StaffSafety+"?done=passkey-gone")
}
