package clients

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/account"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/privacy"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/shell"
)

// obstacleView is an obstacle to an erasure with its solution: a link, or a form with one button.
type obstacleView struct {
	Text      string // text key
	Args      []any
	Out       string // text key of the link or button
	OutArgs   []any
	Link, Act string // target of the link or of the form
}

// Outs has a solution for every kind of obstacle.
var Outs = map[privacy.Kind]func(p *Pages, c echo.Context, o privacy.Obstacle) []obstacleView{
	privacy.TakeBack: func(p *Pages, c echo.Context, o privacy.Obstacle) []obstacleView {
		until := shell.TimeIn(p.Language(c), shell.ServiceZone(), o.Until)
		return []obstacleView{{Text: "erase.takeback", Args: []any{until}, Out: "erase.takeback.out",
			Link: "/account/security"}}
	},
	privacy.OpenConsultations: func(*Pages, echo.Context, privacy.Obstacle) []obstacleView {
		return []obstacleView{{Text: "erase.open", Out: "erase.open.out", Link: "/account/consultations"}}
	},
	privacy.MoneyLeft: (*Pages).moneyLeft,
	privacy.TopUpOpen: func(*Pages, echo.Context, privacy.Obstacle) []obstacleView {
		return []obstacleView{{Text: "erase.topup", Out: "erase.topup.out", Link: "/account/wallet#w-topups"}}
	},
	privacy.MoneyReturning: func(p *Pages, c echo.Context, o privacy.Obstacle) []obstacleView {
		return []obstacleView{{Text: "erase.returning", Args: []any{o.Amount.Format(p.Language(c))},
			Out: "erase.returning.out", Link: "/account/wallet#w-returning"}}
	},
	privacy.MoneyProposed: func(*Pages, echo.Context, privacy.Obstacle) []obstacleView {
		return []obstacleView{{Text: "erase.proposed", Out: "erase.money.wallet", Link: "/account/wallet"}}
	},
}

// moneyLeft separates money that can be refunded to its source from money without a source.
func (p *Pages) moneyLeft(c echo.Context, o privacy.Obstacle) (all []obstacleView) {
	if o.Returnable > 0 {
		amount := []any{o.Returnable.Format(p.Language(c))}
		all = append(all, obstacleView{Text: "erase.money", Args: amount, Out: "erase.money.out", OutArgs: amount,
			Act: "/account/privacy/return"})
	}
	if rest := o.Amount - o.Returnable; rest > 0 || len(all) == 0 {
		out := obstacleView{Text: "erase.money.rest.use", Args: []any{rest.Format(p.Language(c))},
			Out: "erase.money.wallet", Link: "/account/wallet"}
		if p.Contact != "" {
			out.Text, out.Out, out.Link = "erase.money.rest", "erase.money.ask", p.Contact
		}
		all = append(all, out)
	}
	return all
}

func (p *Pages) obstacles(c echo.Context, all privacy.Refused) (v privacyView) {
	for _, o := range all {
		v.Obstacles = append(v.Obstacles, Outs[o.Kind](p, c, o)...)
	}
	return v
}

// returnMoney refunds all unused top-ups to their source, however old they are, because the client is leaving.
func (p *Pages) returnMoney(c echo.Context, client *account.Client) error {
	ctx := c.Request().Context()
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error {
		_, err := p.deps.Payments.Refund(ctx, tx, payment.RefundCommand{ClientID: client.ID, AnyAge: true,
			Actor: "client:" + client.ID, Reason: "Refund before an erasure, on the account page"})
		return err
	})
	if err != nil && !errors.Is(err, payment.ErrNothingToRefund) { // just refunded elsewhere, or reserved
		return fmt.Errorf("return money: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, "/account/privacy")
}

// topUpView is a top-up that can still be paid.
type topUpView struct {
	payment.OpenTopUp
	Application string
}

func (p *Pages) openTopUps(c echo.Context, client *account.Client) (list []topUpView, err error) {
	open, err := p.deps.Payments.OpenTopUps(c.Request().Context(), p.DB.Read(), client.ID)
	if err != nil {
		return nil, err
	}
	name := p.applicationNames(c)
	for _, o := range open {
		application, err := name(o.ApplicationID)
		if err != nil {
			return nil, err
		}
		list = append(list, topUpView{o, application})
	}
	return list, nil
}

// cancelTopUp ends the client's unpaid top-up, also at its provider. A top-up that was paid in the meantime is
// credited.
func (p *Pages) cancelTopUp(c echo.Context, client *account.Client) error {
	session, err := p.checkoutSession(c)
	if err != nil {
		return err
	}
	if session.ClientID != client.ID {
		return shell.StatusError(http.StatusNotFound)
	}
	err = p.endCheckout(c, session.ID)
	done := "topup-cancelled"
	switch {
	case errors.Is(err, payment.ErrSessionClosed):
		done = "topup-over"
	case err != nil:
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/account/wallet?done="+done)
}
