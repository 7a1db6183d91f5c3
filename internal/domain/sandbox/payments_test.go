package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/money"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

const noticeSecret = "notice key"

// paymentFixture is a service with a wallet, and an HTTP handler for notices whose responses can be set.
type paymentFixture struct {
	t        *testing.T
	db       *postgres.DB
	clock    *clock.Manual
	wallets  *wallet.Service
	payments *payment.Service
	door     *httptest.Server

	mu      sync.Mutex
	answers []int // statuses for the next notices, which are not processed; later ones are
	posts   int
	failure error // of a processed notice
}

func newPaymentFixture(t *testing.T) *paymentFixture {
	clk := clock.NewManual(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC))
	f := &paymentFixture{t: t, clock: clk, db: dbtest.NewWithClock(t, clk), wallets: wallet.New()}
	f.payments = payment.New(f.db, slog.New(slog.DiscardHandler), f.wallets,
		payment.Config{BaseURL: "http://localhost:8080", Sandbox: true, NoticeSecret: noticeSecret})
	f.door = httptest.NewServer(http.HandlerFunc(f.receive))
	t.Cleanup(f.door.Close)
	_, err := f.db.Pool().Exec(t.Context(),
		`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at)
		VALUES ('cli_1', 'demo@example.com', 'Demo Client', '', now(), now())`)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *paymentFixture) receive(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.posts++
	if len(f.answers) > 0 {
		w.Header().Set("Location", f.door.URL+"/elsewhere")
		w.WriteHeader(f.answers[0])
		f.answers = f.answers[1:]
		return
	}
	body, err := io.ReadAll(r.Body)
	if err == nil && r.Method != http.MethodPost || r.URL.Path != "/payments/notices/sandbox" {
		err = fmt.Errorf("%s %s", r.Method, r.URL.Path)
	}
	if err == nil {
		err = f.payments.HandleNotice(r.Context(), payment.SandboxProvider, body, r.Header.Get(payment.SignatureHeader))
	}
	f.failure = errors.Join(f.failure, err)
}

func (f *paymentFixture) provider() *Payments {
	return NewPayments(f.db, f.payments, f.door.URL+"/payments/notices/sandbox", noticeSecret,
		slog.New(slog.DiscardHandler))
}

// run sends notices until the test ends or the returned function is called.
func (f *paymentFixture) run(p *Payments) (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	})
	f.t.Cleanup(stop)
	return stop
}

func (f *paymentFixture) session(amount money.Cents) (s payment.Session) {
	f.t.Helper()
	err := f.db.InTx(f.t.Context(), func(tx postgres.Tx) (err error) {
		s, err = f.payments.Create(f.t.Context(), tx, payment.CreateCommand{ClientID: "cli_1", Amount: amount,
			ReturnURL: "https://crm.example/"})
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

type click func(context.Context, postgres.Tx, string) error

func (f *paymentFixture) click(do click, s payment.Session) error {
	return f.db.InTx(f.t.Context(), func(tx postgres.Tx) error { return do(f.t.Context(), tx, s.ID) })
}

// until waits for a condition.
func (f *paymentFixture) until(what string, holds func() bool) {
	f.t.Helper()
	deadline := time.After(20 * time.Second)
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-deadline:
			f.t.Fatalf("not within 20 s: %s", what)
		case <-look.C:
		}
	}
}

func (f *paymentFixture) is(s payment.Session, want payment.Status) func() bool {
	return func() bool {
		got, err := f.payments.Get(f.t.Context(), f.db.Read(), s.ID)
		return err == nil && got.Status == want
	}
}

func (f *paymentFixture) settled() bool {
	var open int
	err := f.db.Pool().QueryRow(f.t.Context(),
		`SELECT count(*) FROM sandbox_payment_notices WHERE delivered_at IS NULL`).Scan(&open)
	return err == nil && open == 0
}

func (f *paymentFixture) check(balance money.Cents, posts int) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	b, err := f.wallets.Balance(f.t.Context(), f.db.Read(), "cli_1")
	if err != nil || b.Balance != balance || f.posts != posts || f.failure != nil {
		f.t.Errorf("balance %d, posts %d, want %d and %d; %v %v", b.Balance, f.posts, balance, posts, err, f.failure)
	}
	if findings, err := books.Verify(f.t.Context(), f.db.Read()); err != nil || len(findings) > 0 {
		f.t.Errorf("books: %v %v", findings, err)
	}
}

