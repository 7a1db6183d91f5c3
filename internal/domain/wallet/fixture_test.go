package wallet_test

import (
	"fmt"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/money"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

const application = "app_1"

var start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// fixture is a database with the rows that wallets refer to, and a manual clock.
type fixture struct {
	t       testing.TB
	db      *postgres.DB
	clock   *clock.Manual
	wallets *wallet.Service
	rows    int
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	clk := clock.NewManual(start)
	f := &fixture{t: t, db: dbtest.NewWithClock(t, clk), clock: clk, wallets: wallet.New()}
	f.exec(`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at) VALUES ($1, 'Demo CRM', '{}', '{}', '', $2, $2)`, application, start)
	return f
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.db.Pool().Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

func (f *fixture) next(prefix string) string {
	f.rows++
	return fmt.Sprintf("%s_%d", prefix, f.rows)
}

func (f *fixture) client() string {
	id := f.next("cli")
	f.exec(`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ($1, $1 || '@example.com', 'Demo Client', '', $2, $2)`, id, start)
	return id
}

// funded returns a client with money.
func (f *fixture) funded(amount money.Cents) string {
	f.t.Helper()
	id := f.client()
	f.must(func(tx postgres.Tx) error { return f.wallets.Adjust(f.t.Context(), tx, id, amount, "Opening balance") })
	return id
}

// session returns a top-up session that its provider has confirmed.
func (f *fixture) session(client string, amount money.Cents) string {
	id := f.next("top")
	f.exec(`INSERT INTO topup_sessions (id, client_id, application_id, amount_cents, return_url, provider, checkout_url, status, created_at, expires_at, ended_at)
		VALUES ($1, $2, $3, $4, '', 'sandbox', '', 'PAID', $5, $5, $5)`, id, client, application, amount, start)
	return id
}

// hold reserves money for a consultation, which exists only as the row that a hold refers to.
func (f *fixture) hold(s *wallet.Service, client, id string, price money.Cents) error {
	return f.db.InTx(f.t.Context(), func(tx postgres.Tx) error {
		err := dbtest.Exec(f.t.Context(), tx,
			`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed,
				recording_consent, price_cents, phone_sealed, created_at, updated_at, search_started_at)
			VALUES ($1, $2, $3, 'MATCHING', 'FAMILY', 'FR', '', false, $4, '', $5, $5, $5)`,
			id, application, client, price, start)
		if err != nil {
			return err
		}
		return s.Hold(f.t.Context(), tx, wallet.HoldCommand{ClientID: client, ApplicationID: application,
			ConsultationID: id, Amount: price})
	})
}

func (f *fixture) release(id string) error {
	return f.db.InTx(f.t.Context(), func(tx postgres.Tx) error { return f.wallets.Release(f.t.Context(), tx, id) })
}

func (f *fixture) capture(id string) error {
	return f.db.InTx(f.t.Context(), func(tx postgres.Tx) error { return f.wallets.Capture(f.t.Context(), tx, id) })
}

func (f *fixture) refund(id string, amount money.Cents) error {
	return f.db.InTx(f.t.Context(),
		func(tx postgres.Tx) error { return f.wallets.Refund(f.t.Context(), tx, id, amount) })
}

func (f *fixture) must(do func(tx postgres.Tx) error) {
	f.t.Helper()
	if err := f.db.InTx(f.t.Context(), do); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) balance(client string) wallet.Balance {
	f.t.Helper()
	b, err := f.wallets.Balance(f.t.Context(), f.db.Read(), client)
	if err != nil {
		f.t.Fatal(err)
	}
	return b
}

func (f *fixture) sound() {
	f.t.Helper()
	findings, err := wallet.Verify(f.t.Context(), f.db.Read())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, finding := range findings {
		f.t.Error(finding)
	}
}
