package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/payment"
)

// external is a payment provider with its own pages.
type external struct {
	made, ended atomic.Int32
	refuse      atomic.Bool
}

func (*external) Name() string { return "external" }

func (*external) SignatureHeader() string { return "X-External" }

func (e *external) CreateCheckout(_ context.Context, r payment.CheckoutRequest) (payment.Checkout, error) {
	if e.refuse.Load() {
		return payment.Checkout{}, payment.ErrRefused
	}
	return payment.Checkout{Ref: "ext_1", URL: fmt.Sprintf("https://pay.example/%d?back=%s",
		e.made.Add(1), r.SuccessURL)}, nil
}

func (e *external) Expire(context.Context, string) error {
	e.ended.Add(1)
	return nil
}

func (*external) Refund(context.Context, payment.RefundRequest) (string, error) {
	return "", payment.ErrRefused
}

func (*external) ReadNotice(body []byte, _ string, _ time.Time) (n payment.Notice, acted bool, err error) {
	return n, true, json.Unmarshal(body, &n)
}

// withExternal is a live deployment with such a provider.
func withExternal(t *testing.T) (*fixture, *external) {
	e := &external{}
	f := newFixture(t, func(d *services) {
		d.Payments = payment.New(d.DB, d.Logger, d.Wallet, payment.Config{BaseURL: d.BaseURL, Provider: e})
		d.SandboxPayments, d.Sandbox = nil, false
	})
	f.payments = f.deps.Payments
	return f, e
}

func (f *fixture) tell(id string, kind payment.Kind, s payment.Session) {
	f.t.Helper()
	body := must(json.Marshal(payment.Notice{ID: id, Type: kind, SessionID: s.ID, AmountCents: s.Amount,
		Currency: money.Currency}))
	if err := f.payments.HandleNotice(f.t.Context(), "external", body, ""); err != nil {
		f.t.Fatal(err)
	}
}

// Opening the checkout leads to the provider. After the return, the page shows what the provider's webhook says, not
// what the URL says.
func TestExternalCheckout(t *testing.T) {
	t.Parallel()
	f, e := withExternal(t)
	s, b := f.newCheckout(2000), f.browser()
	path := "/checkout/" + s.ID
	to := "https://pay.example/1?back=" + f.base + path + "?done=success"
	for range 2 {
		b.get(path).wantRedirect(t, http.StatusSeeOther, to)
	}
	if e.made.Load() != 1 {
		t.Errorf("%d sessions made", e.made.Load())
	}
	p := b.get(path + "?done=success")
	p.want(t, 200, "The payment provider is processing your payment")
	if p.Header.Get("Refresh") != "5; url="+path+"?done=success" || f.balance() != 0 {
		t.Errorf("Refresh %q, balance %d", p.Header.Get("Refresh"), f.balance())
	}
	f.tell("evt_1", payment.CheckoutPending, s)
	b.get(path).want(t, 200, "The payment provider is processing your payment") // it cannot be paid again meanwhile
	f.tell("evt_2", payment.CheckoutPaid, s)
	b.get(path+"?done=success").want(t, 200, "Payment received", "Return to Demo CRM (crm.example)")
	b.get(path).want(t, 200, "Payment received")
	if f.balance() != 2000 {
		t.Errorf("balance %d", f.balance())
	}
}

func TestExternalCheckoutCancelled(t *testing.T) {
	t.Parallel()
	f, e := withExternal(t)
	s, b := f.newCheckout(2000), f.browser()
	path := "/checkout/" + s.ID
	b.get(path)
	back := b.get(path + "?done=cancelled")
	back.want(t, 200, "Top up your wallet", "Cancel",
		`<a class="button" href="`+path+`" rel="noreferrer">Pay €20.00</a>`)
	if strings.Contains(back.body, `value="pay"`) || strings.Contains(back.body, "no money moves") {
		t.Errorf("a page of the sandbox:\n%s", back.body)
	}
	form := back.form(path)
	form.Set("action", "pay")
	b.post(path, form).want(t, 400)
	form.Set("action", "cancel")
	b.post(path, form).wantRedirect(t, http.StatusSeeOther, path+"?done=cancelled")
	b.get(path).want(t, 200, "Payment not completed")
	if e.ended.Load() != 1 {
		t.Errorf("ended %d times at the provider", e.ended.Load())
	}
}

func TestExternalCheckoutWithoutProvider(t *testing.T) {
	t.Parallel()
	f, e := withExternal(t)
	s, b := f.newCheckout(2000), f.browser()
	e.refuse.Store(true)
	b.get("/checkout/"+s.ID).want(t, 503)
	e.refuse.Store(false)
	if p := b.get("/checkout/" + s.ID); p.StatusCode != http.StatusSeeOther {
		t.Errorf("then: %d", p.StatusCode)
	}
	late := f.newCheckout(2000)
	f.clock.Advance(2 * time.Hour)
	b.get("/checkout/"+late.ID).want(t, 200, "This payment page has expired")
}
