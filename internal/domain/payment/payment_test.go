package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

const client, application, secret = "cli_1", "app_1", "notice key"

var start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

func moneyOf(n int64) money.Cents { return money.Cents(n) }

type fixture struct {
	t        *testing.T
	db       *postgres.DB
	clock    *clock.Manual
	wallets  *wallet.Service
	payments *Service
	log      *bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	clk := clock.NewManual(start)
	f := &fixture{t: t, clock: clk, db: dbtest.NewWithClock(t, clk), wallets: wallet.New(), log: &bytes.Buffer{}}
	f.payments = f.service(Config{BaseURL: "http://localhost:8080", Sandbox: true, NoticeSecret: secret})
	for _, sql := range []string{
		`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at) VALUES ('app_1', 'Demo CRM', '{}', '{}', '', now(), now())`,
		`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ('cli_1', 'demo@example.com', 'Demo Client', '', now(), now())`,
	} {
		if _, err := f.db.Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *fixture) service(cfg Config) *Service {
	return New(f.db, slog.New(slog.NewTextHandler(f.log, nil)), f.wallets, cfg)
}

func (f *fixture) create(amount money.Cents) (s Session, err error) {
	err = f.db.InTx(f.t.Context(), func(tx postgres.Tx) error {
		s, err = f.payments.Create(f.t.Context(), tx, CreateCommand{ClientID: client, ApplicationID: application,
			Amount: amount, ReturnURL: "https://crm.example/wallet"})
		return err
	})
	return s, err
}

func (f *fixture) session(amount money.Cents) Session {
	f.t.Helper()
	s, err := f.create(amount)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// notice posts a notice about a session, signed now.
func (f *fixture) notice(n Notice) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return f.payments.HandleNotice(f.t.Context(), SandboxProvider, body, SignNotice(secret, f.clock.Now(), body))
}

func (f *fixture) balance() money.Cents {
	f.t.Helper()
	b, err := f.wallets.Balance(f.t.Context(), f.db.Read(), client)
	if err != nil {
		f.t.Fatal(err)
	}
	return b.Balance
}

func (f *fixture) outcomes() string {
	f.t.Helper()
	var list string
	err := f.db.Pool().QueryRow(f.t.Context(),
		`SELECT coalesce(string_agg(notice_id || ' ' || outcome, ', ' ORDER BY notice_id), '') FROM payment_notices`).Scan(&list)
	if err != nil {
		f.t.Fatal(err)
	}
	return list
}

func (f *fixture) status(id string) Status {
	f.t.Helper()
	s, err := f.payments.Get(f.t.Context(), f.db.Read(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return s.Status
}

func (f *fixture) sound() {
	f.t.Helper()
	if findings, err := books.Verify(f.t.Context(), f.db.Read()); err != nil || len(findings) > 0 {
		f.t.Errorf("books: %v %v", findings, err)
	}
}

func paid(id string, s Session) Notice {
	return Notice{ID: id, Type: CheckoutPaid, SessionID: s.ID, AmountCents: s.Amount, Currency: "EUR", CreatedAt: start}
}

func cancelled(id string, s Session) Notice {
	n := paid(id, s)
	n.Type = CheckoutCancelled
	return n
}

func TestCreateMakesASessionForAnHour(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session(2000)
	want := Session{
		ID: s.ID, ClientID: client, ApplicationID: application, Amount: 2000, ReturnURL: "https://crm.example/wallet",
		CheckoutURL: "http://localhost:8080/checkout/" + s.ID, Provider: SandboxProvider, Status: Open,
		CreatedAt: start, ExpiresAt: start.Add(time.Hour),
	}
	if s != want || !strings.HasPrefix(s.ID, "top_test_") {
		t.Errorf("created %+v", s)
	}
	if got, err := f.payments.Get(t.Context(), f.db.Read(), s.ID); err != nil || got != want {
		t.Errorf("read %+v, %v", got, err)
	}
	f.clock.Advance(time.Hour)
	if st := f.status(s.ID); st != Expired {
		t.Errorf("after an hour: %s", st)
	}
	if _, err := f.payments.Payable(t.Context(), f.db.Read(), s.ID); !errors.Is(err, ErrSessionClosed) {
		t.Errorf("payable after an hour: %v", err)
	}
	if _, err := f.payments.Get(t.Context(), f.db.Read(), "top_none"); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("missing session: %v", err)
	}
	if f.balance() != 0 {
		t.Error("a session alone moved money")
	}
}

func TestCreateRefusals(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.create(1999); !errors.Is(err, problem.ErrValidation) {
		t.Errorf("too small: %v", err)
	}
	f.payments.cfg.Sandbox = false
	if _, err := f.create(2000); !errors.Is(err, problem.ErrUnavailable) {
		t.Errorf("live without a provider: %v", err)
	}
}

// H29: a top-up that would raise the balance above 200000 cents is rejected on creation and before payment.
func TestWalletCeiling(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first, second, third := f.session(100_000), f.session(100_000), f.session(2000)
	for i, s := range []Session{first, second} {
		if _, err := f.payments.Payable(t.Context(), f.db.Read(), s.ID); err != nil {
			t.Fatal(err)
		}
		if err := f.notice(paid(fmt.Sprint("ntc_", i), s)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.create(2000); !errors.Is(err, ErrWalletLimitExceeded) {
		t.Errorf("create: %v", err)
	}
	if _, err := f.payments.Payable(t.Context(), f.db.Read(), third.ID); !errors.Is(err, ErrWalletLimitExceeded) {
		t.Errorf("payable: %v", err)
	}
	if err := f.notice(paid("ntc_3", third)); err != nil || f.balance() != 202_000 {
		t.Errorf("money that was taken all the same: %v, balance %d", err, f.balance())
	}
	f.sound()
}

// Every sequence of notices about one session of 2000 cents, with its outcome.
func TestNotices(t *testing.T) {
	t.Parallel()
	with := func(n Notice, change func(*Notice)) Notice { change(&n); return n }
	for name, c := range map[string]struct {
		notices  func(s Session) []Notice
		late     bool
		outcomes string
		balance  money.Cents
		status   Status
		incident bool
	}{
		"paid": {notices: func(s Session) []Notice { return []Notice{paid("n1", s)} },
			outcomes: "n1 credited", balance: 2000, status: Paid},
		"repeated": {
			notices:  func(s Session) []Notice { return []Notice{paid("n1", s), paid("n1", s), paid("n1", s)} },
			outcomes: "n1 credited", balance: 2000, status: Paid,
		},
		"reported twice": {notices: func(s Session) []Notice { return []Notice{paid("n1", s), paid("n2", s)} },
			outcomes: "n1 credited, n2 already_paid", balance: 2000, status: Paid},
		"paid late": {notices: func(s Session) []Notice { return []Notice{paid("n1", s)} }, late: true,
			outcomes: "n1 credited_late", balance: 2000, status: Paid},
		"cancelled": {notices: func(s Session) []Notice { return []Notice{cancelled("n1", s)} },
			outcomes: "n1 cancelled", status: Cancelled},
		"cancelled late": {notices: func(s Session) []Notice { return []Notice{cancelled("n1", s)} }, late: true,
			outcomes: "n1 cancelled", status: Cancelled},
		"cancelled twice": {
			notices:  func(s Session) []Notice { return []Notice{cancelled("n1", s), cancelled("n2", s)} },
			outcomes: "n1 cancelled, n2 cancel_ignored", status: Cancelled,
		},
		"cancelled, then paid": {notices: func(s Session) []Notice {
			return []Notice{cancelled("n1", s), paid("n2", s), paid("n3", s)}
		},
			outcomes: "n1 cancelled, n2 credited_after_cancel, n3 already_paid", balance: 2000, status: Paid},
		"paid, then cancelled": {notices: func(s Session) []Notice {
			return []Notice{paid("n1", s), cancelled("n2", s)}
		},
			outcomes: "n1 credited, n2 cancel_ignored", balance: 2000, status: Paid},
		"other amount": {notices: func(s Session) []Notice {
			return []Notice{with(paid("n1", s), func(n *Notice) { n.AmountCents = 1999 })}
		}, outcomes: "n1 amount_mismatch", status: Open, incident: true},
		"other amount, repeated": {notices: func(s Session) []Notice {
			n := with(paid("n1", s), func(n *Notice) { n.AmountCents = 1999 })
			return []Notice{n, n}
		}, outcomes: "n1 amount_mismatch", status: Open, incident: true},
		"other amount, then right": {notices: func(s Session) []Notice {
			return []Notice{with(paid("n1", s), func(n *Notice) { n.AmountCents = 200_000 }), paid("n2", s)}
		}, outcomes: "n1 amount_mismatch, n2 credited", balance: 2000, status: Paid, incident: true},
		"other currency": {notices: func(s Session) []Notice {
			return []Notice{with(paid("n1", s), func(n *Notice) { n.Currency = "USD" })}
		}, outcomes: "n1 currency_mismatch", status: Open, incident: true},
		"unknown session": {notices: func(s Session) []Notice {
			return []Notice{with(paid("n1", s), func(n *Notice) { n.SessionID = "top_none" })}
		}, outcomes: "n1 unknown_session", status: Open, incident: true},
		"unknown type": {notices: func(s Session) []Notice {
			return []Notice{with(paid("n1", s), func(n *Notice) { n.Type = "checkout.viewed" })}
		}, outcomes: "n1 ignored", status: Open},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			s := f.session(2000)
			if c.late {
				f.clock.Advance(30 * time.Hour)
			}
			for _, n := range c.notices(s) {
				if err := f.notice(n); err != nil {
					t.Fatalf("%s: %v", n.ID, err)
				}
			}
			if got := f.outcomes(); got != c.outcomes {
				t.Errorf("outcomes %q, want %q", got, c.outcomes)
			}
			if f.balance() != c.balance || f.status(s.ID) != c.status {
				t.Errorf("balance %d, status %s", f.balance(), f.status(s.ID))
			}
			if logged := strings.Count(f.log.String(), "level=ERROR"); logged != map[bool]int{true: 1}[c.incident] {
				t.Errorf("log %q", f.log)
			}
			f.sound()
		})
	}
}

// Anything that is not a provider's notice is rejected and leaves no trace.
func TestNoticesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	body, err := json.Marshal(paid("n1", f.session(2000)))
	if err != nil {
		t.Fatal(err)
	}
	good := SignNotice(secret, start, body)
	live := f.service(Config{NoticeSecret: secret})
	keyless := f.service(Config{Sandbox: true})
	for name, c := range map[string]struct {
		payments  *Service
		provider  string
		body      string
		signature string
		want      error
	}{
		"forged": {f.payments, SandboxProvider, string(body), SignNotice("guess", start, body),
			ErrBadSignature},
		"unsigned": {f.payments, SandboxProvider, string(body), "", ErrBadSignature},
		"changed": {f.payments, SandboxProvider, strings.Replace(string(body), "2000", "9000", 1), good,
			ErrBadSignature},
		"replayed later": {f.payments, SandboxProvider, string(body),
			SignNotice(secret, start.Add(-5*time.Minute), body), ErrBadSignature},
		"no key configured": {keyless, SandboxProvider, string(body), SignNotice("", start, body), ErrBadSignature},
		"other provider":    {f.payments, "stripe", string(body), good, ErrUnknownProvider},
		"live deployment":   {live, SandboxProvider, string(body), good, ErrUnknownProvider},
		"signed, not JSON": {f.payments, SandboxProvider, "hello", SignNotice(secret, start, []byte("hello")),
			ErrBadNotice},
		"signed, no session": {f.payments, SandboxProvider, `{"id":"n1"}`,
			SignNotice(secret, start, []byte(`{"id":"n1"}`)), ErrBadNotice},
	} {
		if err := c.payments.HandleNotice(t.Context(), c.provider, []byte(c.body),
			c.signature); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if f.balance() != 0 || f.outcomes() != "" {
		t.Errorf("balance %d, notices %q", f.balance(), f.outcomes())
	}
}

// R155: a payment is credited once, however often it is notified concurrently, by the same or by different notices.
func TestParallelNoticesCreditOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var told atomic.Int32
	f.payments.cfg.ToppedUp = func(_ context.Context, tx postgres.Tx, _ string) error {
		tx.AfterCommit(func() { told.Add(1) })
		return nil
	}
	s := f.session(2000)
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			if err := f.notice(paid(fmt.Sprint("n", i/4), s)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if got := f.outcomes(); f.balance() != 2000 || strings.Count(got, "already_paid") != 4 ||
		strings.Count(got, " credited") != 1 {
		t.Errorf("balance %d, outcomes %q", f.balance(), got)
	}
	if told.Load() != 1 {
		t.Errorf("the payment was told %d times", told.Load())
	}
	f.sound()
}

// A failed credit leaves neither a notice nor a paid session, so the provider's retry works.
func TestNoticeAndCreditCommitTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session(2000)
	owner := dbtest.Owner(t, f.db)
	damage, mend := `ALTER TABLE postings ADD CONSTRAINT broken CHECK (false) NOT VALID`,
		`ALTER TABLE postings DROP CONSTRAINT broken`
	if _, err := owner.Pool().Exec(t.Context(), damage); err != nil {
		t.Fatal(err)
	}
	if err := f.notice(paid("n1", s)); err == nil {
		t.Fatal("no error from a failed credit")
	}
	if f.outcomes() != "" || f.status(s.ID) != Open || f.balance() != 0 {
		t.Errorf("left behind: %q, %s, %d", f.outcomes(), f.status(s.ID), f.balance())
	}
	if _, err := owner.Pool().Exec(t.Context(), mend); err != nil {
		t.Fatal(err)
	}
	if err := f.notice(paid("n1", s)); err != nil || f.balance() != 2000 {
		t.Errorf("next try: %v, balance %d", err, f.balance())
	}
	f.sound()
}
