package wallet_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

// parallel runs n functions at the same time and returns their errors.
func parallel(n int, do func(i int) error) []error {
	errs := make([]error, n)
	var begin, done sync.WaitGroup
	begin.Add(1)
	for i := range n {
		done.Go(func() {
			begin.Wait()
			errs[i] = do(i)
		})
	}
	begin.Done()
	done.Wait()
	return errs
}

// count returns how many succeeded. All others must have failed with want.
func count(t *testing.T, errs []error, want error) (succeeded int) {
	t.Helper()
	for _, err := range errs {
		switch {
		case err == nil:
			succeeded++
		case !errors.Is(err, want):
			t.Errorf("error %v, want %v", err, want)
		}
	}
	return succeeded
}

// R151: the available amount is reserved once.
func TestParallelHoldsReserveTheMoneyOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client := f.funded(2000)
	errs := parallel(50, func(i int) error { return f.hold(f.wallets, client, fmt.Sprintf("con_%d", i), 2000) })
	if n := count(t, errs, wallet.ErrInsufficientFunds); n != 1 {
		t.Errorf("%d holds succeeded, want 1", n)
	}
	if b := f.balance(client); b != (wallet.Balance{Balance: 2000, Available: 0, Held: 2000}) {
		t.Errorf("balance %+v", b)
	}
	f.sound()
}

// A hold ends once, even while other transactions move money in the same wallet.
func TestParallelReleaseAndCaptureEndAHoldOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const rounds = 15
	client := f.funded(rounds * 2000)
	for i := range rounds {
		if err := f.hold(f.wallets, client, fmt.Sprintf("con_%d", i), 2000); err != nil {
			t.Fatal(err)
		}
	}
	ends := parallel(3*rounds, func(i int) error {
		con := fmt.Sprintf("con_%d", i/3)
		switch i % 3 {
		case 0:
			return f.release(con)
		case 1:
			return f.capture(con)
		default:
			return f.db.InTx(t.Context(),
				func(tx postgres.Tx) error { return f.wallets.Adjust(t.Context(), tx, client, 1, "Noise") })
		}
	})
	var released money.Cents
	for i := range rounds {
		if n := count(t, ends[3*i:3*i+2], wallet.ErrHoldEnded); n != 1 {
			t.Errorf("hold %d ended %d times", i, n)
		}
		if ends[3*i] == nil {
			released += 2000
		}
	}
	if b := f.balance(client); b.Held != 0 || b.Available != released+rounds {
		t.Errorf("balance %+v, released %d", b, released)
	}
	f.sound()
}

// R155: a payment is credited once, however often it is reported at the same time.
func TestParallelTopUpsCreditOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client := f.client()
	session := f.session(client, 5000)
	errs := parallel(20, func(int) error {
		return f.db.InTx(t.Context(), func(tx postgres.Tx) error {
			return f.wallets.TopUp(t.Context(), tx, client, application, session, 5000)
		})
	})
	if n := count(t, errs, nil); n != 20 {
		t.Errorf("%d of 20 reported success", n)
	}
	if b := f.balance(client); b.Balance != 5000 {
		t.Errorf("balance %+v", b)
	}
	f.sound()
}

func TestParallelRefundsPayOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client := f.funded(2000)
	if err := errors.Join(f.hold(f.wallets, client, "con_1", 2000), f.capture("con_1")); err != nil {
		t.Fatal(err)
	}
	if n := count(t, parallel(10, func(int) error { return f.refund("con_1", 1500) }),
		wallet.ErrNotRefundable); n != 1 {
		t.Errorf("%d refunds succeeded, want 1", n)
	}
	if b := f.balance(client); b.Available != 1500 {
		t.Errorf("balance %+v", b)
	}
	f.sound()
}

func TestCapturePaysFixedFees(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client := f.funded(2000)
	if err := errors.Join(f.hold(f.wallets, client, "con_1", 2000), f.capture("con_1")); err != nil {
		t.Fatal(err)
	}
	for account, want := range map[string]int64{
		"lawyer_fee": 1700, "platform_fee": 300, "client_held": 0, "adjustments": -2000,
	} {
		var got int64
		err := f.db.Pool().QueryRow(t.Context(),
			`SELECT coalesce(sum(amount_cents), 0) FROM postings WHERE account = $1`, account).Scan(&got)
		if err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", account, got, err, want)
		}
	}
}

