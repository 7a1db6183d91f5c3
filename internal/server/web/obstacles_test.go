package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/privacy"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/clients"
	"partnerd/internal/server/web/shell"
)

// TestEveryObstacleHasAWayOut checks that a client whose account cannot be erased finds a link or a button for each
// obstacle.
func TestEveryObstacleHasAWayOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	for _, kind := range privacy.Kinds {
		if clients.Outs[kind] == nil {
			t.Errorf("%s has no way out", kind)
			continue
		}
		c := echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder())
		for _, returnable := range []money.Cents{0, 500} {
			o := privacy.Obstacle{Kind: kind, Until: f.clock.Now(), Amount: 500, Returnable: returnable}
			out := clients.Outs[kind](f.pages.clients, c, o)
			if len(out) == 0 {
				t.Errorf("%s has no way out", kind)
			}
			for _, v := range out {
				switch {
				case v.Act != "":
					b.post(v.Act, url.Values{"csrf": {shell.CSRFToken(b.cookie(shell.SessionCookie))}}).wantRedirect(t,
						http.StatusSeeOther, "/account/privacy")
				default:
					b.get(v.Link).want(t, http.StatusOK)
				}
			}
		}
	}
}

// TestAClientWhoLeavesClearsTheWay sees all obstacles at once and removes them with what the page offers.
func TestAClientWhoLeavesClearsTheWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	paid := f.newCheckout(3000)
	f.tx(func(tx postgres.Tx) {
		if err := f.provider.Pay(t.Context(), tx, paid.ID); err != nil {
			t.Fatal(err)
		}
	})
	f.report(paid)
	c := f.start() // with 50 euros, 20 of them reserved
	f.clock.Advance(20 * 24 * 60 * 60 * 1e9)
	b := f.browser().signIn("client@example.com")
	topUp := f.newCheckout(2000)

	const open, left, rest = "A consultation is under way", "30.00 from your top-ups is still in your wallet",
		"did not come from a top-up"
	b.get("/account/privacy").want(t, 200, open, left, rest, "A top-up is still open",
		`href="/account/consultations"`, `action="/account/privacy/return"`, `href="/account/wallet#w-topups"`)
	form := url.Values{"csrf": {shell.CSRFToken(b.cookie(shell.SessionCookie))}, "present": {testPassword}}
	b.post("/account/privacy/erase", form).want(t, http.StatusConflict, open, left, rest, "A top-up is still open")

	b.send("/account/consultations/"+c.ID+"/cancel", "/account/consultations/"+c.ID+"/cancel")
	b.send("/account/privacy", "/account/privacy/return").wantRedirect(t, http.StatusSeeOther, "/account/privacy")
	b.get("/account/wallet").want(t, 200, `id="w-topups"`, `id="w-returning"`, "Demo CRM", "/checkout/"+topUp.ID)
	b.send("/account/wallet", "/account/wallet/topups/"+topUp.ID+"/cancel").wantRedirect(t, http.StatusSeeOther,
		"/account/wallet?done=topup-cancelled")
	p := b.get("/account/privacy")
	p.want(t, 200, "30.00 is being refunded to you", `href="/account/wallet#w-returning"`)
	if strings.Contains(p.body, open) || strings.Contains(p.body, "A top-up is") {
		t.Error("what is done is still said to be in the way")
	}
	if _, err := f.payments.SendRefunds(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := b.get("/account/wallet"); strings.Contains(p.body, `id="w-returning"`) ||
		strings.Contains(p.body, `id="w-topups"`) {
		t.Error("the wallet shows what is over")
	}
}

// TestAnOpenTopUpIsCancelledAtItsProviderToo also covers a top-up that expired here but could still be paid at the
// provider. No client can cancel the top-ups of others.
func TestAnOpenTopUpIsCancelledAtItsProviderToo(t *testing.T) {
	t.Parallel()
	f, provider := withExternal(t)
	b := f.browser().signIn("client@example.com")
	cancel := func(s payment.Session) string { return "/account/wallet/topups/" + s.ID + "/cancel" }
	s := f.newCheckout(2000)
	f.clock.Advance(payment.SessionLifetime - 60*1e9)
	b.get("/checkout/" + s.ID)
	f.clock.Advance(120 * 1e9)
	other := f.browser().signIn(f.newClient("other@example.com", "Other").Email)
	other.post(cancel(s), url.Values{"csrf": {shell.CSRFToken(other.cookie(shell.SessionCookie))}}).want(t,
		http.StatusNotFound)
	b.get("/account/wallet").want(t, 200, cancel(s))
	b.send("/account/wallet", cancel(s)).wantRedirect(t, http.StatusSeeOther, "/account/wallet?done=topup-cancelled")
	if n := provider.ended.Load(); n != 1 {
		t.Errorf("ended %d times at the provider", n)
	}
	late := f.newCheckout(2000)
	f.tell("n1", payment.CheckoutPending, late)
	b.get("/account/wallet").want(t, 200, "The money is on its way to your wallet")
	b.post(cancel(late), url.Values{"csrf": {shell.CSRFToken(b.cookie(shell.SessionCookie))}}).wantRedirect(t,
		http.StatusSeeOther,
		"/account/wallet?done=topup-over")
	f.tell("n2", payment.CheckoutPaid, late)
	b.get("/account/wallet?done=topup-over").want(t, 200, "If you paid, the money will arrive in your wallet")
	if got := f.balance(); got != 2000 {
		t.Errorf("the wallet has %d", got)
	}
}
