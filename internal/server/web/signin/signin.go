package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/passkey"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// StaffSuspended shows the sign-in page to a suspended lawyer who entered the right password. They can still sign in to
// download copies of their notes.
func (p *Pages) StaffSuspended(c echo.Context, v forms.View) error {
	v.Error = "staff.login.suspended"
	v.Links = append(v.Links, forms.LinkTo(shell.StaffLogin+"?next="+shell.QueryEscape(shell.KeyPage),
		"staff.login.suspended.file"))
	return p.ShowStaffForm(c, http.StatusForbidden, v)
}

const knownStaffCookie = "partnerd-staff-known"

// Register adds the pages on which staff sign in and manage their sign-in.
func (p *Pages) Register(e *echo.Echo, read []string) {
	for _, path := range []string{shell.LawyersDesk + "/login", shell.OperatorDesk + "/login", "/staff"} {
		e.Match(read, path, func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, shell.StaffLogin) })
	}
	e.Match(read, shell.StaffLogin, p.Page(p.StaffLoginForm))
	e.POST(shell.StaffLogin, p.Page(p.SignInOnce(p.OwnStaffForm, p.StaffOn, p.staffLogin)))
	e.Match(read, "/staff/login/code", p.Page(p.staffCodeForm))
	e.POST("/staff/login/code", p.Page(p.SignInOnce(p.OwnStaffForm, p.StaffOn, p.staffCode)))
	e.Match(read, "/staff/login/factor", p.Page(p.factorForm))
	e.POST("/staff/login/factor", p.Page(p.SignInOnce(p.OwnStaffForm, p.StaffOn, p.confirmFactor)))
	e.Match(read, shell.ShownPage+"/:key", p.WithStaff(p.shown))
	e.POST("/staff/logout", p.Page(p.VisitorOnce(p.OwnStaffForm, p.staffLogout)))
	e.Match(read, "/staff/invitation", p.Page(p.openStaffLink(p.invitation())))
	e.POST("/staff/invitation", p.Page(p.VisitorOnce(p.OwnStaffForm, p.useStaffLink(p.invitation()))))
	e.Match(read, "/staff/password/forgot", p.Page(p.staffForgotForm))
	e.POST("/staff/password/forgot", p.Page(p.SignInOnce(p.OwnStaffForm, p.StaffOn, p.staffForgot)))
	e.Match(read, "/staff/password/reset", p.Page(p.openStaffLink(p.staffReset())))
	e.POST("/staff/password/reset", p.Page(p.VisitorOnce(p.OwnStaffForm, p.useStaffLink(p.staffReset()))))
	e.Match(read, shell.StaffSafety, p.WithStaff(p.staffSecurity))
	e.POST(shell.StaffSafety+"/password", p.WithStaff(p.StaffOnce(p.changeStaffPassword)))
	e.POST(shell.StaffSafety+"/codes", p.WithStaff(p.StaffOnce(p.renewCodes)))
	e.POST(shell.StaffSafety+"/language", p.WithStaff(p.StaffOnce(p.setStaffLanguage)))
	e.POST(shell.StaffSafety+"/sessions/end", p.WithStaff(p.StaffOnce(p.endOtherStaffSessions)))
	e.POST(shell.StaffSafety+"/sessions/:id/end", p.WithStaff(p.StaffOnce(p.endStaffSession)))
	if p.deps.Staff.HasPasskeys() {
		e.Match(read, "/staff/login/passkey", p.Page(p.staffPasskeyForm))
		e.POST("/staff/login/passkey", p.Page(p.SignInOnce(p.OwnStaffForm, p.StaffOn, p.staffPasskey)))
		e.Match(read, shell.StaffSafety+"/passkeys", p.freshStaff(shell.StaffSafety, p.newStaffPasskeyForm))
		e.POST(shell.StaffSafety+"/passkeys", p.freshStaff(shell.StaffSafety, p.StaffOnce(p.addStaffPasskey)))
		e.POST(shell.StaffSafety+"/passkeys/:id/remove", p.freshStaff(shell.StaffSafety,
			p.StaffOnce(p.removeStaffPasskey)))
	}
}

