package web

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/audit"
	"partnerd/internal/books"
	"partnerd/internal/consultation"
	"partnerd/internal/money"
	"partnerd/internal/payment"
	"partnerd/internal/staff"
)

const (
	opsRows  = 20
	opsStale = 26 * time.Hour // a nightly examination that is older was missed
)

type opsView struct {
	Check     books.Check
	Examined  bool
	Stale     bool
	Sound     bool
	Threshold money.Cents
	Near      struct{ Outstanding, Volume bool }
	Incidents []payment.Incident
	Refunds   []payment.RefundState
	Audit     []audit.Entry
	Notes     []consultation.Consultation // whose note is missing for a day or longer
}

// ops shows operators the state of the money. It changes nothing.
func (p *Pages) ops(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	v := opsView{Threshold: books.EMoneyThreshold}
	var err error
	if v.Check, v.Examined, err = p.deps.Books.LastCheck(ctx, tx); err != nil {
		return err
	}
	v.Stale = v.Examined && tx.Now.Sub(v.Check.StartedAt) > opsStale
	v.Sound = v.Examined && len(v.Check.Findings) == 0
	v.Near.Outstanding, v.Near.Volume = books.NearThreshold(v.Check.Outstanding), books.NearThreshold(v.Check.Volume)
	if v.Incidents, err = p.deps.Payments.Incidents(ctx, tx, opsRows); err != nil {
		return err
	}
	if v.Refunds, err = p.deps.Payments.OpenRefunds(ctx, tx, opsRows); err != nil {
		return err
	}
	if v.Audit, err = audit.List(ctx, tx, "", 0, opsRows); err != nil {
		return err
	}
	if v.Notes, err = p.deps.Consultations.MissingNotes(ctx, tx, opsRows); err != nil {
		return err
	}
	return p.renderStaff(c, http.StatusOK, s, "ops", view{Title: "ops.title", Data: v})
}
