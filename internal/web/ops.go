package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/audit"
	"partnerd/internal/books"
	"partnerd/internal/consultation"
	"partnerd/internal/money"
	"partnerd/internal/payment"
	"partnerd/internal/ratelimit"
)

const (
	opsAttempts = 20  // wrong passwords at once from one network; one more every hour
	opsOfAll    = 100 // a minute, from everywhere
	opsRows     = 20
	opsStale    = 26 * time.Hour // a nightly examination that is older was missed
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

// ops shows operators the state of the money. It changes nothing. The route exists only with a password.
func (p *Pages) ops(c echo.Context) error {
	if err := p.askOperator(c); err != nil {
		return err
	}
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
	if v.Audit, err = audit.List(ctx, tx, opsRows); err != nil {
		return err
	}
	if v.Notes, err = p.deps.Consultations.MissingNotes(ctx, tx, opsRows); err != nil {
		return err
	}
	return p.render(c, http.StatusOK, "ops", view{Title: "ops.title", Data: v})
}

// askOperator lets whoever knows the password pass (HTTP Basic, any name). Tries are counted before they are judged, so
// that above the bound a guess tells nothing; whoever guesses from many networks keeps operators out meanwhile.
func (p *Pages) askOperator(c echo.Context) error {
	if _, given, ok := c.Request().BasicAuth(); ok {
		ctx, network := c.Request().Context(), from(c, "ops", opsAttempts)
		g := guess{tries: []try{network, {"ops", opsOfAll}}, key: network.bucket, quota: ratelimit.Quota{Burst: opsAttempts, Interval: time.Hour}}
		wait, err := p.guess(ctx, g)
		if err != nil {
			return err
		}
		if wait > 0 {
			if p.deps.Limiter.Allow("ops warn", 1, p.deps.DB.Clock().Now()).Allowed {
				p.deps.Logger.Warn("many wrong passwords at the operators' page", "address", c.RealIP())
			}
			return tooMany(c, wait)
		}
		want, got := sha256.Sum256([]byte(p.deps.OpsPassword)), sha256.Sum256([]byte(given))
		if subtle.ConstantTimeCompare(want[:], got[:]) == 1 {
			return p.forgive(ctx, g)
		}
		p.deps.Logger.Warn("wrong password at the operators' page", "address", c.RealIP())
	}
	c.Response().Header().Set("WWW-Authenticate", `Basic realm="operators", charset="UTF-8"`)
	return statusError(http.StatusUnauthorized)
}
