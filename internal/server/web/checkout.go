package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/payment"
	"partnerd/internal/infra/postgres"
)

// State of the checkout page.
type checkoutState string

const (
	checkoutOpen       checkoutState = "open"
	checkoutProcessing checkoutState = "processing" // decided here; the provider's notice has not arrived
	checkoutPaid       checkoutState = "paid"
	checkoutCancelled  checkoutState = "cancelled"
	checkoutExpired    checkoutState = "expired"
)

type checkoutView struct {
	payment.Session
	State       checkoutState
	Application string // who asked for the payment; empty when nobody but the client did
	Amount      money.Cents
	Self        string
	ReturnURL   string
	ReturnHost  string // where the client goes; empty for their own wallet
	OverLimit   bool
	External    bool // paid on a page of the provider
}

// checkout shows a payment session, or leads on to the provider's page where there is one. The address cannot be
// guessed and is all that one needs, as with any hosted checkout.
func (p *Pages) checkout(c echo.Context) error {
	session, err := p.checkoutSession(c)
	if err != nil {
		return err
	}
	if p.deps.Payments.External(session) && c.Request().Method == http.MethodGet &&
		!c.QueryParams().Has(payment.DoneParameter) {
		return p.leaveToPay(c, session)
	}
	return p.showCheckout(c, http.StatusOK, session, false)
}

func (p *Pages) checkoutSession(c echo.Context) (payment.Session, error) {
	id := c.Param("id")
	if !identifier.MatchString(id) {
		return payment.Session{}, statusError(http.StatusNotFound)
	}
	session, err := p.deps.Payments.Get(c.Request().Context(), p.deps.DB.Read(), id)
	if errors.Is(err, problem.ErrNotFound) {
		return payment.Session{}, statusError(http.StatusNotFound)
	}
	if err != nil {
		return payment.Session{}, fmt.Errorf("read checkout: %w", err)
	}
	if !p.deps.Payments.External(session) && p.deps.SandboxPayments == nil {
		return payment.Session{}, statusError(http.StatusServiceUnavailable)
	}
	return session, nil
}

func (p *Pages) showCheckout(c echo.Context, status int, s payment.Session, overLimit bool) error {
	ctx := c.Request().Context()
	app, err := p.deps.Applications.Get(ctx, p.deps.DB.Read(), s.ApplicationID)
	if err != nil && s.ApplicationID != "" {
		return fmt.Errorf("read application of checkout: %w", err)
	}
	decided, err := p.decided(c, s)
	if err != nil {
		return err
	}
	state := stateOf(s, decided)
	v := checkoutView{Session: s, State: state, Application: app.Name, Amount: s.Amount, Self: "/checkout/" + s.ID,
		ReturnURL: s.Return(state == checkoutPaid), OverLimit: overLimit, External: p.deps.Payments.External(s)}
	if s.ApplicationID != "" {
		v.ReturnHost = hostOf(s.ReturnURL)
	}
	if state == checkoutProcessing {
		c.Response().Header().Set("Refresh", p.again(c, &v))
	}
	page := view{Title: "checkout.title." + string(state), CSRF: p.csrf(c), Narrow: true, Data: v}
	p.showLocalTime(c, &page)
	return p.render(c, status, "checkout", page)
}

// stateOf derives what the page shows. decided tells that the payer has answered, and the notice may be on its way:
// an answer given in time counts, even when it arrives after the session's end.
func stateOf(s payment.Session, decided bool) checkoutState {
	switch {
	case s.Status == payment.Paid:
		return checkoutPaid
	case s.Status == payment.Cancelled:
		return checkoutCancelled
	case decided:
		return checkoutProcessing
	case s.Status == payment.Expired:
		return checkoutExpired
	}
	return checkoutOpen
}

// decideCheckout hands the visitor's answer to the provider, whose notice will say what became of it.
func (p *Pages) decideCheckout(c echo.Context) error {
	session, err := p.checkoutSession(c)
	if err != nil {
		return err
	}
	if !p.ownForm(c) {
		return statusError(http.StatusForbidden)
	}
	if p.deps.Payments.External(session) {
		return p.decideExternal(c, session)
	}
	decide := map[string]func(context.Context, postgres.Tx, string) error{
		"pay": p.deps.SandboxPayments.Pay, "cancel": p.deps.SandboxPayments.Cancel,
	}[c.Request().PostForm.Get("action")]
	if decide == nil {
		return statusError(http.StatusBadRequest)
	}
	ctx := c.Request().Context()
	err = p.deps.DB.InTx(ctx, func(tx postgres.Tx) error { return decide(ctx, tx, session.ID) })
	if errors.Is(err, payment.ErrWalletLimitExceeded) {
		return p.showCheckout(c, http.StatusConflict, session, true)
	}
	if err != nil && !p.closed(ctx, session.ID, err) {
		return fmt.Errorf("decide checkout: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, "/checkout/"+session.ID)
}

// closed tells whether err only means that the session is over or was answered otherwise before: the page says which.
func (p *Pages) closed(ctx context.Context, sessionID string, err error) bool {
	_, decided, e := p.deps.SandboxPayments.Decision(ctx, p.deps.DB.Read(), sessionID)
	return errors.Is(err, payment.ErrSessionClosed) || e == nil && decided
}
