package books_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/money"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

var start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

type fixture struct {
	t       *testing.T
	db      *postgres.DB
	clock   *clock.Manual
	wallets *wallet.Service
	books   *books.Service
	log     *bytes.Buffer
}

// newFixture creates the clients cli_1 and cli_2, each with 40 euros, none of it reserved.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	clk, log := clock.NewManual(start), &bytes.Buffer{}
	f := &fixture{t: t, clock: clk, db: dbtest.NewWithClock(t, clk), wallets: wallet.New(), log: log}
	f.books = books.New(f.db, slog.New(slog.NewTextHandler(log, nil)))
	f.exec(`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at) VALUES ('app_1', 'Demo CRM', '{}', '{}', '', $1, $1)`, start)
	f.exec(`INSERT INTO lawyers (id, email, name, password_hash, state, created_at, updated_at) VALUES ('law_1', 'lawyer@example.com', 'Demo Lawyer', '', 'OFFLINE', $1, $1)`, start)
	for _, client := range []string{"cli_1", "cli_2"} {
		f.exec(`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ($1, $1 || '@example.com', 'Demo Client', '', $2, $2)`, client, start)
		f.tx(func(tx postgres.Tx) error { return f.wallets.Adjust(t.Context(), tx, client, 4000, "Opening balance") })
	}
	return f
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.db.Pool().Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

func (f *fixture) tx(do func(tx postgres.Tx) error) {
	f.t.Helper()
	if err := f.db.InTx(f.t.Context(), do); err != nil {
		f.t.Fatal(err)
	}
}

// consultation creates a consultation of cli_1 in its first state, with its hold.
func (f *fixture) consultation(id string) {
	f.t.Helper()
	f.exec(`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed,
			recording_consent, price_cents, phone_sealed, created_at, updated_at, search_started_at)
		VALUES ($1, 'app_1', 'cli_1', 'MATCHING', 'FAMILY', 'FR', '', false, 2000, '', $2, $2, $2)`, id, start)
	f.exec(`INSERT INTO consultation_evidence (consultation_id, text_version, text_sha256, acknowledged_at, application_id, client_id, request_id,
			idempotency_key_sha256, address, user_agent)
		VALUES ($1, 'v', '', $2, 'app_1', 'cli_1', '', '', '', '')`, id, start)
	f.tx(func(tx postgres.Tx) error {
		return f.wallets.Hold(f.t.Context(), tx, wallet.HoldCommand{ClientID: "cli_1", ApplicationID: "app_1",
			ConsultationID: id, Amount: 2000})
	})
}

// topUp creates a session that its provider has confirmed, and credits it.
func (f *fixture) topUp(id string, amount money.Cents) {
	f.t.Helper()
	f.exec(`INSERT INTO topup_sessions (id, client_id, application_id, amount_cents, return_url, provider, checkout_url, status, created_at, expires_at, ended_at)
		VALUES ($1, 'cli_1', 'app_1', $2, '', 'sandbox', '', 'PAID', $3, $3, $3)`, id, int64(amount), start)
	f.tx(func(tx postgres.Tx) error { return f.wallets.TopUp(f.t.Context(), tx, "cli_1", "app_1", id, amount) })
}

func (f *fixture) sound() {
	f.t.Helper()
	if findings, err := books.Verify(f.t.Context(), f.db.Read()); err != nil || len(findings) > 0 {
		f.t.Errorf("books: %q, %v", findings, err)
	}
}

