package app

import (
	"fmt"
	"testing"
	"time"

	"partnerd/internal/app/config"
	"partnerd/internal/base/money"
	"partnerd/internal/domain/payment"
	"partnerd/internal/infra/postgres"
)

// TestNoticesOfStripeArrive checks that Stripe webhooks are accepted through their own header, and only with the
// endpoint's secret.
func TestNoticesOfStripeArrive(t *testing.T) {
	t.Parallel()
	b := openBank(t, func(c *config.Config) { c.StripeSecretKey, c.StripeWebhookSecret = "sk_test_demo", "whsec_demo" })
	client, _ := b.client()
	var top payment.Session
	err := b.app.DB.InTx(t.Context(), func(tx postgres.Tx) (err error) {
		top, err = b.app.Payments.Create(t.Context(), tx, payment.CreateCommand{ClientID: client, Amount: 2000,
			ReturnURL: "https://crm.example/back"})
		return err
	})
	if err != nil || top.Provider != payment.StripeProvider {
		t.Fatalf("session %+v, %v", top, err)
	}
	event := fmt.Sprintf(`{"id": "evt_1", "object": "event", "type": "checkout.session.completed", "created": 1780000000, "data": {"object": {"id": "cs_1",
		"object": "checkout.session", "payment_status": "paid", "payment_intent": "pi_1", "amount_total": 2000, "currency": "eur", "metadata": {"topup_id": %q}}}}`, top.ID)
	for _, c := range []struct {
		header, secret string
		status         int
		balance        money.Cents
	}{
		{"X-Payment-Signature", "whsec_demo", 400, 0},
		{"Stripe-Signature", "whsec_guess", 400, 0},
		{"Stripe-Signature", "whsec_demo", 204, 2000},
		{"Stripe-Signature", "whsec_demo", 204, 2000},
	} {
		// Stripe's signatures have the same form as those of the built-in provider.
		r := b.send(t.Context(), "POST", "/payments/notices/stripe",
			map[string]string{c.header: payment.SignNotice(c.secret, time.Now(), []byte(event))}, event)
		balance, err := b.app.Wallet.Balance(t.Context(), b.app.DB.Read(), client)
		if r.status != c.status || err != nil || balance.Balance != c.balance {
			t.Errorf("%s with %s: %d %s, balance %+v, %v", c.header, c.secret, r.status, r.raw, balance, err)
		}
	}
}
