package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/audit"
	"partnerd/internal/money"
	"partnerd/internal/payment"
	"partnerd/internal/wallet"
)

const (
	opsAttempts = 20 // wrong passwords a minute from one network address
	opsRows     = 20
	opsStale    = 26 * time.Hour // a nightly examination that is older was missed
)

type opsView struct {
	Check     wallet.Check
	Examined  bool
	Stale     bool
	Sound     bool
	Threshold money.Cents
	Near      struct{ Outstanding, Volume bool }
	Incidents []payment.Incident
	Refunds   []payment.RefundState
	Audit     []audit.Entry
}

// ops shows operators the state of the money. It changes nothing. The route exists only with a password.
func (p *Pages) ops(c echo.Context) error {
	if err := p.askOperator(c); err != nil {
		return err
	}
	ctx, tx := c.Request().Context(), p.DB.Read()
	v := opsView{Threshold: wallet.EMoneyThreshold}
	var err error
	if v.Check, v.Examined, err = p.Wallet.LastCheck(ctx, tx); err != nil {
		return err
	}
	v.Stale = v.Examined && tx.Now.Sub(v.Check.StartedAt) > opsStale
	v.Sound = v.Examined && len(v.Check.Findings) == 0
	v.Near.Outstanding, v.Near.Volume = wallet.NearThreshold(v.Check.Outstanding), wallet.NearThreshold(v.Check.Volume)
	if v.Incidents, err = p.Payments.Incidents(ctx, tx, opsRows); err != nil {
		return err
	}
	if v.Refunds, err = p.Payments.OpenRefunds(ctx, tx, opsRows); err != nil {
		return err
	}
	if v.Audit, err = audit.List(ctx, tx, opsRows); err != nil {
		return err
	}
	return p.render(c, http.StatusOK, "ops", view{Title: "ops.title", Data: v})
}

// askOperator lets whoever knows the password pass (HTTP Basic, any name).
func (p *Pages) askOperator(c echo.Context) error {
	_, given, ok := c.Request().BasicAuth()
	want, got := sha256.Sum256([]byte(p.OpsPassword)), sha256.Sum256([]byte(given))
	if ok && subtle.ConstantTimeCompare(want[:], got[:]) == 1 {
		return nil
	}
	if ok {
		d := p.Limiter.Allow("ops "+c.RealIP(), opsAttempts, p.DB.Clock().Now())
		if !d.Allowed {
			c.Response().Header().Set("Retry-After", fmt.Sprint(int(math.Ceil(d.RetryAfter.Seconds()))))
			return statusError(http.StatusTooManyRequests)
		}
	}
	c.Response().Header().Set("WWW-Authenticate", `Basic realm="operators", charset="UTF-8"`)
	return statusError(http.StatusUnauthorized)
}
