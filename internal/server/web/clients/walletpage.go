package clients

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

const (
	linesPerPage    = 25
	statementMonths = 13

	TopUpsPerAccount = 10 // per minute
)

type lineView struct {
	wallet.Line
	Application string
}

// Text returns the text key of the line.
func (l lineView) Text() string {
	if l.Type == wallet.Adjustment {
		return adjustmentKey(l.Description)
	}
	return "line." + string(l.Type) + "." + string(l.State)
}

// AdjustmentKeys maps the descriptions of adjustments in the ledger to text keys.
var AdjustmentKeys = map[string]string{
	wallet.OpeningBalance:     "adjustment.opening",
	wallet.SandboxMoney:       "adjustment.sandbox",
	wallet.TopUpReturned:      "adjustment.returned",
	wallet.PaymentTakenBack:   "adjustment.taken",
	wallet.PaymentRestored:    "adjustment.restored",
	wallet.OperatorCorrection: "adjustment.correction",
}

func adjustmentKey(description string) string {
	return cmp.Or(AdjustmentKeys[description], AdjustmentKeys[wallet.OperatorCorrection])
}

type walletView struct {
	Wallet  wallet.Balance
	Amounts []money.Cents // offered amounts; empty without a payment provider
	Chosen  money.Cents   // the amount that was sent before a sign-in
	Fault   string        // text key of an error in the chosen amount
	Lines   []lineView
	Older   string // URL of the next page
	Newest  bool   // this is the first page
	Months  []time.Time

	TopUps    []topUpView      // those that can still be paid
	Returning []payment.Return // refunds that have not reached their source
}

// topUps returns the amounts offered on the wallet's page: the price of 1, 2, 3, 5 and 10 consultations, within the
// limit of a payment.
func (p *Pages) topUps() (amounts []money.Cents) {
	for _, n := range []money.Cents{1, 2, 3, 5, 10} {
		if amount := n * consultation.Price; amount <= p.deps.Payments.Largest() {
			amounts = append(amounts, amount)
		}
	}
	return amounts
}

func (p *Pages) wallet(c echo.Context, client *account.Client) error {
	return p.showWallet(c, http.StatusOK, client, "")
}

func (p *Pages) showWallet(c echo.Context, status int, client *account.Client, fault string) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	before, err := strconv.ParseInt(c.QueryParam("before"), 10, 64)
	if err != nil || before < 0 {
		before = 0
	}
	v := walletView{Newest: before == 0, Fault: fault}
	if p.deps.Payments.Available() {
		v.Amounts = p.topUps()
		chosen, err := strconv.ParseInt(p.KeptForm(c, client.ID).Get("amount"), 10, 64)
		if err == nil {
			v.Chosen = money.Cents(chosen)
		}
	}
	if v.Wallet, err = p.deps.Wallet.Balance(ctx, tx, client.ID); err != nil {
		return fmt.Errorf("read wallet: %w", err)
	}
	items, more, err := p.deps.Wallet.Lines(ctx, tx, client.ID, before, linesPerPage)
	if err != nil {
		return err
	}
	name := p.applicationNames(c)
	for _, l := range items {
		application, err := name(l.ApplicationID)
		if err != nil {
			return err
		}
		v.Lines = append(v.Lines, lineView{l, application})
	}
	if more {
		v.Older = fmt.Sprint("/account/wallet?before=", items[len(items)-1].Seq)
	}
	if v.TopUps, err = p.openTopUps(c, client); err != nil {
		return err
	}
	if v.Returning, err = p.deps.Payments.Returning(ctx, tx, client.ID); err != nil {
		return err
	}
	v.Months = months(client.CreatedAt, tx.Now)
	title := "wallet.page.title"
	if fault != "" {
		title = "wallet.page.title.error"
	}
	return p.showAccount(c, status, client, "wallet", title, v)
}