// ShowStaffForm is [clients.Pages.showForm] for staff.
func (p *Pages) ShowStaffForm(c echo.Context, status int, v forms.View) error {
	title := v.Heading
	if v.Faulty() {
		title += ".error"
	}
	return p.Render(c, status, "form", shell.View{Title: title, CSRF: p.StaffCSRF(c), Narrow: true, Data: v})
}

// StaffLoginView is the sign-in form for staff.
func (p *Pages) StaffLoginView(next, email string) forms.View {
	v := forms.View{Heading: "staff.login.title", Lead: "staff.login.lead", Action: shell.StaffLogin,
		Button: "login.submit",
		Hidden: map[string]string{"next": next},
		Fields: []forms.Input{forms.EmailField(email), {ID: "password", Label: "login.password", Type: "password",
			Autocomplete: "current-password"}},
		Links: []forms.Link{forms.LinkTo("/staff/password/forgot", "login.forgot")}}
	if next == shell.DevelopersDesk || strings.HasPrefix(next, shell.DevelopersDesk+"/") {
		v.Heading, v.Lead = "dev.login.title", "dev.login.lead"
		if p.Sandbox {
			v.Links = append(v.Links, forms.LinkTo("/developers/signup", "dev.login.signup"))
		}
	}
	if p.deps.Staff.HasPasskeys() {
		v.Links = append([]forms.Link{forms.LinkTo("/staff/login/passkey?next="+shell.QueryEscape(next),
			"login.passkey")}, v.Links...)
	}
	return v
}

// StaffLoginForm forwards a person who is already signed in, unless they asked to sign in again.
func (p *Pages) StaffLoginForm(c echo.Context) error {
	next := c.QueryParam("next")
	if next == "" && c.Path() == shell.DevelopersLogin {
		next = shell.DevelopersDesk
	}
	s, err := p.deps.Staff.Session(c.Request().Context(), p.DB.Read(), p.StaffToken(c))
	if err != nil && !errors.Is(err, staff.ErrNoSession) {
		return err
	}
	v := p.StaffLoginView(shell.SafeNext(next), s.Person.Email)
	if err == nil && c.QueryParam("again") != "1" {
		return c.Redirect(http.StatusSeeOther, shell.StaffNext(next, s.Person))
	}
	if err == nil {
		v.Lead = "login.again"
		return p.showAgainForm(c, s, v)
	}
	return p.ShowStaffForm(c, http.StatusOK, v)
}

// showAgainForm asks a person to sign in again. A lawyer stays on duty meanwhile.
func (p *Pages) showAgainForm(c echo.Context, s staff.Session, v forms.View) error {
	of := shell.View{Title: v.Heading, CSRF: p.StaffCSRF(c), Narrow: true, Data: v}
	if err := p.Lawyers.WithDesk(c, s, &of); err != nil {
		return err
	}
	return p.Render(c, http.StatusOK, "form", of)
}

// staffLogin checks the password. An unknown address and a wrong password get the same response after the same time.
func (p *Pages) staffLogin(c echo.Context) error {
	form, ctx := c.Request().PostForm, c.Request().Context()
	email, next := strings.TrimSpace(form.Get("email")), shell.SafeNext(form.Get("next"))
	v := p.StaffLoginView(next, email)
	if !p.OwnStaffForm(c) {
		v.Error = "login.stale"
		return p.ShowStaffForm(c, http.StatusForbidden, v)
	}
	if forms.Require(v.Fields, form) {
		return p.ShowStaffForm(c, http.StatusUnprocessableEntity, v)
	}
	g, err := p.staffGuess(c, email)
	if err != nil {
		return err
	}
	d, err := p.Guess(ctx, g)
	if err != nil {
		return err
	}
	if d.RetryAfter > 0 {
		return shell.TooMany(c, d.RetryAfter)
	}
	proof, err := p.deps.Staff.CheckPassword(ctx, p.DB.Read(), email, form.Get("password"))
	if errors.Is(err, staff.ErrBadCredentials) {
		return p.staffRefused(c, v)
	}
	if err != nil {
		return fmt.Errorf("check password: %w", err)
	}
	if err := p.Forgive(ctx, g); err != nil {
		return err
	}
	if out, err := p.suspendedOut(ctx, email); err != nil {
		return err
	} else if out && next != shell.KeyPage {
		return p.StaffSuspended(c, v)
	}
	var token string
	err = p.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		if err := p.deps.Staff.SignOut(ctx, tx, p.StaffToken(c)); err != nil {
			return err
		}
		token, err = p.deps.Staff.Begin(ctx, tx, proof, DeviceOf(c))
		return err
	})
	if errors.Is(err, staff.ErrBadCredentials) {
		return p.staffRefused(c, v)
	}
	if err != nil {
		return fmt.Errorf("begin a sign-in: %w", err)
	}
	p.SetStaffToken(c, token)
	return c.Redirect(http.StatusSeeOther, "/staff/login/code?next="+shell.QueryEscape(next))
}

