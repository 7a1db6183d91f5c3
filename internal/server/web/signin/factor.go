package signin

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

type factorView struct {
	staff.Factor
	Next   string
	Fields []forms.Input
	Fault  bool
}

// Side is the width of the QR code with the margin that scanners need.
func (v factorView) Side() int { return v.Size + 8 }

func (p *Pages) factorForm(c echo.Context) error { return p.showFactor(c, http.StatusOK, "") }

func (p *Pages) showFactor(c echo.Context, status int, fault string) error {
	ctx := c.Request().Context()
	v := factorView{Fields: []forms.Input{forms.CodeField("staff.factor.code", "")}, Fault: fault != "",
		Next: nextOf(c)}
	err := p.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		v.Factor, _, err = p.deps.Staff.SetUpFactor(ctx, tx, p.StaffToken(c))
		return err
	})
	if errors.Is(err, staff.ErrNoSession) {
		return toStaffLogin(c)
	}
	if err != nil {
		return fmt.Errorf("set up the second factor: %w", err)
	}
	title := "staff.factor.title"
	if v.Fields[0].Fault, v.Fields[0].Focus = fault, v.Fault; v.Fault {
		title = "staff.factor.title.error"
	}
	return p.Render(c, status, "staff_factor", shell.View{Title: title, CSRF: p.StaffCSRF(c), Narrow: true, Data: v})
}

func (p *Pages) confirmFactor(c echo.Context) error {
	person, err := p.pendingStaff(c)
	if err != nil || person == nil {
		return err
	}
	if !p.OwnStaffForm(c) { // of another unfinished sign-in, perhaps with another secret
		return p.showFactor(c, http.StatusForbidden, "login.stale")
	}
	ctx := c.Request().Context()
	var token, to string
	// codes need no limit here, because the session shows their secret
	err = p.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		var codes []string
		token, _, codes, err = p.deps.Staff.ConfirmFactor(ctx, tx, p.StaffToken(c), c.Request().PostForm.Get("code"),
			DeviceOf(c))
		if err != nil {
			return err
		}
		s, err := p.deps.Staff.Session(ctx, tx, token)
		if err != nil {
			return err
		}
		to, err = p.keepCodes(ctx, tx, s.ID, shell.StaffNext(nextOf(c), *person), codes)
		return err
	})
	switch {
	case errors.Is(err, staff.ErrCode):
		return p.showFactor(c, http.StatusUnprocessableEntity, "staff.code.wrong")
	case errors.Is(err, staff.ErrNoSession):
		return toStaffLogin(c)
	case err != nil:
		return fmt.Errorf("confirm the second factor: %w", err)
	}
	if err := p.signStaffIn(c, *person, token); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, to)
}

// nextOf returns the page after the sign-in, while the second factor is set up.
func nextOf(c echo.Context) string {
	if sent := c.Request().PostForm; c.Request().Method == http.MethodPost {
		return shell.SafeNext(sent.Get("next"))
	}
	return shell.SafeNext(c.QueryParam("next"))
}