func TestPayingCreditsThroughASignedNotice(t *testing.T) {
	t.Parallel()
	f := newPaymentFixture(t)
	p := f.provider()
	f.run(p)
	paid, cancelled := f.session(2000), f.session(3000)
	if err := errors.Join(f.click(p.Pay, paid), f.click(p.Cancel, cancelled)); err != nil {
		t.Fatal(err)
	}
	f.until("session paid", f.is(paid, payment.Paid))
	f.until("session cancelled", f.is(cancelled, payment.Cancelled))
	f.until("notices settled", f.settled)
	f.check(2000, 2)
}

// Failures, redirects (which are not followed) and lost responses only delay a notice, each time longer.
func TestNoticesAreRepeatedUntilAccepted(t *testing.T) {
	t.Parallel()
	f := newPaymentFixture(t)
	p := f.provider()
	f.answers = []int{500, 302, 409}
	s := f.session(2000)
	if err := f.click(p.Pay, s); err != nil {
		t.Fatal(err)
	}
	var pauses []time.Duration
	for range 3 {
		if n, err := p.post(t.Context()); n != 1 || err != nil {
			t.Fatalf("posted %d, %v", n, err)
		}
		var due time.Time
		if err := f.db.Pool().QueryRow(t.Context(), `SELECT due_at FROM sandbox_payment_notices`).
			Scan(&due); err != nil {
			t.Fatal(err)
		}
		d := due.Sub(f.clock.Now())
		f.clock.Advance(d - time.Microsecond)
		if n, err := p.post(t.Context()); n != 0 || err != nil {
			t.Fatalf("posted %d before its time, %v", n, err)
		}
		f.clock.Advance(time.Microsecond)
		pauses = append(pauses, d)
	}
	if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}; fmt.Sprint(pauses) != fmt.Sprint(want) {
		t.Errorf("pauses %v, want %v", pauses, want)
	}
	if n, err := p.post(t.Context()); n != 1 || err != nil {
		t.Fatalf("posted %d, %v", n, err)
	}
	if !f.settled() {
		t.Error("accepted and not settled")
	}
	f.check(2000, 4)
}

// A decision is reported by any process that runs later, even if another one died during an attempt.
func TestNoticesSurviveARestart(t *testing.T) {
	t.Parallel()
	f := newPaymentFixture(t)
	first := f.provider()
	waiting, halfway := f.session(2000), f.session(3000)
	if err := f.click(first.Pay, halfway); err != nil {
		t.Fatal(err)
	}
	if due, err := claimNotices(t.Context(), f.db.Read(), noticeBatch, noticeLease); err != nil || len(due) != 1 {
		t.Fatalf("claimed %v, %v", due, err)
	}
	if err := f.click(first.Pay, waiting); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(noticeLease)
	f.run(f.provider())
	f.until("both credited", f.settled)
	f.check(5000, 2)
}

// Processes share the notices. A process neither takes nor waits for a notice that another is claiming.
func TestProcessesShareTheNotices(t *testing.T) {
	t.Parallel()
	f := newPaymentFixture(t)
	p := f.provider()
	const sessions = 40
	for range sessions {
		if err := f.click(p.Pay, f.session(2000)); err != nil {
			t.Fatal(err)
		}
	}
	claimed := map[string]int{}
	err := f.db.InTx(t.Context(), func(tx postgres.Tx) error {
		mine, err := claimNotices(t.Context(), tx, noticeBatch, noticeLease)
		if err != nil {
			return err
		}
		others, err := claimNotices(t.Context(), f.db.Read(), noticeBatch, noticeLease)
		for _, n := range append(mine, others...) {
			claimed[n.ID]++
		}
		return err
	})
	if err != nil || len(claimed) != 2*noticeBatch {
		t.Fatalf("%d notices claimed by two processes, want %d: %v", len(claimed), 2*noticeBatch, err)
	}
	f.clock.Advance(noticeLease)
	f.run(f.provider())
	f.run(f.provider())
	f.until("all credited", f.settled)
	f.check(sessions*2000, sessions)
}