// manipulated returns the findings after a statement that the database would reject, and rolls it back.
func (f *fixture) manipulated(sql string) (findings []string) {
	f.t.Helper()
	rollback := errors.New("roll back")
	err := dbtest.Owner(f.t, f.db).InTx(f.t.Context(), func(tx postgres.Tx) (err error) {
		for _, sql := range []string{`ALTER TABLE ledger_transactions DISABLE TRIGGER USER`, sql} {
			if err := dbtest.Exec(f.t.Context(), tx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		if findings, err = books.Verify(f.t.Context(), tx); err != nil {
			return err
		}
		return rollback
	})
	if !errors.Is(err, rollback) {
		f.t.Fatalf("%q: %v", sql, err)
	}
	return findings
}

// A contradiction between the ledger and consultations or payments is found, whichever side was changed.
func TestVerifyComparesTheLedgerWithWhatItIsAbout(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.topUp("top_1", 9000)
	for _, id := range []string{"con_held", "con_released", "con_captured"} {
		f.consultation(id)
	}
	f.tx(func(tx postgres.Tx) error {
		return errors.Join(f.wallets.Release(t.Context(), tx, "con_released"),
			f.wallets.Capture(t.Context(), tx, "con_captured"),
			f.wallets.Withdraw(t.Context(), tx, "cli_1", "top_1", 700))
	})
	f.exec(`UPDATE consultations SET status = 'CANCELLED', cancelled_at = $1 WHERE id = 'con_released'`, start)
	f.exec(`UPDATE consultations SET status = 'COMPLETED', lawyer_id = 'law_1', call_started_at = $1, completed_at = $1 WHERE id = 'con_captured'`, start)
	f.exec(`INSERT INTO topup_refunds (id, topup_id, client_id, amount_cents, state, reason, next_at, created_at) VALUES ('ref_1', 'top_1', 'cli_1', 700, 'PENDING', 'r', $1, $1)`, start)
	f.sound()
	for _, c := range []struct{ name, sql, finding string }{
		{"hold forgotten", `DELETE FROM holds WHERE state = 'ACTIVE'`,
			"consultation con_held: is MATCHING, its hold is missing"},
		{"hold of another client", `UPDATE holds SET client_id = 'cli_2' WHERE state = 'ACTIVE'`,
			"consultation con_held: is MATCHING, its hold is missing"},
		{"consultation over, money held",
			`UPDATE consultations SET status = 'EXPIRED', expired_at = now() WHERE id = 'con_held'`,
			"con_held: is EXPIRED, its hold is ACTIVE"},
		{"consultation done, not charged", `UPDATE holds SET state = 'RELEASED' WHERE consultation_id = 'con_captured'`,
			"con_captured: is COMPLETED, its hold is RELEASED"},
		{"consultation cancelled, charged",
			`UPDATE holds SET state = 'CAPTURED' WHERE consultation_id = 'con_released'`,
			"con_released: is CANCELLED, its hold is CAPTURED"},
		{"payment without credit", `UPDATE ledger_transactions SET topup_id = NULL WHERE type = 'TOPUP'`,
			"top-up top_1: is PAID for 9000 cents, the ledger credited 0"},
		{"credit without session", `UPDATE ledger_transactions SET topup_id = NULL WHERE type = 'TOPUP'`,
			"is a TOPUP without a session of client cli_1"},
		{"credit without payment", `UPDATE topup_sessions SET status = 'OPEN', ended_at = NULL`,
			"is OPEN for 9000 cents, the ledger credited 9000"},
		{"refund without movement", `UPDATE topup_refunds SET amount_cents = 800`,
			"top-up top_1: 800 cents were refunded or reversed, the ledger moved 700"},
		{"reversal without movement", `UPDATE topup_sessions SET reversed_cents = 5`,
			"top-up top_1: 705 cents were refunded or reversed, the ledger moved 700"},
		{"refund refused", `UPDATE topup_refunds SET state = 'FAILED', ended_at = now(), last_error = 'no'`,
			"refund ref_1 of top-up top_1: the provider refused it: no"},
		{"the ledger itself", `UPDATE wallets SET held_cents = 1 WHERE client_id = 'cli_2'`,
			"wallet cli_2: has 4000 available and 1 held"},
	} {
		if findings := f.manipulated(c.sql); !strings.Contains(strings.Join(findings, "\n"), c.finding) {
			t.Errorf("%s: findings %q lack %q", c.name, findings, c.finding)
		}
	}
	f.sound()
}

// Only one process runs the nightly check, once, and its findings are stored and exposed.
func TestTheNightlyExaminationRunsOnceAndIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if m := f.metrics(); len(m) != 0 {
		t.Errorf("metrics before the first examination: %v", m)
	}
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if err := f.books.ExamineIfDue(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := f.checks(); n != 1 {
		t.Fatalf("%d examinations", n)
	}
	c, found, err := f.books.LastCheck(t.Context(), f.db.Read())
	if err != nil || !found || c.Transactions != 2 || c.Outstanding != 8000 || c.Volume != 0 || len(c.Findings) != 0 ||
		len(c.Heads) != 32 || !c.StartedAt.Equal(start) {
		t.Fatalf("%+v, %v", c, err)
	}
	f.exec(`UPDATE wallets SET available_cents = 4001 WHERE client_id = 'cli_1'`)
	f.clock.Advance(15 * time.Hour) // midnight
	for hour := range 3 {
		if err := f.books.ExamineIfDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := f.checks(); n != 1+hour/2 {
			t.Errorf("at %d o'clock: %d examinations", hour, n)
		}
		f.clock.Advance(time.Hour)
	}
	if !strings.Contains(f.log.String(), "the ledger check found a problem") {
		t.Errorf("log %s", f.log)
	}
	if m := f.metrics(); m["partnerd_ledger_findings"] != 1 || m["partnerd_wallet_outstanding_cents"] != 8001 ||
		m["partnerd_ledger_checked_timestamp_seconds"] != float64(start.Add(17*time.Hour).Unix()) || len(m) != 6 {
		t.Errorf("metrics %v", m)
	}
}

func (f *fixture) checks() (n int) {
	f.t.Helper()
	if err := f.db.Pool().QueryRow(f.t.Context(), `SELECT count(*) FROM ledger_checks`).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *fixture) metrics() map[string]float64 {
	f.t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(f.books.Collector())
	families, err := r.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	m := map[string]float64{}
	for _, family := range families {
		m[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
	}
	return m
}

// A ledger whose amounts were corrupted to be too large can still be checked.
func TestTheBooksDoNotOverflow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`UPDATE wallets SET available_cents = 9223372036854775800`)
	if c, err := f.books.Examine(t.Context()); err != nil || len(c.Findings) != 2 || c.Outstanding != math.MaxInt64 {
		t.Errorf("%+v, %v", c, err)
	}
}
