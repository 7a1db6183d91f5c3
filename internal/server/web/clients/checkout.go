package clients

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
	"partnerd/internal/server/web/shell"
)

// CheckoutState is the state of the checkout page.
type CheckoutState string

const (
	CheckoutOpen       CheckoutState = "open"
	CheckoutProcessing CheckoutState = "processing" // decided here, before the provider's webhook arrived
	CheckoutPaid       CheckoutState = "paid"
	CheckoutCancelled  CheckoutState = "cancelled"
	CheckoutExpired    CheckoutState = "expired"
)

type checkoutView struct {
	payment.Session
	State       CheckoutState
	Application string // who requested the payment; empty if only the client did
	Amount      money.Cents
	Self        string
	ReturnURL   string
	ReturnHost  string // where the client goes next; empty for their own wallet
	OverLimit   bool
	External    bool // paid on a page of the provider
}

// checkout shows a payment session, or redirects to the provider's page if there is one. The URL cannot be guessed and
// grants access by itself, as with any hosted checkout.
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
	if !shell.Identifier.MatchString(id) {
		return payment.Session{}, shell.StatusError(http.StatusNotFound)
	}
	session, err := p.deps.Payments.Get(c.Request().Context(), p.DB.Read(), id)
	if errors.Is(err, problem.ErrNotFound) {
		return payment.Session{}, shell.StatusError(http.StatusNotFound)
	}
	if err != nil {
		return payment.Session{}, fmt.Errorf("read checkout: %w", err)
	}
	if !p.deps.Payments.External(session) && p.deps.SandboxPayments == nil {
		return payment.Session{}, shell.StatusError(http.StatusServiceUnavailable)
	}
	return session, nil
}

func (p *Pages) showCheckout(c echo.Context, status int, s payment.Session, overLimit bool) error {
	ctx := c.Request().Context()
	app, err := p.deps.Applications.Get(ctx, p.DB.Read(), s.ApplicationID)
	if err != nil && s.ApplicationID != "" {
		return fmt.Errorf("read application of checkout: %w", err)
	}
	decided, err := p.decided(c, s)
	if err != nil {
		return err
	}
	state := StateOf(s, decided)
	v := checkoutView{Session: s, State: state, Application: app.Name, Amount: s.Amount, Self: "/checkout/" + s.ID,
		ReturnURL: s.Return(state == CheckoutPaid), OverLimit: overLimit, External: p.deps.Payments.External(s)}
	if s.ApplicationID != "" {
		v.ReturnHost = hostOf(s.ReturnURL)
	}
	if state == CheckoutProcessing {
		c.Response().Header().Set("Refresh", p.again(c, &v))
	}
	page := shell.View{Title: "checkout.title." + string(state), CSRF: p.CSRF(c), Narrow: true, Data: v}
	p.ShowLocalTime(c, &page)
	return p.Render(c, status, "checkout", page)
}

// StateOf returns the state that the page shows. decided means that the payer has decided and the webhook may be on its
// way. A decision made in time counts even if it arrives after the session's end.
func StateOf(s payment.Session, decided bool) CheckoutState {
	switch {
	case s.Status == payment.Paid:
		return CheckoutPaid
	case s.Status == payment.Cancelled:
		return CheckoutCancelled
	case decided:
		return CheckoutProcessing
	case s.Status == payment.Expired:
		return CheckoutExpired
	}
	return CheckoutOpen
}

// decideCheckout passes the visitor's decision to the provider, whose webhook reports the outcome.
func (p *Pages) decideCheckout(c echo.Context) error {
	session, err := p.checkoutSession(c)
	if err != nil {
		return err
	}
	if !p.OwnForm(c) {
		return shell.StatusError(http.StatusForbidden)
	}
	if p.deps.Payments.External(session) {
		return p.decideExternal(c, session)
	}
	decide := map[string]func(context.Context, postgres.Tx, string) error{
		"pay": p.deps.SandboxPayments.Pay, "cancel": p.deps.SandboxPayments.Cancel,
	}[c.Request().PostForm.Get("action")]
	if decide == nil {
		return shell.StatusError(http.StatusBadRequest)
	}
	ctx := c.Request().Context()
	err = p.DB.InTx(ctx, func(tx postgres.Tx) error { return decide(ctx, tx, session.ID) })
	if errors.Is(err, payment.ErrWalletLimitExceeded) {
		return p.showCheckout(c, http.StatusConflict, session, true)
	}
	if err != nil && !p.closed(ctx, session.ID, err) {
		return fmt.Errorf("decide checkout: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, "/checkout/"+session.ID)
}

// closed reports whether err only means that the session is over or was already decided differently. The page says
// which.
func (p *Pages) closed(ctx context.Context, sessionID string, err error) bool {
	_, decided, e := p.deps.SandboxPayments.Decision(ctx, p.DB.Read(), sessionID)
	return errors.Is(err, payment.ErrSessionClosed) || e == nil && decided
}

// SandboxPayments is the provider's side of the built-in checkout. It exists only in a sandbox.
type SandboxPayments interface {
	// Pay and Cancel record the payer's decision. The first decision is final. They return [payment.ErrSessionClosed]
	// if it is too late, [payment.ErrWalletLimitExceeded] if the wallet may not hold that much, and another error for a
	// different second decision.
	Pay(ctx context.Context, tx postgres.Tx, sessionID string) error
	Cancel(ctx context.Context, tx postgres.Tx, sessionID string) error
	// Decision returns the payer's decision, even before its webhook arrives. It returns false if there is none yet.
	Decision(ctx context.Context, tx postgres.Tx, sessionID string) (payment.Kind, bool, error)
}