// A price that differs from the sum of the fees is refused at the reservation, not when the lawyer is to be paid.
func TestHoldRefusesAPriceThatTheFeesDoNotFit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client := f.funded(5000)
	if err := f.hold(f.wallets, client, "con_1", 2001); !errors.Is(err, wallet.ErrFees) {
		t.Errorf("error %v, want ErrFees", err)
	}
	if b := f.balance(client); b.Held != 0 {
		t.Errorf("balance %+v", b)
	}
}

func TestAWalletThatWasNeverOpenedIsEmpty(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client := f.client()
	items, more, err := f.wallets.Transactions(t.Context(), f.db.Read(), client, 0, 20)
	if f.balance(client) != (wallet.Balance{}) || len(items) != 0 || more || err != nil {
		t.Errorf("balance %+v, transactions %v %v %v", f.balance(client), items, more, err)
	}
	err = f.hold(f.wallets, client, "con_1", 2000)
	if p, ok := problem.As(err); !ok || p.Code != "INSUFFICIENT_FUNDS" || p.Kind != problem.Conflict {
		t.Errorf("hold: %v", err)
	}
	for range 2 {
		if err := f.wallets.Open(t.Context(), f.db.Read(), client); err != nil {
			t.Fatal(err)
		}
	}
	f.sound()
}

// The database itself rejects statements that would corrupt the ledger.
func TestDatabaseGuardsTheBooks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client := f.funded(2000)
	var entry string
	if err := f.db.Pool().QueryRow(t.Context(), `SELECT id FROM ledger_transactions`).Scan(&entry); err != nil {
		t.Fatal(err)
	}
	add := `INSERT INTO ledger_transactions SELECT 'txn_2', client_id, 2, type, amount_cents, 0, 0, NULL, NULL, NULL, '', created_at, hash FROM ledger_transactions WHERE seq = 1; `
	owner := dbtest.Owner(t, f.db)
	for name, c := range map[string]struct{ sql, constraint string }{
		"one-sided posting": {add + `INSERT INTO postings VALUES ('txn_2', 'adjustments', NULL, 5)`,
			"postings_balance"},
		"unbalanced postings": {
			add + `INSERT INTO postings VALUES ('txn_2', 'adjustments', NULL, 5), ('txn_2', 'refunds', NULL, -4)`,
			"postings_balance",
		},
		"unbalanced in a CTE": {add + `WITH a AS (INSERT INTO postings VALUES ('txn_2', 'adjustments', NULL, 5) RETURNING 1) SELECT count(*) FROM a`, "postings_balance"},
		"changed posting":     {`UPDATE postings SET amount_cents = -amount_cents`, "append_only"},
		"removed posting":     {`DELETE FROM postings`, "append_only"},
		"emptied postings":    {`TRUNCATE postings`, "append_only"},
		"changed transaction": {`UPDATE ledger_transactions SET description = ''`, "append_only"},
		"removed transaction": {`DELETE FROM ledger_transactions`, "append_only"},
		"negative available":  {`UPDATE wallets SET available_cents = -1`, "wallets_available"},
		"negative held":       {`UPDATE wallets SET held_cents = -1`, "wallets_held"},
		"posting without client": {
			add + `INSERT INTO postings VALUES ('txn_2', 'client_held', NULL, 5), ('txn_2', 'refunds', NULL, -5)`,
			"postings_client",
		},
		"fees that are not whole": {`INSERT INTO holds VALUES ('h', '` + client +
			`', NULL, 'c', 2000, 1700, 299, 'ACTIVE', NULL, now(), NULL)`, "holds_fees"},
	} {
		_, err := owner.Pool().Exec(t.Context(), c.sql)
		if !postgres.IsCheck(err, c.constraint) {
			t.Errorf("%s: %v, want a violation of %s", name, err, c.constraint)
		}
	}
	f.sound()
}

// errRollback ends a transaction whose changes are not wanted.
var errRollback = errors.New("roll back")