// suspendedOut reports whether the address belongs to a suspended lawyer without open work. The caller has entered the
// right password.
func (p *Pages) suspendedOut(ctx context.Context, email string) (bool, error) {
	tx := p.DB.Read()
	person, err := p.deps.Staff.ByEmail(ctx, tx, email)
	if err != nil || person.Kind != staff.Lawyer {
		return false, err
	}
	return p.deps.Desk.Out(ctx, tx, person.LawyerID)
}

func (p *Pages) staffRefused(c echo.Context, v forms.View) error {
	v.Error = "login.failed"
	return p.ShowStaffForm(c, http.StatusUnprocessableEntity, v)
}

// staffGuess is [clients.Pages.loginGuess] for staff.
func (p *Pages) staffGuess(c echo.Context, email string) (shell.Guess, error) {
	browser, ok, err := p.deps.Staff.Knows(c.Request().Context(), p.DB.Read(),
		p.Cookie(c, knownStaffCookie), email)
	if err != nil {
		return shell.Guess{}, fmt.Errorf("recognise the browser: %w", err)
	}
	if ok {
		return p.KnownGuess("staff browser " + browser), nil
	}
	return p.StrangeGuess(c, "staff account "+shell.Digest(email)), nil
}

// DeviceOf returns the device and address of a request.
func DeviceOf(c echo.Context) staff.Device {
	return staff.Device{UserAgent: c.Request().UserAgent(), Address: c.RealIP()}
}

func (p *Pages) staffCodeView(next string) forms.View {
	v := forms.View{Heading: "staff.code.title", Lead: "staff.code.lead", Action: "/staff/login/code",
		Button: "login.submit", Hidden: map[string]string{"next": next},
		Fields: []forms.Input{forms.CodeField("staff.code", "staff.code.hint")}}
	if p.deps.Staff.HasPasskeys() {
		v.Links = append(v.Links, forms.LinkTo("/staff/login/passkey?next="+shell.QueryEscape(next), "login.passkey"))
	}
	v.Links = append(v.Links, forms.LinkTo(shell.StaffLogin, "forgot.back"))
	return v
}

// toStaffLogin restarts the sign-in, which leads to the same page as the unfinished one.
func toStaffLogin(c echo.Context) error {
	next := c.QueryParam("next")
	if c.Request().Method == http.MethodPost && c.Request().PostForm.Has("next") {
		next = c.Request().PostForm.Get("next")
	}
	if next == "" {
		return c.Redirect(http.StatusSeeOther, shell.StaffLogin)
	}
	return c.Redirect(http.StatusSeeOther, shell.StaffLogin+"?next="+shell.QueryEscape(shell.SafeNext(next)))
}

// pendingStaff returns the person whose second factor this browser must show. If there is none, it redirects to the
// sign-in and returns nil.
func (p *Pages) pendingStaff(c echo.Context) (*staff.Person, error) {
	person, err := p.deps.Staff.Pending(c.Request().Context(), p.DB.Read(), p.StaffToken(c))
	if errors.Is(err, staff.ErrNoSession) {
		return nil, toStaffLogin(c)
	}
	return &person, err
}

