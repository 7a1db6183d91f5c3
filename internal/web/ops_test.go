package web

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"partnerd/internal/payment"
	"partnerd/internal/postgres"
	"partnerd/internal/wallet"
)

const opsPassword = "for operators only"

func (b *browser) as(user, password string) *browser {
	b.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	return b
}

// The page exists only with a password, asks for it, and slows down who guesses.
func TestOpsIsForOperators(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.browser().as("ops", "").get("/ops").want(t, 404)

	f = newFixture(t, func(d *Deps) { d.OpsPassword = opsPassword })
	p := f.browser().get("/ops")
	p.want(t, 401, "for operators")
	if got := p.Header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Basic ") {
		t.Errorf("WWW-Authenticate %q", got)
	}
	f.browser().as("ops", opsPassword).get("/ops").want(t, 200)
	guesser := f.browser().as("ops", "guess")
	status := 401
	for range opsAttempts {
		p := guesser.get("/ops")
		if p.StatusCode != status {
			t.Fatalf("status %d, want %d", p.StatusCode, status)
		}
	}
	for _, b := range []*browser{guesser, f.browser().as("ops", opsPassword)} { // a guess above the bound tells nothing
		p = b.get("/ops")
		if p.StatusCode != http.StatusTooManyRequests || p.Header.Get("Retry-After") == "" {
			t.Errorf("after %d guesses: %d, Retry-After %q", opsAttempts, p.StatusCode, p.Header.Get("Retry-After"))
		}
	}
	f.replica().as("ops", opsPassword).get("/ops").want(t, http.StatusTooManyRequests) // no other process has forgotten
	f.clock.Advance(time.Hour)
	for range 2 * opsOfAll { // the right password costs nothing
		f.browser().as("ops", opsPassword).get("/ops").want(t, 200)
	}
}

func TestOpsShowsTheBooks(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(d *Deps) { d.OpsPassword = opsPassword })
	b := f.browser().as("ops", opsPassword)
	b.get("/ops").want(t, 200, "never been examined")

	s := f.newCheckout(4550)
	f.provider.decided[s.ID] = payment.CheckoutPaid
	f.report(s)
	f.tx(func(tx postgres.Tx) {
		err := f.wallet.Correct(t.Context(), tx, wallet.Correction{ClientID: f.client.ID, Amount: 50, Actor: "cli:demo", Reason: "Call <dropped>"})
		if err == nil {
			_, err = f.payments.Refund(t.Context(), tx, payment.RefundCommand{ClientID: f.client.ID, Amount: 600, Actor: "cli:demo", Reason: "Withdrawal"})
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if _, err := f.books.Examine(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := b.get("/ops")
	p.want(t, 200, "The books agree", "€40.00", "€45.50", "wallet.adjust", "Call <dropped>", "PENDING", "€6.00",
		"As of ", "when the books were examined last", "0 ms")
	if strings.Contains(p.body, "<dropped>") || strings.Contains(p.body, `class="alert"`) {
		t.Errorf("page\n%s", p.body)
	}
	other := s
	other.Amount++
	f.report(other)
	if _, err := f.db.Pool().Exec(t.Context(), `UPDATE wallets SET available_cents = available_cents + 90000000`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.books.Examine(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(27 * time.Hour)
	b.header.Set("Accept-Language", "fr")
	b.get("/ops").want(t, 200, "Erreurs trouvées dans les comptes : 1.", "has 90004000 available", "n’a pas eu lieu", "quatre cinquièmes", "amount_mismatch")
}

func TestCountsAreWrittenInGroups(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64][2]string{0: {"0", "0"}, 999: {"999", "999"}, 1000: {"1,000", "1\u202f000"}, 1234567: {"1,234,567", "1\u202f234\u202f567"}} {
		if en, fr := formatCount("en", n), formatCount("fr", n); en != want[0] || fr != want[1] {
			t.Errorf("%d: %q, %q", n, en, fr)
		}
	}
}