// manipulated returns what Verify finds after statements that the database would reject, and undoes them.
func (f *fixture) manipulated(statements ...string) (findings []string) {
	f.t.Helper()
	statements = append([]string{`ALTER TABLE postings DISABLE TRIGGER USER`,
		`ALTER TABLE ledger_transactions DISABLE TRIGGER USER`}, statements...)
	err := dbtest.Owner(f.t, f.db).InTx(f.t.Context(), func(tx postgres.Tx) (err error) {
		for _, sql := range statements {
			if err := dbtest.Exec(f.t.Context(), tx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		findings, err = wallet.Verify(f.t.Context(), tx)
		return errors.Join(err, errRollback)
	})
	if !errors.Is(err, errRollback) || strings.TrimSpace(err.Error()) != errRollback.Error() {
		f.t.Fatalf("%q: %v", statements, err)
	}
	return findings
}

// Verify finds changes made directly in the database by someone with full privileges.
func TestVerifyFindsManipulations(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rich := f.client()
	session := f.session(rich, 9000)
	f.must(func(tx postgres.Tx) error {
		return f.wallets.TopUp(t.Context(), tx, rich, application, session, 9000)
	})
	other := f.funded(4000)
	err := errors.Join(f.hold(f.wallets, rich, "con_held", 2000), f.hold(f.wallets, rich, "con_released", 2000),
		f.release("con_released"), f.hold(f.wallets, rich, "con_captured", 2000), f.capture("con_captured"),
		f.refund("con_captured", 500))
	if err != nil {
		t.Fatal(err)
	}
	f.sound()
	for _, c := range []struct{ name, sql, finding string }{
		{"flipped posting", `UPDATE postings SET amount_cents = -amount_cents WHERE account = 'lawyer_fee'`,
			"postings sum to"},
		{"removed postings", `DELETE FROM postings WHERE account IN ('lawyer_fee', 'client_held', 'platform_fee') AND transaction_id = (SELECT id FROM ledger_transactions WHERE type = 'CAPTURE')`, "0 postings sum to 0"},
		{"posting of another client", `UPDATE postings SET client_id = '` + other + `' WHERE client_id = '` + rich +
			`' AND account = 'client_available'`, "a posting belongs to client"},
		{"amount shown", `UPDATE ledger_transactions SET amount_cents = -1700 WHERE type = 'CAPTURE'`,
			"CAPTURE of -1700 moved 0 available and -2000 held"},
		{"running balance",
			`UPDATE ledger_transactions SET balance_after_cents = balance_after_cents + 1 WHERE type = 'REFUND'`,
			"states a balance of 7501 with 5500 available, the postings give 7500 and 5500"},
		{"gap in the numbers", `UPDATE ledger_transactions SET seq = 99 WHERE type = 'REFUND'`, "number 99"},
		{"time going back",
			`UPDATE ledger_transactions SET created_at = created_at - interval '1 hour' WHERE type = 'REFUND'`,
			"is older than the previous one"},
		{"wallet's figure", `UPDATE wallets SET available_cents = available_cents + 1 WHERE client_id = '` + rich + `'`,
			"has 5501 available and 2000 held, the postings give 5500 and 2000"},
		{"wallet's count", `UPDATE wallets SET entry_seq = entry_seq + 1 WHERE client_id = '` + other + `'`,
			"counts 2 transactions and has 1"},
		{"hold forgotten", `DELETE FROM holds WHERE state = 'ACTIVE'`,
			"concerns consultation con_held, which has no hold"},
		{"hold reopened", `UPDATE holds SET state = 'ACTIVE', ended_at = NULL WHERE state = 'RELEASED'`,
			"its active holds are 4000"},
		{"hold captured on paper", `UPDATE holds SET state = 'CAPTURED' WHERE state = 'RELEASED'`,
			"is CAPTURED, the ledger has HOLD -2000, RELEASE 2000"},
		{"refund on paper", `UPDATE holds SET refunded_cents = 600 WHERE refunded_cents = 500`,
			"the ledger has HOLD -2000, CAPTURE -2000, REFUND 500"},
	} {
		if findings := f.manipulated(c.sql); !strings.Contains(strings.Join(findings, "\n"), c.finding) {
			t.Errorf("%s: findings %q lack %q", c.name, findings, c.finding)
		}
	}
	f.sound()
}
