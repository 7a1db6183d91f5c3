package clients

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/payment"
	"partnerd/internal/server/web/shell"
)

// leaveToPay redirects the visitor to the provider's page. A session that cannot be paid, or no longer, is shown
// instead.
func (p *Pages) leaveToPay(c echo.Context, s payment.Session) error {
	ctx := c.Request().Context()
	pending, err := p.deps.Payments.Pending(ctx, p.DB.Read(), s.ID)
	if err != nil {
		return err
	}
	if s.Status != payment.Open || pending {
		return p.showCheckout(c, http.StatusOK, s, false)
	}
	target, err := p.deps.Payments.OpenCheckout(ctx, s.ID, p.Language(c))
	switch {
	case errors.Is(err, payment.ErrWalletLimitExceeded):
		return p.showCheckout(c, http.StatusConflict, s, true)
	case errors.Is(err, payment.ErrSessionClosed):
		if s, err = p.checkoutSession(c); err != nil {
			return err
		}
		return p.showCheckout(c, http.StatusOK, s, false)
	case errors.Is(err, problem.ErrUnavailable):
		return shell.StatusError(http.StatusServiceUnavailable)
	case err != nil:
		return fmt.Errorf("open checkout: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, target)
}

// decided reports that the payer has decided and the provider's webhook may be on its way.
func (p *Pages) decided(c echo.Context, s payment.Session) (bool, error) {
	ctx := c.Request().Context()
	if !p.deps.Payments.External(s) {
		_, decided, err := p.deps.SandboxPayments.Decision(ctx, p.DB.Read(), s.ID)
		return decided, err
	}
	if s.ProviderRef != "" && c.QueryParam(payment.DoneParameter) == payment.DoneSuccess {
		return true, nil // the provider says so by sending the visitor back; only its webhook credits the money
	}
	return p.deps.Payments.Pending(ctx, p.DB.Read(), s.ID)
}

// again returns when to reload a page that waits for a webhook, and its URL.
func (p *Pages) again(c echo.Context, v *checkoutView) string {
	if !v.External {
		return "1; url=" + v.Self
	}
	v.Self += "?" + url.Values{payment.DoneParameter: {c.QueryParam(payment.DoneParameter)}}.Encode()
	return "5; url=" + v.Self
}

// decideExternal ends a session whose payer came back without paying. Paying is a link, because our forms may not lead
// to another site.
func (p *Pages) decideExternal(c echo.Context, s payment.Session) error {
	if c.Request().PostForm.Get("action") != "cancel" {
		return shell.StatusError(http.StatusBadRequest)
	}
	if err := p.endCheckout(c, s.ID); err != nil && !errors.Is(err, payment.ErrSessionClosed) {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/checkout/"+s.ID+"?"+payment.DoneParameter+"="+payment.DoneCancelled)
}

// endCheckout ends an unpaid session, also at its provider. It returns [payment.ErrSessionClosed] if the session is
// over or being paid.
func (p *Pages) endCheckout(c echo.Context, sessionID string) error {
	err := p.deps.Payments.CancelCheckout(c.Request().Context(), sessionID)
	switch {
	case err == nil, errors.Is(err, payment.ErrSessionClosed):
		return err
	case errors.Is(err, problem.ErrUnavailable):
		return shell.StatusError(http.StatusServiceUnavailable)
	}
	return fmt.Errorf("cancel checkout: %w", err)
}