// topUp begins a payment from the wallet's page. It shows the amount before it redirects to a provider.
func (p *Pages) topUp(c echo.Context, client *account.Client) error {
	amount, err := strconv.ParseInt(c.Request().PostForm.Get("amount"), 10, 64)
	if err != nil || !slices.Contains(p.topUps(), money.Cents(amount)) {
		return p.showWallet(c, http.StatusUnprocessableEntity, client, "wallet.topup.invalid")
	}
	if wait := p.Attempt(c.Request().Context(), shell.Try{Bucket: "top-up of " + client.ID,
		PerMinute: TopUpsPerAccount}); wait > 0 {
		return shell.TooMany(c, wait)
	}
	ctx := c.Request().Context()
	var session payment.Session
	err = p.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		session, err = p.deps.Payments.CreateOwn(ctx, tx, client.ID, money.Cents(amount), "/account/wallet")
		return err
	})
	switch {
	case errors.Is(err, payment.ErrWalletLimitExceeded):
		return p.showWallet(c, http.StatusConflict, client, "wallet.topup.limit")
	case errors.Is(err, problem.ErrUnavailable):
		return shell.StatusError(http.StatusServiceUnavailable)
	case err != nil:
		return fmt.Errorf("begin top-up: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, "/checkout/"+session.ID+"?"+payment.DoneParameter+"="+payment.DoneNotYet)
}

// applicationNames looks up each application once. The name of an empty ID is empty.
func (p *Pages) applicationNames(c echo.Context) func(applicationID string) (string, error) {
	names := map[string]string{"": ""}
	return func(applicationID string) (string, error) {
		if name, known := names[applicationID]; known {
			return name, nil
		}
		app, err := p.deps.Applications.Get(c.Request().Context(), p.DB.Read(), applicationID)
		if err != nil && !errors.Is(err, problem.ErrNotFound) {
			return "", err
		}
		names[applicationID] = app.Name
		return app.Name, nil
	}
}

// months lists the first days of the latest months since the account exists, newest first.
func months(since, now time.Time) []time.Time {
	var out []time.Time
	first := time.Date(since.Year(), since.Month(), 1, 0, 0, 0, 0, time.UTC)
	for m := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC); !m.Before(first) &&
		len(out) < statementMonths; m = m.AddDate(0, -1, 0) {
		out = append(out, m)
	}
	return out
}

type movementView struct {
	wallet.Transaction
	Application string
}

// Text returns the text key of the movement.
func (m movementView) Text() string {
	if m.Type == wallet.Adjustment {
		return adjustmentKey(m.Description)
	}
	return "movement." + string(m.Type)
}

type statementView struct {
	wallet.Statement
	Movements []movementView
	CSV       string
}

// statement shows a month, for printing or as CSV.
func (p *Pages) statement(c echo.Context, client *account.Client) error {
	period, wantsCSV := strings.CutSuffix(c.Param("month"), ".csv")
	month, err := time.Parse("2006-01", period)
	if err != nil {
		return shell.StatusError(http.StatusNotFound)
	}
	st, err := p.deps.Wallet.Statement(c.Request().Context(), p.DB.Read(), client.ID, month)
	if err != nil {
		return err
	}
	if wantsCSV {
		h := c.Response().Header()
		h.Set("Content-Type", "text/csv; charset=utf-8")
		h.Set("Content-Disposition", `attachment; filename="partnerd-`+period+`.csv"`)
		c.Response().WriteHeader(http.StatusOK)
		return st.WriteCSV(c.Response())
	}
	v := statementView{Statement: st, CSV: "/account/wallet/statement/" + period + ".csv"}
	name := p.applicationNames(c)
	for _, t := range st.Booked() {
		application, err := name(t.ApplicationID)
		if err != nil {
			return err
		}
		v.Movements = append(v.Movements, movementView{t, application})
	}
	return p.showAccount(c, http.StatusOK, client, "statement", "statement.title", v)
}

func (p *Pages) refundForm(c echo.Context, client *account.Client) error {
	amount, err := p.deps.Payments.Withdrawable(c.Request().Context(), p.DB.Read(), client.ID)
	if err != nil {
		return fmt.Errorf("read what can be refunded: %w", err)
	}
	if amount == 0 {
		return p.showRefund(c, http.StatusOK, client, nil, "wallet.refund.none")
	}
	return p.showRefund(c, http.StatusOK, client, []forms.Fact{forms.FactOf("checkout.amount",
		amount.Format(p.Language(c)))}, "")
}

func (p *Pages) showRefund(c echo.Context, status int, client *account.Client, facts []forms.Fact,
	refused string) error {
	return p.confirm(c, status, client, confirmView{Facts: facts, Heading: "wallet.refund.title",
		Text: "wallet.refund.text", Args: []any{payment.RefundDays},
		Action: "/account/wallet/refund", Button: "wallet.refund.submit", Back: "/account/wallet", Refused: refused})
}

// refund returns unused top-ups of the last 14 days to their source.
func (p *Pages) refund(c echo.Context, client *account.Client) error {
	ctx := c.Request().Context()
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error {
		_, err := p.deps.Payments.Refund(ctx, tx, payment.RefundCommand{ClientID: client.ID,
			Actor: "client:" + client.ID, Reason: "Withdrawal from unused top-ups on the account page"})
		return err
	})
	if errors.Is(err, payment.ErrNothingToRefund) {
		return p.showRefund(c, http.StatusConflict, client, nil, "wallet.refund.none")
	}
	if err != nil {
		return fmt.Errorf("refund top-ups: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, "/account/wallet?done=refund")
}