func TestACheckoutIsDecidedOnce(t *testing.T) {
	t.Parallel()
	f := newPaymentFixture(t)
	p := f.provider()
	s := f.session(2000)
	for i, c := range []struct {
		do   click
		want error
	}{{p.Pay, nil}, {p.Pay, nil}, {p.Cancel, ErrDecided}} {
		if err := f.click(c.do, s); !errors.Is(err, c.want) {
			t.Errorf("click %d: %v, want %v", i, err, c.want)
		}
	}
	if kind, ok, err := p.Decision(t.Context(), f.db.Read(), s.ID); kind != payment.CheckoutPaid || !ok || err != nil {
		t.Errorf("decision %s %v %v", kind, ok, err)
	}
	if _, ok, err := p.Decision(t.Context(), f.db.Read(), f.session(2000).ID); ok || err != nil {
		t.Errorf("decision about an undecided session: %v %v", ok, err)
	}
}

// The later of two concurrent clicks learns the decision of the earlier one.
func TestSimultaneousClicks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		later func(*Payments) click
		want  error
	}{
		"pay twice":        {func(p *Payments) click { return p.Pay }, nil},
		"pay, then cancel": {func(p *Payments) click { return p.Cancel }, ErrDecided},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newPaymentFixture(t)
			p, s := f.provider(), f.session(2000)
			later := make(chan error, 1)
			err := f.db.InTx(t.Context(), func(tx postgres.Tx) error {
				if err := p.Pay(t.Context(), tx, s.ID); err != nil {
					return err
				}
				go func() { later <- f.click(c.later(p), s) }()
				dbtest.AwaitWaiters(t, f.db, 1)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := <-later; !errors.Is(err, c.want) {
				t.Errorf("later click: %v, want %v", err, c.want)
			}
			f.run(p)
			f.until("credited", f.is(s, payment.Paid))
			f.until("settled", f.settled)
			f.check(2000, 1)
		})
	}
}

func TestPayRefusals(t *testing.T) {
	t.Parallel()
	f := newPaymentFixture(t)
	p := f.provider()
	expired := f.session(2000)
	f.clock.Advance(time.Hour)
	for _, do := range []click{p.Pay, p.Cancel} {
		if err := f.click(do, expired); !errors.Is(err, payment.ErrSessionClosed) {
			t.Errorf("expired: %v", err)
		}
	}
	tooMuch := f.session(100_000)
	err := f.db.InTx(t.Context(),
		func(tx postgres.Tx) error { return f.wallets.Adjust(t.Context(), tx, "cli_1", 150_000, "Gift") })
	if err != nil {
		t.Fatal(err)
	}
	if err := f.click(p.Pay, tooMuch); !errors.Is(err, payment.ErrWalletLimitExceeded) {
		t.Errorf("above the ceiling: %v", err)
	}
	if err := f.click(p.Cancel, tooMuch); err != nil {
		t.Errorf("cancel above the ceiling: %v", err)
	}
}

func TestPauseGrowsToAMinute(t *testing.T) {
	t.Parallel()
	for attempt, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 1 << 40: time.Minute,
	} {
		if got := noticePause(attempt); got != want {
			t.Errorf("after attempt %d: %v, want %v", attempt, got, want)
		}
	}
}

// H29: of several checkout pages paid at the same time, only as many succeed as the wallet may hold. Rejected ones take
// no money.
func TestPagesPaidAtOnceDoNotPassTheCeiling(t *testing.T) {
	t.Parallel()
	f := newPaymentFixture(t)
	p := f.provider()
	err := f.db.InTx(t.Context(),
		func(tx postgres.Tx) error { return f.wallets.Adjust(t.Context(), tx, "cli_1", 100_000, "Gift") })
	if err != nil {
		t.Fatal(err)
	}
	pages := []payment.Session{f.session(100_000), f.session(100_000), f.session(100_000)}
	answers := make([]error, len(pages))
	var all sync.WaitGroup
	for i, s := range pages {
		all.Go(func() { answers[i] = f.click(p.Pay, s) })
	}
	all.Wait()
	paid := slices.Index(answers, nil)
	for i, err := range answers {
		if i != paid && !errors.Is(err, payment.ErrWalletLimitExceeded) {
			t.Errorf("page %d: %v", i, err)
		}
	}
	if paid < 0 {
		t.Fatal("none went through")
	}
	f.clock.Advance(2 * time.Hour) // the money is taken, however long its notice takes
	late := f.session(2000)
	if err := f.click(p.Pay, late); !errors.Is(err, payment.ErrWalletLimitExceeded) {
		t.Errorf("while the notice is on its way: %v", err)
	}
	if err := f.click(p.Pay, pages[paid]); err != nil {
		t.Errorf("the same page again: %v", err)
	}
	f.run(p)
	f.until("credited", f.is(pages[paid], payment.Paid))
	f.until("settled", f.settled)
	f.check(200_000, 1)
}
