package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/shell"
)

// The page is for operators who are signed in, whatever their role.
func TestOpsIsForOperators(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.browser().get("/ops").wantRedirect(t, http.StatusSeeOther, "/staff/login?next=%2Fops")
	f.browser().signIn(f.client.Email).get("/ops").wantRedirect(t, http.StatusSeeOther, "/staff/login?next=%2Fops")
	f.operator(staff.Support).get("/ops").want(t, 200, "Promised callbacks",
		"The ledger check is overdue or found problems",
		"Olga Operator")
	f.lawyer().get("/ops").want(t, 403, "You do not have access to this page")
}

func TestOpsShowsTheBooks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.operator(staff.Finance)
	b.get("/ops/money").want(t, 200, "not been checked yet")

	s := f.newCheckout(4550)
	f.provider.decided[s.ID] = payment.CheckoutPaid
	f.report(s)
	f.tx(func(tx postgres.Tx) {
		err := f.wallet.Correct(t.Context(), tx, wallet.Correction{ClientID: f.client.ID, Amount: 50, Actor: "cli:demo",
			Reason: "Call <dropped>"})
		if err == nil {
			_, err = f.payments.Refund(t.Context(), tx, payment.RefundCommand{ClientID: f.client.ID, Amount: 600,
				Actor: "cli:demo", Reason: "Withdrawal"})
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if _, err := f.books.Examine(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := b.get("/ops/money")
	p.want(t, 200, "The last ledger check found no problems", "€40.00", "€45.50", "PENDING", "€6.00",
		"As of ", "when the ledger was last checked", "0 ms")
	if strings.Contains(p.body, "<dropped>") || strings.Contains(p.body, `class="alert"`) {
		t.Errorf("page\n%s", p.body)
	}
	other := s
	other.Amount++
	f.report(other)
	if _, err := f.db.Pool().Exec(t.Context(),
		`UPDATE wallets SET available_cents = available_cents + 90000000`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.books.Examine(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(27 * time.Hour)
	b = f.operator(staff.Finance)
	b.get("/ops/money?lang=fr").want(t, 200, "Anomalies trouvées par le contrôle des comptes : 1.",
		"has 90004000 available", "n’a pas eu lieu", "quatre cinquièmes", "amount_mismatch")
}

func TestCountsAreWrittenInGroups(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64][2]string{0: {"0", "0"}, 999: {"999", "999"}, 1000: {"1,000", "1\u202f000"},
		1234567: {"1,234,567", "1\u202f234\u202f567"}} {
		if en, fr := shell.FormatCount("en", n), shell.FormatCount("fr", n); en != want[0] || fr != want[1] {
			t.Errorf("%d: %q, %q", n, en, fr)
		}
	}
}
