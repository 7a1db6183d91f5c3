package web

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
)

const knownStaffCookie = "partnerd-staff-known"

// registerStaff adds the pages on which the people who work here sign in, and look after it.
func (p *Pages) registerStaff(e *echo.Echo, read []string) {
	for _, path := range []string{lawyersDesk + "/login", operatorDesk + "/login", "/staff"} {
		e.Match(read, path, func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, staffLogin) })
	}
	e.Match(read, staffLogin, p.page(p.staffLoginForm))
	e.POST(staffLogin, p.page(p.signInOnce(p.ownStaffForm, p.staffOn, p.staffLogin)))
	e.Match(read, "/staff/login/code", p.page(p.staffCodeForm))
	e.POST("/staff/login/code", p.page(p.signInOnce(p.ownStaffForm, p.staffOn, p.staffCode)))
	e.Match(read, "/staff/login/factor", p.page(p.factorForm))
	e.POST("/staff/login/factor", p.page(p.signInOnce(p.ownStaffForm, p.staffOn, p.confirmFactor)))
	e.Match(read, shownPage+"/:key", p.withStaff(p.shown))
	e.POST("/staff/logout", p.page(p.visitorOnce(p.ownStaffForm, p.staffLogout)))
	e.Match(read, "/staff/invitation", p.page(p.openStaffLink(p.invitation())))
	e.POST("/staff/invitation", p.page(p.visitorOnce(p.ownStaffForm, p.useStaffLink(p.invitation()))))
	e.Match(read, "/staff/password/forgot", p.page(p.staffForgotForm))
	e.POST("/staff/password/forgot", p.page(p.signInOnce(p.ownStaffForm, p.staffOn, p.staffForgot)))
	e.Match(read, "/staff/password/reset", p.page(p.openStaffLink(p.staffReset())))
	e.POST("/staff/password/reset", p.page(p.visitorOnce(p.ownStaffForm, p.useStaffLink(p.staffReset()))))
	e.Match(read, staffSafety, p.withStaff(p.staffSecurity))
	e.POST(staffSafety+"/password", p.withStaff(p.staffOnce(p.changeStaffPassword)))
	e.POST(staffSafety+"/codes", p.withStaff(p.staffOnce(p.renewCodes)))
	e.POST(staffSafety+"/language", p.withStaff(p.staffOnce(p.setStaffLanguage)))
	e.POST(staffSafety+"/sessions/end", p.withStaff(p.staffOnce(p.endOtherStaffSessions)))
	e.POST(staffSafety+"/sessions/:id/end", p.withStaff(p.staffOnce(p.endStaffSession)))
	if p.deps.Staff.HasPasskeys() {
		e.Match(read, "/staff/login/passkey", p.page(p.staffPasskeyForm))
		e.POST("/staff/login/passkey", p.page(p.signInOnce(p.ownStaffForm, p.staffOn, p.staffPasskey)))
		e.Match(read, staffSafety+"/passkeys", p.freshStaff(staffSafety, p.newStaffPasskeyForm))
		e.POST(staffSafety+"/passkeys", p.freshStaff(staffSafety, p.staffOnce(p.addStaffPasskey)))
		e.POST(staffSafety+"/passkeys/:id/remove", p.freshStaff(staffSafety, p.staffOnce(p.removeStaffPasskey)))
	}
}

// showStaffForm is [Pages.showForm] for the people who work here.
func (p *Pages) showStaffForm(c echo.Context, status int, v formView) error {
	title := v.Heading
	if v.faulty() {
		title += ".error"
	}
	return p.render(c, status, "form", view{Title: title, CSRF: p.staffCSRF(c), Narrow: true, Data: v})
}

func (p *Pages) staffLoginView(next, email string) formView {
	v := formView{Heading: "staff.login.title", Lead: "staff.login.lead", Action: staffLogin, Button: "login.submit",
		Hidden: map[string]string{"next": next},
		Fields: []field{emailField(email), {ID: "password", Label: "login.password", Type: "password",
			Autocomplete: "current-password"}},
		Links: []link{{"/staff/password/forgot", "login.forgot"}}}
	if next == developersDesk || strings.HasPrefix(next, developersDesk+"/") {
		v.Heading, v.Lead = "dev.login.title", "dev.login.lead"
		if p.deps.Sandbox {
			v.Links = append(v.Links, link{"/developers/signup", "dev.login.signup"})
		}
	}
	if p.deps.Staff.HasPasskeys() {
		v.Links = append([]link{{"/staff/login/passkey?next=" + queryEscape(next), "login.passkey"}}, v.Links...)
	}
	return v
}

