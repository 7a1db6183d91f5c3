package web

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
)

type factorView struct {
	staff.Factor
	Next   string
	Fields []field
	Fault  bool
}

// Side is how wide the picture is, with the margin that readers of QR codes need.
func (v factorView) Side() int { return v.Size + 8 }

func (p *Pages) factorForm(c echo.Context) error { return p.showFactor(c, http.StatusOK, "") }

func (p *Pages) showFactor(c echo.Context, status int, fault string) error {
	ctx := c.Request().Context()
	v := factorView{Fields: []field{codeField("staff.factor.code", "")}, Fault: fault != "", Next: nextOf(c)}
	err := p.deps.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		v.Factor, _, err = p.deps.Staff.SetUpFactor(ctx, tx, p.staffToken(c))
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
	return p.render(c, status, "staff_factor", view{Title: title, CSRF: p.staffCSRF(c), Narrow: true, Data: v})
}

func (p *Pages) confirmFactor(c echo.Context) error {
	person, err := p.pendingStaff(c)
	if err != nil || person == nil {
		return err
	}
	if !p.ownStaffForm(c) { // of another half sign-in, perhaps with another secret
		return p.showFactor(c, http.StatusForbidden, "login.stale")
	}
	ctx := c.Request().Context()
	var token, to string
	// nobody guesses codes of a secret that the session shows
	err = p.deps.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		var codes []string
		token, _, codes, err = p.deps.Staff.ConfirmFactor(ctx, tx, p.staffToken(c), c.Request().PostForm.Get("code"),
			deviceOf(c))
		if err != nil {
			return err
		}
		s, err := p.deps.Staff.Session(ctx, tx, token)
		if err != nil {
			return err
		}
		to, err = p.keepCodes(ctx, tx, s.ID, staffNext(nextOf(c), *person), codes)
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

// nextOf is where a sign-in leads, while the second factor is set up.
func nextOf(c echo.Context) string {
	if sent := c.Request().PostForm; c.Request().Method == http.MethodPost {
		return safeNext(sent.Get("next"))
	}
	return safeNext(c.QueryParam("next"))
}
