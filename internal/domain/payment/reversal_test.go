package payment

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/money"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

func (f *fixture) reversed(id string) string {
	f.t.Helper()
	s, err := f.payments.Get(f.t.Context(), f.db.Read(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return fmt.Sprintf("%d of %d", int64(s.Reversed.Taken), int64(s.Reversed.Taken+s.Reversed.Uncovered))
}

// spend takes money out of the wallet, as if it had been used.
func (f *fixture) spend(cents int64) {
	f.t.Helper()
	err := f.db.InTx(f.t.Context(), func(tx postgres.Tx) error {
		return f.wallets.Adjust(f.t.Context(), tx, client, moneyOf(-cents), "spent")
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// permutations calls with for every order of n items.
func permutations(n int, with func(order []int)) {
	var extend func(order []int)
	extend = func(order []int) {
		if len(order) == n {
			with(order)
			return
		}
	next:
		for i := range n {
			for _, taken := range order {
				if taken == i {
					continue next
				}
			}
			extend(append(order[:len(order):len(order)], i))
		}
	}
	extend(nil)
}

// Whatever Stripe reports of a payment of 50.00, in any order and any number of times, the wallet gives what Stripe
// keeps, once.
func TestReversalsInEveryOrder(t *testing.T) {
	t.Parallel()
	type events = func(s *standIn, c *stripeSession) [][]byte
	for name, c := range map[string]struct {
		events  events
		balance int64
		want    string
	}{
		"disputed": {func(s *standIn, c *stripeSession) [][]byte {
			return [][]byte{s.dispute("e1", "created", c, 5000, "needs_response"),
				s.dispute("e2", "funds_withdrawn", c, 5000, "needs_response"),
				s.dispute("e3", "updated", c, 5000, "under_review")}
		}, 0, "5000 of 5000"},
		"disputed and lost": {func(s *standIn, c *stripeSession) [][]byte {
			return [][]byte{s.dispute("e1", "created", c, 2000, "needs_response"),
				s.dispute("e2", "closed", c, 2000, "lost")}
		}, 3000, "2000 of 2000"},
		"disputed and won": {func(s *standIn, c *stripeSession) [][]byte {
			return [][]byte{s.dispute("e1", "created", c, 5000, "needs_response"),
				s.dispute("e2", "closed", c, 5000, "won"), s.dispute("e3", "funds_reinstated", c, 5000, "won")}
		}, 5000, "0 of 0"},
		"reinstated": {func(s *standIn, c *stripeSession) [][]byte {
			return [][]byte{s.dispute("e1", "funds_withdrawn", c, 5000, "under_review"),
				s.dispute("e2", "funds_reinstated", c, 5000, "under_review")}
		}, 5000, "0 of 0"},
		"a question only": {func(s *standIn, c *stripeSession) [][]byte {
			return [][]byte{s.dispute("e1", "created", c, 5000, "warning_needs_response"),
				s.dispute("e2", "closed", c, 5000, "warning_closed")}
		}, 5000, "0 of 0"},
		"refunded at Stripe": {func(s *standIn, c *stripeSession) [][]byte {
			return [][]byte{s.refundEvent("e1", "refund.created", "re_a", c, 2000, "pending", ""),
				s.chargeRefunded("e2", c, 2000), s.refundEvent("e3", "refund.updated", "re_a", c, 2000,
					"succeeded", "")}
		}, 3000, "2000 of 2000"},
		"refunded at Stripe in two parts": {func(s *standIn, c *stripeSession) [][]byte {
			return [][]byte{s.refundEvent("e1", "refund.created", "re_a", c, 2000, "succeeded", ""),
				s.chargeRefunded("e2", c, 2000), s.refundEvent("e3", "refund.created", "re_b", c, 1000,
					"succeeded", ""), s.chargeRefunded("e4", c, 3000)}
		}, 2000, "3000 of 3000"},
		"only the sum is told": {func(s *standIn, c *stripeSession) [][]byte {
			return [][]byte{s.chargeRefunded("e1", c, 1000), s.chargeRefunded("e2", c, 2500)}
		}, 2500, "2500 of 2500"},
		"a refund at Stripe that fails": {func(s *standIn, c *stripeSession) [][]byte {
			return [][]byte{s.refundEvent("e1", "refund.created", "re_a", c, 2000, "pending", ""),
				s.chargeRefunded("e2", c, 2000), s.refundEvent("e3", "refund.failed", "re_a", c, 2000, "failed", "")}
		}, 5000, "0 of 0"},
		"refunded and disputed": {func(s *standIn, c *stripeSession) [][]byte {
			return [][]byte{s.chargeRefunded("e1", c, 1000), s.dispute("e2", "funds_withdrawn", c, 4000,
				"needs_response")}
		}, 0, "5000 of 5000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := withStripe(t)
			template := stripeSession{ID: "cs_test_1", Intent: "pi_1", Amount: 5000}
			permutations(len(c.events(s, &template)), func(order []int) {
				session := f.session(5000)
				at := &stripeSession{ID: "cs_" + session.ID, Intent: "pi_" + session.ID, Amount: 5000,
					Reference: session.ID}
				tell := func(e []byte) {
					// Each case starts from scratch, so events and objects get unique names.
					e = []byte(strings.ReplaceAll(strings.ReplaceAll(string(e), `{"id": "e`,
						`{"id": "evt_`+session.ID+`_`), `"re_`, `"re_`+session.ID))
					if err := f.post(e); err != nil {
						t.Fatal(err)
					}
				}
				tell(s.pay(at, "e0"))
				for range 2 {
					for _, i := range order {
						tell(c.events(s, at)[i])
					}
				}
				if f.balance() != moneyOf(c.balance) || f.reversed(session.ID) != c.want {
					t.Errorf("order %v: balance %d, %s taken", order, f.balance(), f.reversed(session.ID))
				}
				if c.balance != 0 {
					f.spend(c.balance)
				}
			})
			f.sound()
			if list, err := f.payments.Incidents(t.Context(), f.db.Read(), 100); err != nil || len(list) == 0 ||
				list[0].PaymentRef == "" {
				t.Errorf("incidents %+v, %v", list, err)
			}
			if !strings.Contains(f.log.String(), `level=ERROR msg="payment incident"`) {
				t.Errorf("log %s", f.log)
			}
		})
	}
}

// Spent money cannot be taken. The wallet never goes below zero, and the incident reports the rest. A later update of
// the same dispute takes no money that arrived in the meantime.
func TestAReversalTakesWhatIsLeft(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	session := f.session(5000)
	f.open(session.ID)
	c := s.only()
	if err := f.post(s.pay(c, "evt_1")); err != nil {
		t.Fatal(err)
	}
	// the consultation of the hold does not matter here
	if _, err := dbtest.Owner(t, f.db).Pool().Exec(t.Context(),
		`ALTER TABLE holds DROP CONSTRAINT holds_consultation_id_fkey`); err != nil {
		t.Fatal(err)
	}
	hold := wallet.HoldCommand{ClientID: client, ApplicationID: application, ConsultationID: "con_1", Amount: 2000}
	if err := f.db.InTx(t.Context(),
		func(tx postgres.Tx) error { return f.wallets.Hold(t.Context(), tx, hold) }); err != nil {
		t.Fatal(err)
	}
	f.spend(1800)
	if err := f.post(s.dispute("evt_2", "created", c, 5000, "needs_response")); err != nil {
		t.Fatal(err)
	}
	if b := f.balance(); b != 2000 || f.reversed(session.ID) != "1200 of 5000" {
		t.Fatalf("balance %d, %s", b, f.reversed(session.ID))
	}
	list, err := f.payments.Incidents(t.Context(), f.db.Read(), 1)
	if err != nil || len(list) != 1 || list[0].Outcome != Disputed || list[0].SessionID != session.ID ||
		list[0].Taken != 1200 || list[0].Uncovered != 3800 {
		t.Errorf("incident %+v, %v", list, err)
	}
	if _, err := f.refund(RefundCommand{}); err == nil {
		t.Error("disputed money was sent back, too")
	}
	if err := f.db.InTx(t.Context(),
		func(tx postgres.Tx) error { return f.wallets.Release(t.Context(), tx, "con_1") }); err != nil {
		t.Fatal(err)
	}
	if err := f.post(s.dispute("evt_3", "updated", c, 5000, "under_review")); err != nil || f.balance() != 2000 {
		t.Errorf("a later word: %v, balance %d", err, f.balance())
	}
	if err := f.post(s.dispute("evt_4", "funds_reinstated", c, 5000, "won")); err != nil || f.balance() != 3200 ||
		f.reversed(session.ID) != "0 of 0" {
		t.Errorf("reinstated: %v, balance %d, %s", err, f.balance(), f.reversed(session.ID))
	}
	items, _, err := f.wallets.Transactions(t.Context(), f.db.Read(), client, 0, 10)
	if err != nil || items[0].Type != wallet.Adjustment || items[0].Description != "Payment restored by the bank" ||
		items[0].Amount != 1200 {
		t.Errorf("movement %+v, %v", items[0], err)
	}
}

// Stripe may report the dispute before the payment.
func TestAReversalBeforeItsPayment(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	session := f.session(5000)
	f.open(session.ID)
	c := s.only()
	paid := s.pay(c, "evt_2")
	if err := f.post(s.dispute("evt_1", "funds_withdrawn", c, 5000, "needs_response")); err != nil {
		t.Fatal(err)
	}
	if f.outcomes() != "evt_1 unknown_payment" {
		t.Errorf("outcomes %q", f.outcomes())
	}
	if err := f.post(paid); err != nil || f.balance() != 0 || f.reversed(session.ID) != "5000 of 5000" {
		t.Errorf("then paid: %v, balance %d, %s", err, f.balance(), f.reversed(session.ID))
	}
	f.sound()
}

// Stripe also reports our own refunds, which take nothing a second time. A failed one is an incident.
func TestOurRefundsAreNoReversals(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	session := f.session(5000)
	f.open(session.ID)
	c := s.only()
	if err := f.post(s.pay(c, "evt_1")); err != nil {
		t.Fatal(err)
	}
	parts, err := f.refund(RefundCommand{Amount: 2000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range [][]byte{ // before and after Stripe's response is known here
		s.refundEvent("evt_2", "refund.created", "re_1", c, 2000, "pending", parts[0].ID),
		s.chargeRefunded("evt_3", c, 2000),
	} {
		if err := f.post(e); err != nil {
			t.Fatal(err)
		}
	}
	f.sendRefunds(1)
	if f.outcomes() != "evt_1 credited, evt_2 refund_confirmed, evt_3 refund_confirmed" || f.balance() != 3000 ||
		f.reversed(session.ID) != "0 of 0" {
		t.Errorf("outcomes %q, balance %d, %s", f.outcomes(), f.balance(), f.reversed(session.ID))
	}
	if strings.Contains(f.log.String(), "ERROR") {
		t.Errorf("log %s", f.log)
	}
	f.clock.Advance(24 * time.Hour)
	if err := f.post(s.chargeRefunded("evt_4", c, 2500)); err != nil || f.balance() != 2500 ||
		f.reversed(session.ID) != "500 of 500" {
		t.Errorf("somebody refunded more: %v, balance %d, %s", err, f.balance(), f.reversed(session.ID))
	}
	f.sound()
	if err := f.post(s.refundEvent("evt_5", "refund.failed", "re_1", c, 2000, "failed", parts[0].ID)); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(f.refunds(), "2000 FAILED") || !strings.Contains(f.outcomes(), "evt_5 refund_failed") ||
		f.balance() != 2500 {
		t.Errorf("failed: %q, %q, balance %d", f.refunds(), f.outcomes(), f.balance())
	}
}

// Concurrent notices about one payment, among other movements of the wallet, are exact and never go below zero.
func TestReversalsAtOnce(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	session := f.session(5000)
	f.open(session.ID)
	c := s.only()
	events := [][]byte{s.pay(c, "evt_0"), s.dispute("evt_1", "created", c, 3000, "needs_response"),
		s.dispute("evt_2", "funds_withdrawn", c, 3000, "needs_response"),
		s.refundEvent("evt_3", "refund.created", "re_1", c, 1000, "succeeded", ""), s.chargeRefunded("evt_4", c, 1000)}
	all := append(append([][]byte{}, events...), events...)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var wg sync.WaitGroup
	for _, e := range all {
		wg.Go(func() {
			if err := f.post(e); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if f.balance() != 1000 || f.reversed(session.ID) != "4000 of 4000" {
		t.Errorf("balance %d, %s", f.balance(), f.reversed(session.ID))
	}
	f.sound()
}

// A dispute in another currency, or of an unknown payment, moves nothing and is an incident.
func TestReversalsThatFitNothing(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	session := f.session(5000)
	f.open(session.ID)
	c := s.only()
	if err := f.post(s.pay(c, "evt_1")); err != nil {
		t.Fatal(err)
	}
	other := &stripeSession{ID: "cs_other", Intent: "pi_other", Amount: 900}
	foreign := strings.Replace(string(s.dispute("evt_2", "created", c, 5000, "needs_response")), `"eur"`, `"usd"`, 1)
	nameless := strings.Replace(string(s.dispute("evt_4", "created", other, 900, "needs_response")),
		`"payment_intent":"pi_other"`, `"payment_intent":null`, 1)
	for _, e := range [][]byte{[]byte(foreign), s.chargeRefunded("evt_3", other, 900), []byte(nameless)} {
		if err := f.post(e); err != nil {
			t.Fatal(err)
		}
	}
	if f.outcomes() != "evt_1 credited, evt_2 currency_mismatch, evt_3 unknown_payment, evt_4 unknown_payment" ||
		f.balance() != 5000 {
		t.Errorf("outcomes %q, balance %d", f.outcomes(), f.balance())
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(f.payments.Collector())
	families, err := registry.Gather()
	if err != nil || len(families) != 3 || families[0].GetName() != "partnerd_payment_incidents_total" {
		t.Fatalf("%v, %v", families, err)
	}
	counts := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		counts[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	if len(counts) != len(incidentOutcomes) || counts["unknown_payment"] != 2 || counts["currency_mismatch"] != 1 ||
		counts["disputed"] != 0 {
		t.Errorf("counts %v", counts)
	}
	if err := f.post(s.event("evt_5", "payment_intent.succeeded", c)); err != nil ||
		!strings.Contains(f.log.String(), "payment_intent.succeeded") {
		t.Errorf("an event of no concern is not in the log: %v\n%s", err, f.log)
	}
}

// A payment to a client whose account is closed is an incident and is refunded automatically.
func TestAPaymentToAClosedAccountGoesBack(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	session := f.session(5000)
	f.open(session.ID)
	if _, err := f.db.Pool().Exec(t.Context(), `UPDATE clients SET disabled_at = now()`); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.post(s.pay(s.only(), "evt_1")); err != nil {
			t.Fatal(err)
		}
	}
	if f.outcomes() != "evt_1 credited_to_closed" || f.balance() != 0 || f.refunds() != "5000 PENDING 0" ||
		f.status(session.ID) != Paid {
		t.Errorf("outcomes %q, balance %d, refunds %q, %s", f.outcomes(), f.balance(), f.refunds(),
			f.status(session.ID))
	}
	if !strings.Contains(f.log.String(), "credited_to_closed") {
		t.Errorf("log %s", f.log)
	}
	f.sendRefunds(1)
	if s.refunded["pi_1"] != 5000 {
		t.Errorf("at Stripe %v", s.refunded)
	}
	f.sound()
}

// One condition decides whether a payment is under way: what counts against the ceiling also blocks an erasure.
func TestUnderWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		course func(f *fixture, s *standIn, session Session)
		want   bool
	}{
		"made":             {func(*fixture, *standIn, Session) {}, true},
		"its hour is over": {func(f *fixture, _ *standIn, _ Session) { f.clock.Advance(time.Hour) }, false},
		"the page still takes": {func(f *fixture, _ *standIn, session Session) {
			f.clock.Advance(45 * time.Minute)
			f.open(session.ID)
			f.clock.Advance(30 * time.Minute)
		}, true},
		"the page is over, too": {func(f *fixture, _ *standIn, session Session) {
			f.clock.Advance(45 * time.Minute)
			f.open(session.ID)
			f.clock.Advance(31 * time.Minute)
		}, false},
		"a bank debit": {func(f *fixture, s *standIn, session Session) {
			f.open(session.ID)
			s.only().Status = "complete"
			_ = f.post(s.event("evt_1", "checkout.session.completed", s.only()))
			f.clock.Advance(72 * time.Hour)
		}, true},
		"a refund on its way": {func(f *fixture, s *standIn, session Session) {
			f.open(session.ID)
			_ = f.post(s.pay(s.only(), "evt_1"))
			_, _ = f.refund(RefundCommand{})
		}, true},
		"a refund that arrived": {func(f *fixture, s *standIn, session Session) {
			f.open(session.ID)
			_ = f.post(s.pay(s.only(), "evt_1"))
			_, _ = f.refund(RefundCommand{})
			f.sendRefunds(1)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := withStripe(t)
			c.course(f, s, f.session(5000))
			got, err := f.payments.UnderWay(t.Context(), f.db.Read(), client)
			if err != nil || got != c.want {
				t.Errorf("under way: %v, %v", got, err)
			}
		})
	}
}

func TestSettledReversals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ taken, uncovered, due, available, most, want, rest money.Cents }{
		{0, 0, 0, 900, 1000, 0, 0},
		{0, 0, 500, 900, 1000, 500, 0},
		{0, 0, 500, 0, 1000, 0, 500},
		{0, 0, 500, 300, 1000, 300, 200},
		{300, 200, 500, 900, 1000, 300, 200},
		{300, 200, 800, 900, 1000, 800, 0},
		{300, 200, 400, 900, 1000, 300, 100},
		{300, 200, 100, 900, 1000, 100, 0},
		{300, 200, 0, 0, 1000, 0, 0},
		{0, 0, 5000, 9000, 1000, 1000, 4000},
		{0, 0, 1000, 9000, 600, 600, 400},
		{1000, 4000, 6000, 9000, 1000, 1000, 5000},
		{1000, 4000, 400, 9000, 1000, 400, 0},
		{0, 0, 500, 900, 0, 0, 500},
	} {
		if got := (Reversed{c.taken, c.uncovered}).settled(c.due,
			c.available, c.most); got != (Reversed{c.want, c.rest}) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// Whatever the provider reports of a payment, in any order, and whatever we refund of it: at most the payment leaves
// the wallet. The client's other money stays, and the missing amount is an incident.
func TestNoMoreThanThePaymentLeavesTheWallet(t *testing.T) {
	t.Parallel()
	const paid, other = 5000, 9000
	for seed := range uint64(12) {
		f, s := withStripe(t)
		r := rand.New(rand.NewPCG(seed, 25))
		kept := f.session(other)
		if err := f.post(s.pay(&stripeSession{ID: "cs_kept", Intent: "pi_kept", Amount: other, Reference: kept.ID},
			"evt_kept")); err != nil {
			t.Fatal(err)
		}
		session := f.session(paid)
		c := &stripeSession{ID: "cs_1", Intent: "pi_1", Amount: paid, Reference: session.ID}
		if err := f.post(s.pay(c, "evt_paid")); err != nil {
			t.Fatal(err)
		}
		ours := money.Cents(0)
		for i := range 8 {
			id, cents := fmt.Sprintf("evt_%d", i), 1+r.Int64N(3*paid)
			ref, status := fmt.Sprintf("re_%d", r.IntN(3)), []string{"succeeded", "succeeded", "failed"}[r.IntN(3)]
			var event []byte
			switch r.IntN(5) {
			case 0:
				event = s.dispute(id, "created", c, cents, "needs_response")
			case 1:
				event = s.dispute(id, "closed", c, cents, []string{"won", "lost"}[r.IntN(2)])
			case 2:
				event = s.refundEvent(id, "refund.updated", ref, c, cents, status, "")
			case 3:
				event = s.chargeRefunded(id, c, cents)
			default:
				amount := 1 + money.Cents(r.Int64N(paid))
				if _, err := f.refund(RefundCommand{TopUpID: session.ID, Amount: amount}); err == nil {
					ours += amount
				}
			}
			if event != nil {
				if err := f.post(event); err != nil {
					t.Fatal(err)
				}
			}
			now, err := f.payments.Get(t.Context(), f.db.Read(), session.ID)
			if err != nil {
				t.Fatal(err)
			}
			if left := now.Reversed.Taken + ours; left > paid || f.balance() != other+paid-left {
				t.Fatalf("seed %d, step %d: %d left the wallet for %d, of them %d by us; balance %d",
					seed, i, left, paid, ours, f.balance())
			}
		}
		f.sound()
	}
}

// A dispute of more than was paid, or of what we had refunded, takes what is left of the payment. The rest is reported.
func TestAReversalLargerThanItsPayment(t *testing.T) {
	t.Parallel()
	for name, refund := range map[string]money.Cents{"more than was paid": 0, "of what we refunded": 2000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := withStripe(t)
			session := f.session(5000)
			f.open(session.ID)
			c := s.only()
			kept := f.session(9000)
			for _, e := range [][]byte{
				s.pay(c, "evt_1"), s.pay(&stripeSession{ID: "cs_2", Intent: "pi_2", Amount: 9000, Reference: kept.ID},
					"evt_2"),
			} {
				if err := f.post(e); err != nil {
					t.Fatal(err)
				}
			}
			if refund > 0 {
				if _, err := f.refund(RefundCommand{TopUpID: session.ID, Amount: refund}); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.post(s.dispute("evt_3", "funds_withdrawn", c, 8000, "needs_response")); err != nil {
				t.Fatal(err)
			}
			taken := 5000 - refund
			if f.balance() != 9000 || f.reversed(session.ID) != fmt.Sprintf("%d of 8000", int64(taken)) {
				t.Errorf("balance %d, %s", f.balance(), f.reversed(session.ID))
			}
			list, err := f.payments.Incidents(t.Context(), f.db.Read(), 1)
			if err != nil || len(list) != 1 || list[0].Outcome != Disputed || list[0].Taken != taken ||
				list[0].Uncovered != 8000-taken {
				t.Errorf("incident %+v, %v", list, err)
			}
			if !strings.Contains(f.log.String(), `level=ERROR msg="payment incident" outcome=disputed`) {
				t.Errorf("log %s", f.log)
			}
			if err := f.post(s.dispute("evt_4", "closed", c, 8000, "won")); err != nil || f.balance() != 14_000-refund {
				t.Errorf("won: %v, balance %d", err, f.balance())
			}
			f.sound()
		})
	}
}