// staffLoginForm leads on who is signed in already, unless it is asked to show it again.
func (p *Pages) staffLoginForm(c echo.Context) error {
	next := c.QueryParam("next")
	if next == "" && c.Path() == developersLogin {
		next = developersDesk
	}
	s, err := p.deps.Staff.Session(c.Request().Context(), p.deps.DB.Read(), p.staffToken(c))
	if err != nil && !errors.Is(err, staff.ErrNoSession) {
		return err
	}
	v := p.staffLoginView(safeNext(next), s.Person.Email)
	if err == nil && c.QueryParam("again") != "1" {
		return c.Redirect(http.StatusSeeOther, staffNext(next, s.Person))
	}
	if err == nil {
		v.Lead = "login.again"
		return p.showAgainForm(c, s, v)
	}
	return p.showStaffForm(c, http.StatusOK, v)
}

// showAgainForm asks somebody to sign in again, and keeps a lawyer on duty while they do.
func (p *Pages) showAgainForm(c echo.Context, s staff.Session, v formView) error {
	of := view{Title: v.Heading, CSRF: p.staffCSRF(c), Narrow: true, Data: v}
	if err := p.withDesk(c, s, &of); err != nil {
		return err
	}
	return p.render(c, http.StatusOK, "form", of)
}

// staffLogin checks the password. It says the same for an unknown address and a wrong password, and takes the same
// time.
func (p *Pages) staffLogin(c echo.Context) error {
	form, ctx := c.Request().PostForm, c.Request().Context()
	email, next := strings.TrimSpace(form.Get("email")), safeNext(form.Get("next"))
	v := p.staffLoginView(next, email)
	if !p.ownStaffForm(c) {
		v.Error = "login.stale"
		return p.showStaffForm(c, http.StatusForbidden, v)
	}
	if require(v.Fields, form) {
		return p.showStaffForm(c, http.StatusUnprocessableEntity, v)
	}
	g, err := p.staffGuess(c, email)
	if err != nil {
		return err
	}
	d, err := p.guess(ctx, g)
	if err != nil {
		return err
	}
	if d.RetryAfter > 0 {
		return tooMany(c, d.RetryAfter)
	}
	proof, err := p.deps.Staff.CheckPassword(ctx, p.deps.DB.Read(), email, form.Get("password"))
	if errors.Is(err, staff.ErrBadCredentials) {
		return p.staffRefused(c, v)
	}
	if err != nil {
		return fmt.Errorf("check password: %w", err)
	}
	if err := p.forgive(ctx, g); err != nil {
		return err
	}
	if out, err := p.suspendedOut(ctx, email); err != nil {
		return err
	} else if out && next != keyPage {
		return p.staffSuspended(c, v)
	}
	var token string
	err = p.deps.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		if err := p.deps.Staff.SignOut(ctx, tx, p.staffToken(c)); err != nil {
			return err
		}
		token, err = p.deps.Staff.Begin(ctx, tx, proof, deviceOf(c))
		return err
	})
	if errors.Is(err, staff.ErrBadCredentials) {
		return p.staffRefused(c, v)
	}
	if err != nil {
		return fmt.Errorf("begin a sign-in: %w", err)
	}
	p.setStaffToken(c, token)
	return c.Redirect(http.StatusSeeOther, "/staff/login/code?next="+queryEscape(next))
}

// suspendedOut tells whether the person of an address, who has shown the password, is a suspended lawyer with nothing
// to finish.
func (p *Pages) suspendedOut(ctx context.Context, email string) (bool, error) {
	tx := p.deps.DB.Read()
	person, err := p.deps.Staff.ByEmail(ctx, tx, email)
	if err != nil || person.Kind != staff.Lawyer {
		return false, err
	}
	return p.deps.Desk.Out(ctx, tx, person.LawyerID)
}

func (p *Pages) staffRefused(c echo.Context, v formView) error {
	v.Error = "login.failed"
	return p.showStaffForm(c, http.StatusUnprocessableEntity, v)
}

// staffGuess is [Pages.loginGuess] for the people who work here.
func (p *Pages) staffGuess(c echo.Context, email string) (guess, error) {
	browser, ok, err := p.deps.Staff.Knows(c.Request().Context(), p.deps.DB.Read(),
		p.cookie(c, knownStaffCookie), email)
	if err != nil {
		return guess{}, fmt.Errorf("recognise the browser: %w", err)
	}
	if ok {
		return p.knownGuess("staff browser " + browser), nil
	}
	return p.strangeGuess(c, "staff account "+digest(email)), nil
}

