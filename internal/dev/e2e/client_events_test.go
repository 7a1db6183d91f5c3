package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/payment"
	"partnerd/internal/infra/postgres"
)

// turnOn subscribes an application to events about clients.
func (w *world) turnOn(t testing.TB, p *partner, types ...string) {
	t.Helper()
	w.send(t, http.MethodPut, "/api/platform/v1/endpoint/events", object{"enabledEvents": append([]string{}, types...)},
		"Authorization", p.basic()).is(t, "turn on", http.StatusOK, "")
}

// told waits until events of these types about the client have arrived, in the order of their numbers. It also checks
// that the application's list has no others.
func (p *partner) told(t testing.TB, w *world, c *person, types string) {
	t.Helper()
	var listed []string
	for _, item := range w.send(t, http.MethodGet, "/api/platform/v1/events?limit=100", nil, "Authorization",
		p.basic()).value()["items"].([]any) {
		e := item.(object)
		if payload := e["payload"].(object); payload["data"].(object)["clientId"] == c.ID &&
			e["consultationId"] == nil {
			if got := fmt.Sprint(e["sequence"]); e["test"] != false || got != fmt.Sprint(len(listed)+1) {
				t.Errorf("event %v", e)
			}
			listed = append(listed, e["type"].(string))
		}
	}
	if got := strings.Join(listed, " "); got != types {
		t.Errorf("%s received %q, want %q", p.name, got, types)
	}
	eventually(t, "delivery of "+types, func() bool {
		n := 0
		for _, kind := range []string{"client.disconnected", "wallet.topped_up"} {
			n += len(p.receiver.attemptsOf(kind))
		}
		return n == len(listed)
	})
}

// TestATopUpIsToldOnceToWhoMayReadTheWallet: a payment is reported once, however often and by whichever route the
// provider reports it. It goes to the applications that may read the wallet at that moment.
func TestATopUpIsToldOnceToWhoMayReadTheWallet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reads, blind, silent, gone := w.partner(t, "Reads"), w.partner(t, "Blind"), w.partner(t, "Silent"),
		w.partner(t, "Gone")
	c := w.client(t, "c1", true, 0)
	s := w.link(t, reads, c)
	w.link(t, reads, c) // a second session must not cause a second event
	w.link(t, blind, c, "profile:read", "wallet:topup", "offline_access")
	w.link(t, silent, c)
	ended := w.link(t, gone, c)
	for _, p := range []*partner{reads, blind, gone} {
		w.turnOn(t, p, "wallet.topped_up")
	}
	checkout := s.checkout(t, 5000)
	ended.disconnect(t) // between the creation of the session and the payment
	id := strings.TrimPrefix(checkout.Path, "/checkout/")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { w.pay(t, fmt.Sprint("ntc_", i/2), id) })
	}
	all.Wait()
	s.hasWallet(t, "after the payment", 5000, 0)
	reads.told(t, w, c, "wallet.topped_up")
	for _, p := range []*partner{blind, silent, gone} {
		p.told(t, w, c, "")
	}

	// Payments on our own pages are reported too.
	var own payment.Session
	w.inTx(t, func(tx postgres.Tx) (err error) {
		own, err = w.Payments.CreateOwn(t.Context(), tx, c.ID, 5000, "/account/wallet")
		return err
	})
	w.pay(t, "ntc_own", own.ID)
	reads.told(t, w, c, "wallet.topped_up wallet.topped_up")
}

// pay reports a payment of 5000 cents, as the provider does.
func (w *world) pay(t testing.TB, notice, session string) {
	t.Helper()
	now := w.DB.Clock().Now()
	raw, err := json.Marshal(payment.Notice{ID: notice, Type: payment.CheckoutPaid, SessionID: session,
		AmountCents: 5000, Currency: "EUR", CreatedAt: now})
	w.must(t, err)
	w.send(t, http.MethodPost, "/payments/notices/sandbox", raw, "Content-Type", "application/json",
		payment.SignatureHeader, payment.SignNotice(w.noticeSecret(t), now, raw)).is(t, "notice",
		http.StatusNoContent, "")
}

// TestTheEndOfALinkIsTold: if a connection is ended by or for the client, each application with an active connection is
// notified once. It is not notified of what it ends itself.
func TestTheEndOfALinkIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.partner(t, "CRM A"), w.partner(t, "CRM B")
	w.turnOn(t, a, "client.disconnected", "wallet.topped_up")
	w.turnOn(t, b, "client.disconnected")
	c := w.client(t, "c1", true, 0)
	first := w.link(t, a, c)
	w.link(t, a, c)
	w.link(t, b, c)
	first.disconnect(t)
	a.told(t, w, c, "client.disconnected")
	b.told(t, w, c, "")
	// Nothing is left to end.
	w.inTx(t, func(tx postgres.Tx) error { return w.OAuth.Disconnect(t.Context(), tx, c.ID, a.ClientID) })
	a.told(t, w, c, "client.disconnected")

	again := w.link(t, a, c)
	again.revoke(t, again.token.RefreshToken).is(t, "revoke", http.StatusOK, "")
	a.told(t, w, c, "client.disconnected")

	w.link(t, a, c)
	w.inTx(t, func(tx postgres.Tx) error { return w.Privacy.Erase(t.Context(), tx, c.ID, c.password, "en") })
	a.told(t, w, c, "client.disconnected client.disconnected")
	b.told(t, w, c, "client.disconnected")

	// Concurrent disconnects end a connection once.
	d := w.client(t, "c2", true, 0)
	w.link(t, b, d)
	w.exec(t, "DELETE FROM oauth_consents WHERE client_id = $1", d.ID) // its rows would queue them
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := w.DB.InTx(t.Context(), func(tx postgres.Tx) error {
				_, err := w.OAuth.UnlinkAll(t.Context(), tx, d.ID, oauth.ReasonOperator)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := w.queryInt(t, "SELECT count(*) FROM webhook_events WHERE client_id = $1", d.ID); n != 1 {
		t.Errorf("%d events", n)
	}
	w.turnOn(t, b)
	w.link(t, b, d).disconnect(t)
	if n := w.queryInt(t, "SELECT count(*) FROM webhook_events WHERE client_id = $1", d.ID); n != 1 {
		t.Errorf("%d events after it was turned off", n)
	}
}