func (p *Pages) staffCodeForm(c echo.Context) error {
	person, err := p.pendingStaff(c)
	if err != nil || person == nil {
		return err
	}
	if !person.SecondFactor {
		to := "/staff/login/factor"
		if next := c.QueryParam("next"); next != "" {
			to += "?next=" + shell.QueryEscape(shell.SafeNext(next))
		}
		return c.Redirect(http.StatusSeeOther, to)
	}
	return p.ShowStaffForm(c, http.StatusOK, p.staffCodeView(shell.SafeNext(c.QueryParam("next"))))
}

func (p *Pages) staffCode(c echo.Context) error {
	person, err := p.pendingStaff(c)
	if err != nil || person == nil {
		return err
	}
	form := c.Request().PostForm
	v := p.staffCodeView(shell.SafeNext(form.Get("next")))
	if !p.OwnStaffForm(c) {
		v.Error = "login.stale"
		return p.ShowStaffForm(c, http.StatusForbidden, v)
	}
	code, ctx := staff.ReadCode(form.Get("code")), c.Request().Context()
	g := p.codeGuess(c, person.ID, code)
	var token string
	d, err := p.Judge(ctx, g, []error{staff.ErrCode}, func(tx postgres.Tx) (err error) {
		token, _, err = p.deps.Staff.EnterCode(ctx, tx, p.StaffToken(c), code, DeviceOf(c))
		return err
	})
	switch {
	case d.RetryAfter > 0:
		v.Error = "staff.code.held"
		shell.SetRetryAfter(c, d.RetryAfter)
		return p.ShowStaffForm(c, http.StatusTooManyRequests, v)
	case errors.Is(err, staff.ErrCode):
		if err := p.tellWrongCodes(c, person.ID, g, d); err != nil {
			return err
		}
		v.Fields[0].Fault, v.Fields[0].Focus = "staff.code.wrong", true
		return p.ShowStaffForm(c, http.StatusUnprocessableEntity, v)
	case errors.Is(err, staff.ErrNoSession):
		return c.Redirect(http.StatusSeeOther, shell.StaffLogin)
	case err != nil:
		return fmt.Errorf("enter code: %w", err)
	}
	if err := p.signStaffIn(c, *person, token); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, shell.StaffNext(form.Get("next"), *person))
}

// codeGuess describes a code from someone with the right password, who may be a stranger. A browser known to the person
// is therefore counted separately. A recovery code cannot be guessed, so it is always checked, however many codes were
// wrong. Text that is neither kind of code counts as a code of the device.
func (p *Pages) codeGuess(c echo.Context, staffID string, code staff.Code) shell.Guess {
	if code.IsRecovery() {
		return shell.Guess{Tries: []shell.Try{shell.From(c, "recovery", p.LoginPerAddress)},
			Key:      "staff recovery " + staffID,
			Hopeless: true}
	}
	if browser, ok := p.deps.Staff.KnowsPerson(p.DB.Read(), p.Cookie(c, knownStaffCookie), staffID); ok {
		return p.KnownGuess("staff code browser " + browser)
	}
	key := "staff code " + staffID
	return shell.Guess{Tries: []shell.Try{{Bucket: key, PerMinute: shell.PasswordsPerMinute}}, Key: key}
}

const wrongCodesToTell = 3 // number of counted wrong codes

// toldQuota limits how often a person is notified of wrong codes under one key.
var toldQuota = ratelimit.Quota{Burst: 1, Interval: 24 * time.Hour}

// tellWrongCodes emails the person that someone knows their password, once there are too many wrong codes for a slip.
func (p *Pages) tellWrongCodes(c echo.Context, staffID string, g shell.Guess, d ratelimit.Decision) error {
	if d.Limit-d.Remaining < wrongCodesToTell {
		return nil
	}
	ctx := c.Request().Context()
	return p.DB.InTx(ctx, func(tx postgres.Tx) error {
		told, err := ratelimit.Take(ctx, tx, "told of "+g.Key, toldQuota)
		if err != nil || !told.Allowed {
			return err
		}
		return p.deps.Staff.TellWrongCodes(ctx, tx, staffID, DeviceOf(c))
	})
}

