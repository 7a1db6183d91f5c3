package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/payment"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/clients"
	"partnerd/internal/server/web/shell"
)

func (f *fixture) balance() money.Cents {
	f.t.Helper()
	b, err := f.wallet.Balance(f.t.Context(), f.db.Read(), f.client.ID)
	if err != nil {
		f.t.Fatal(err)
	}
	return b.Balance
}

func (b *browser) decide(path, action string) page {
	b.t.Helper()
	form := b.get(path).form(path)
	form.Set("action", action)
	return b.post(path, form)
}

func TestCheckoutCreditsOnTheProvidersNotice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s, b := f.newCheckout(4550), f.browser()
	path := "/checkout/" + s.ID
	p := b.get(path)
	p.want(t, 200, "€45.50", "Demo CRM (<code>crm.example</code>)", "Pay by", "1 June 2026, 11:30 CEST",
		"no money moves", "Pay €45.50")
	if strings.Contains(p.body, "Demo Client") || strings.Contains(p.body, "client@example.com") {
		t.Error("a page that needs no sign-in names the client")
	}
	b.decide(path, "pay").wantRedirect(t, http.StatusSeeOther, path)

	p = b.get(path)
	p.want(t, 200, "The payment provider is processing your payment")
	if p.Header.Get("Refresh") != "1; url="+path || f.balance() != 0 {
		t.Errorf("Refresh %q, balance %d", p.Header.Get("Refresh"), f.balance())
	}
	if len(p.form(path)) != 0 {
		t.Error("it can be paid again")
	}
	f.report(s)
	p = b.get(path)
	p.want(t, 200, "Payment received",
		`<a class="button wide" href="https://crm.example/wallet?case=7&topup=success#top" rel="noreferrer">Return to Demo CRM (crm.example)</a>`)
	if p.Header.Get("Refresh") != "" || f.balance() != 4550 {
		t.Errorf("Refresh %q, balance %d", p.Header.Get("Refresh"), f.balance())
	}
	// An earlier form has no further effect.
	b.post(path, url.Values{"csrf": {shell.CSRFToken(b.cookie(shell.BrowserCookie))}, "action": {"cancel"}}).
		wantRedirect(t, http.StatusSeeOther, path)
	b.get(path).want(t, 200, "Payment received")
}

func TestACancelledCheckoutChargesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s, b := f.newCheckout(2000), f.browser()
	path := "/checkout/" + s.ID
	stale := b.get(path).form(path)
	b.decide(path, "cancel").wantRedirect(t, http.StatusSeeOther, path)
	stale.Set("action", "pay") // the same page in another tab
	b.post(path, stale).wantRedirect(t, http.StatusSeeOther, path)
	f.report(s)
	b.get(path).want(t, 200, "Payment not completed", "case=7&topup=cancelled#top")
	if f.balance() != 0 {
		t.Errorf("balance %d", f.balance())
	}
}

func TestAnExpiredCheckoutCannotBePaid(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s, b := f.newCheckout(2000), f.browser()
	path := "/checkout/" + s.ID
	form := b.get(path).form(path)
	f.clock.Advance(time.Hour)
	form.Set("action", "pay")
	b.post(path, form).wantRedirect(t, http.StatusSeeOther, path)
	b.get(path).want(t, 200, "This payment page has expired", "topup=cancelled")
	if _, decided, _ := f.provider.Decision(t.Context(), f.db.Read(), s.ID); decided {
		t.Error("it was paid")
	}
}

func TestAPaymentOnItsWayIsNotShownAsExpired(t *testing.T) {
	t.Parallel()
	if got := clients.StateOf(payment.Session{Status: payment.Expired}, true); got != clients.CheckoutProcessing {
		t.Errorf("state %s", got)
	}
}

func TestAPaymentAboveTheWalletsLimitIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s, b := f.newCheckout(2000), f.browser()
	f.tx(func(tx postgres.Tx) {
		if err := f.wallet.Adjust(t.Context(), tx, f.client.ID, payment.DefaultWalletCeiling, "gift"); err != nil {
			t.Fatal(err)
		}
	})
	b.decide("/checkout/"+s.ID, "pay").want(t, http.StatusConflict, `role="alert"`, "over its limit")
}

func TestUnknownCheckoutsAndForgedAnswers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser()
	for _, id := range []string{"top_test_unknown", "%00", "%FF", "..", strings.Repeat("a", 300)} {
		b.get("/checkout/"+id).want(t, http.StatusNotFound, "Page not found")
	}
	path := "/checkout/" + f.newCheckout(2000).ID
	form := b.get(path).form(path)
	form.Set("action", "steal")
	b.post(path, form).want(t, http.StatusBadRequest)
	form.Set("action", "pay")
	f.browser().post(path, form).want(t, http.StatusForbidden)
	b.header.Set("Sec-Fetch-Site", "cross-site")
	b.post(path, form).want(t, http.StatusForbidden)
	if f.provider.decided[strings.TrimPrefix(path, "/checkout/")] != "" {
		t.Error("it was decided")
	}
}

func TestALiveDeploymentWithoutProviderHasNoCheckout(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(d *services) { d.SandboxPayments, d.Sandbox = nil, false })
	b := f.browser()
	b.get("/checkout/"+f.newCheckout(2000).ID).want(t, http.StatusServiceUnavailable, "Not available right now")
	p := b.get("/")
	p.want(t, 200, "This is the live service")
	if strings.Contains(p.body, "Sandbox: no real lawyers") {
		t.Error("the banner of the sandbox is shown")
	}
}