func deviceOf(c echo.Context) staff.Device {
	return staff.Device{UserAgent: c.Request().UserAgent(), Address: c.RealIP()}
}

func (p *Pages) staffCodeView(next string) formView {
	v := formView{Heading: "staff.code.title", Lead: "staff.code.lead", Action: "/staff/login/code",
		Button: "login.submit", Hidden: map[string]string{"next": next},
		Fields: []field{codeField("staff.code", "staff.code.hint")}}
	if p.deps.Staff.HasPasskeys() {
		v.Links = append(v.Links, link{"/staff/login/passkey?next=" + queryEscape(next), "login.passkey"})
	}
	v.Links = append(v.Links, link{staffLogin, "forgot.back"})
	return v
}

func codeField(label, hint string) field {
	return field{ID: "code", Label: label, Type: "text", Autocomplete: "one-time-code", Hint: hint}
}

// toStaffLogin begins a sign-in again, which leads to where the half one would have led.
func toStaffLogin(c echo.Context) error {
	next := c.QueryParam("next")
	if c.Request().Method == http.MethodPost && c.Request().PostForm.Has("next") {
		next = c.Request().PostForm.Get("next")
	}
	if next == "" {
		return c.Redirect(http.StatusSeeOther, staffLogin)
	}
	return c.Redirect(http.StatusSeeOther, staffLogin+"?next="+queryEscape(safeNext(next)))
}

// pendingStaff returns whose second factor this browser has to show, or nil after sending it to sign in.
func (p *Pages) pendingStaff(c echo.Context) (*staff.Person, error) {
	person, err := p.deps.Staff.Pending(c.Request().Context(), p.deps.DB.Read(), p.staffToken(c))
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
			to += "?next=" + queryEscape(safeNext(next))
		}
		return c.Redirect(http.StatusSeeOther, to)
	}
	return p.showStaffForm(c, http.StatusOK, p.staffCodeView(safeNext(c.QueryParam("next"))))
}

func (p *Pages) staffCode(c echo.Context) error {
	person, err := p.pendingStaff(c)
	if err != nil || person == nil {
		return err
	}
	form := c.Request().PostForm
	v := p.staffCodeView(safeNext(form.Get("next")))
	if !p.ownStaffForm(c) {
		v.Error = "login.stale"
		return p.showStaffForm(c, http.StatusForbidden, v)
	}
	code, ctx := staff.ReadCode(form.Get("code")), c.Request().Context()
	g := p.codeGuess(c, person.ID, code)
	var token string
	d, err := p.judge(ctx, g, []error{staff.ErrCode}, func(tx postgres.Tx) (err error) {
		token, _, err = p.deps.Staff.EnterCode(ctx, tx, p.staffToken(c), code, deviceOf(c))
		return err
	})
	switch {
	case d.RetryAfter > 0:
		v.Error = "staff.code.held"
		setRetryAfter(c, d.RetryAfter)
		return p.showStaffForm(c, http.StatusTooManyRequests, v)
	case errors.Is(err, staff.ErrCode):
		if err := p.tellWrongCodes(c, person.ID, g, d); err != nil {
			return err
		}
		v.Fields[0].Fault, v.Fields[0].Focus = "staff.code.wrong", true
		return p.showStaffForm(c, http.StatusUnprocessableEntity, v)
	case errors.Is(err, staff.ErrNoSession):
		return c.Redirect(http.StatusSeeOther, staffLogin)
	case err != nil:
		return fmt.Errorf("enter code: %w", err)
	}
	if err := p.signStaffIn(c, *person, token); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, staffNext(form.Get("next"), *person))
}

// codeGuess is a code of somebody who has shown the password, and may be a stranger who knows it: so a browser that the
// person knows is counted by itself, and a recovery code, which nobody guesses, is looked at however many codes were
// wrong. Text that is no code of either kind counts as one of the device.
func (p *Pages) codeGuess(c echo.Context, staffID string, code staff.Code) guess {
	if code.IsRecovery() {
		return guess{tries: []try{from(c, "recovery", p.deps.LoginPerAddress)}, key: "staff recovery " + staffID,
			hopeless: true}
	}
	if browser, ok := p.deps.Staff.KnowsPerson(p.deps.DB.Read(), p.cookie(c, knownStaffCookie), staffID); ok {
		return p.knownGuess("staff code browser " + browser)
	}
	key := "staff code " + staffID
	return guess{tries: []try{{key, passwordsPerMinute}}, key: key}
}

const wrongCodesToTell = 3 // that are remembered