// withSecret runs do to check a secret that a signed-in person enters again. Each purpose has its own limit, separate
// from the sign-in, so that exhausting one limit does not block the others.
func (p *Pages) withSecret(c echo.Context, purpose, staffID string,
	do func(tx postgres.Tx) error,
) (wait time.Duration, err error) {
	key := "staff " + purpose + " " + staffID
	d, err := p.Judge(c.Request().Context(), shell.Guess{Tries: []shell.Try{{Bucket: key,
		PerMinute: shell.PasswordsPerMinute}}, Key: key},
		[]error{staff.ErrCode, staff.ErrBadCredentials}, do)
	return d.RetryAfter, err
}

// signStaffIn gives the browser the token of a complete session and sets the person's language. The language shown
// before may be the choice of an earlier user of the browser.
func (p *Pages) signStaffIn(c echo.Context, person staff.Person, token string) error {
	known, err := p.deps.Staff.KnownBrowser(c.Request().Context(), p.DB.Read(), person.ID)
	if err != nil {
		return fmt.Errorf("mark the browser: %w", err)
	}
	p.SetStaffToken(c, token)
	p.SetCookie(c, shell.BrowserCookie, "")
	p.KeepCookie(c, knownStaffCookie, known, staff.KnownLifetime)
	p.KeepLanguage(c, person.Language)
	return nil
}

func (p *Pages) staffLogout(c echo.Context) error {
	if !p.OwnStaffForm(c) {
		return shell.StatusError(http.StatusForbidden)
	}
	if err := p.deps.Staff.SignOut(c.Request().Context(), p.DB.Read(), p.StaffToken(c)); err != nil {
		return err
	}
	p.SetStaffToken(c, "")
	return c.Redirect(http.StatusSeeOther, shell.StaffLogin)
}

func (p *Pages) staffPasskeyForm(c echo.Context) error {
	return p.showStaffPasskey(c, http.StatusOK, shell.SafeNext(c.QueryParam("next")), "")
}

func (p *Pages) showStaffPasskey(c echo.Context, status int, next, fault string) error {
	if wait := p.TryPasskey(c); wait > 0 {
		return shell.TooMany(c, wait)
	}
	challenge, err := p.deps.Staff.BeginPasskeySignIn(c.Request().Context(), p.DB.Read())
	if err != nil {
		return err
	}
	return p.RenderPasskey(c, status, shell.View{CSRF: p.StaffCSRF(c)},
		shell.PasskeyView{Heading: "passkey.login.title",
			Lead: "passkey.login.lead", Button: "passkey.login.submit", Do: "get", Action: "/staff/login/passkey",
			Token: challenge.Token, Options: string(challenge.Options), Next: next, Error: fault,
			Back: forms.LinkTo(shell.StaffLogin+"?next="+shell.QueryEscape(next), "passkey.login.password")})
}

func (p *Pages) staffPasskey(c echo.Context) error {
	form, ctx := c.Request().PostForm, c.Request().Context()
	next := shell.SafeNext(form.Get("next"))
	if !p.OwnStaffForm(c) {
		return p.showStaffPasskey(c, http.StatusForbidden, next, "login.stale")
	}
	var token string
	var person staff.Person
	var refused error
	err := p.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		if err := p.deps.Staff.SignOut(ctx, tx, p.StaffToken(c)); err != nil {
			return err
		}
		token, person, err = p.deps.Staff.PasskeySignIn(ctx, tx, form.Get("token"), []byte(form.Get("answer")),
			DeviceOf(c))
		if refused = nil; errors.Is(err, passkey.ErrRefused) {
			refused, err = err, nil // the challenge is used up in any case
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("sign in with passkey: %w", err)
	}
	if refused != nil {
		p.Logger.InfoContext(ctx, "passkey refused", "reason", refused)
		return p.showStaffPasskey(c, http.StatusUnprocessableEntity, next, "passkey.refused")
	}
	if err := p.signStaffIn(c, person, token); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, shell.StaffNext(next, person))
}