// toldQuota is how often a person is told of wrong codes that are counted under one key.
var toldQuota = ratelimit.Quota{Burst: 1, Interval: 24 * time.Hour}

// tellWrongCodes mails the person that somebody knows the password, once it is more than a slip.
func (p *Pages) tellWrongCodes(c echo.Context, staffID string, g guess, d ratelimit.Decision) error {
	if d.Limit-d.Remaining < wrongCodesToTell {
		return nil
	}
	ctx := c.Request().Context()
	return p.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		told, err := ratelimit.Take(ctx, tx, "told of "+g.key, toldQuota)
		if err != nil || !told.Allowed {
			return err
		}
		return p.deps.Staff.TellWrongCodes(ctx, tx, staffID, deviceOf(c))
	})
}

// withSecret has do judge what somebody who is signed in shows once more. Each purpose is counted by itself, and apart
// from the sign-in, so that whoever fills one of these buckets closes no other way.
func (p *Pages) withSecret(c echo.Context, purpose, staffID string,
	do func(tx postgres.Tx) error,
) (wait time.Duration, err error) {
	key := "staff " + purpose + " " + staffID
	d, err := p.judge(c.Request().Context(), guess{tries: []try{{key, passwordsPerMinute}}, key: key},
		[]error{staff.ErrCode, staff.ErrBadCredentials}, do)
	return d.RetryAfter, err
}

// signStaffIn gives the browser the token of a complete session, and the person's language: what the browser showed may
// be the choice of whoever used it before.
func (p *Pages) signStaffIn(c echo.Context, person staff.Person, token string) error {
	known, err := p.deps.Staff.KnownBrowser(c.Request().Context(), p.deps.DB.Read(), person.ID)
	if err != nil {
		return fmt.Errorf("mark the browser: %w", err)
	}
	p.setStaffToken(c, token)
	p.setCookie(c, browserCookie, "")
	p.keepCookie(c, knownStaffCookie, known, staff.KnownLifetime)
	p.keepLanguage(c, person.Language)
	return nil
}

func (p *Pages) staffLogout(c echo.Context) error {
	if !p.ownStaffForm(c) {
		return statusError(http.StatusForbidden)
	}
	if err := p.deps.Staff.SignOut(c.Request().Context(), p.deps.DB.Read(), p.staffToken(c)); err != nil {
		return err
	}
	p.setStaffToken(c, "")
	return c.Redirect(http.StatusSeeOther, staffLogin)
}

func (p *Pages) staffPasskeyForm(c echo.Context) error {
	return p.showStaffPasskey(c, http.StatusOK, safeNext(c.QueryParam("next")), "")
}

func (p *Pages) showStaffPasskey(c echo.Context, status int, next, fault string) error {
	if wait := p.attempt(c.Request().Context(), from(c, "passkey", challengesPerAddress)); wait > 0 {
		return tooMany(c, wait)
	}
	challenge, err := p.deps.Staff.BeginPasskeySignIn(c.Request().Context(), p.deps.DB.Read())
	if err != nil {
		return err
	}
	return p.renderPasskey(c, status, view{CSRF: p.staffCSRF(c)}, passkeyView{Heading: "passkey.login.title",
		Lead: "passkey.login.lead", Button: "passkey.login.submit", Do: "get", Action: "/staff/login/passkey",
		Token: challenge.Token, Options: string(challenge.Options), Next: next, Error: fault,
		Back: link{staffLogin + "?next=" + queryEscape(next), "passkey.login.password"}})
}

func (p *Pages) staffPasskey(c echo.Context) error {
	form, ctx := c.Request().PostForm, c.Request().Context()
	next := safeNext(form.Get("next"))
	if !p.ownStaffForm(c) {
		return p.showStaffPasskey(c, http.StatusForbidden, next, "login.stale")
	}
	var token string
	var person staff.Person
	var refused error
	err := p.deps.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		if err := p.deps.Staff.SignOut(ctx, tx, p.staffToken(c)); err != nil {
			return err
		}
		token, person, err = p.deps.Staff.PasskeySignIn(ctx, tx, form.Get("token"), []byte(form.Get("answer")),
			deviceOf(c))
		if refused = nil; errors.Is(err, passkey.ErrRefused) {
			refused, err = err, nil // the challenge is spent all the same
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("sign in with passkey: %w", err)
	}
	if refused != nil {
		p.deps.Logger.InfoContext(ctx, "passkey refused", "reason", refused)
		return p.showStaffPasskey(c, http.StatusUnprocessableEntity, next, "passkey.refused")
	}
	if err := p.signStaffIn(c, person, token); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, staffNext(next, person))
}
