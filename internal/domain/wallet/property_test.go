package wallet_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

// Every step takes several round trips and a check of the whole ledger. Unless set on the command line, run fewer but
// longer histories.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = flag.Set("rapid.checks", "20")
	}
	os.Exit(m.Run())
}

// model is the expected state of the wallets, in memory.
type model struct {
	clients       []*modelClient
	consultations []*modelConsultation
	topups        []*modelTopUp
}

type modelClient struct {
	id              string
	available, held money.Cents
	history         []wallet.Transaction // oldest first, without IDs
}

type modelConsultation struct {
	id, state string
	client    *modelClient
	price     money.Cents
	refunded  bool
}

type modelTopUp struct {
	id     string
	client *modelClient
	amount money.Cents
}

func (c *modelClient) moved(now time.Time, kind wallet.Type, amount, available, held money.Cents,
	consultation, description string,
) {
	c.available += available
	c.held += held
	tx := wallet.Transaction{
		Type: kind, Seq: int64(len(c.history) + 1), Amount: amount, BalanceAfter: c.available + c.held,
		AvailableAfter: c.available, ConsultationID: consultation, Description: description, CreatedAt: now,
	}
	if kind != wallet.Adjustment {
		tx.ApplicationID = application
	}
	if n := len(c.history); n > 0 && c.history[n-1].CreatedAt.After(now) {
		tx.CreatedAt = c.history[n-1].CreatedAt
	}
	c.history = append(c.history, tx)
}

// Whatever happens to wallets, they match a simple model, and the ledger stays sound after every step.
func TestWalletsFollowTheModel(t *testing.T) {
	f := newFixture(t)
	dearer := wallet.NewWithFees(3100, 400) // a release with another price
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{}
		for range 3 {
			m.clients = append(m.clients, &modelClient{id: f.client()})
		}
		h := history{f: f, m: m, dearer: dearer}
		rt.Repeat(map[string]func(*rapid.T){
			"top up":       h.topUp,
			"top up again": h.topUpAgain,
			"hold":         h.hold,
			"release":      h.release,
			"capture":      h.capture,
			"refund":       h.refund,
			"adjust":       h.adjust,
			"move the time": func(rt *rapid.T) {
				f.clock.Advance(time.Duration(rapid.IntRange(-5, 60).Draw(rt, "seconds")) * time.Second)
			},
			"": h.check,
		})
	})
}

type history struct {
	f      *fixture
	m      *model
	dearer *wallet.Service
}

func (h history) want(rt *rapid.T, got, want error) {
	if !errors.Is(got, want) {
		rt.Fatalf("error %v, want %v", got, want)
	}
}

func (h history) topUp(rt *rapid.T) {
	c := rapid.SampledFrom(h.m.clients).Draw(rt, "client")
	top := &modelTopUp{client: c, amount: money.Cents(rapid.IntRange(1, 5000).Draw(rt, "amount"))}
	top.id = h.f.session(c.id, top.amount)
	h.credit(rt, top)
	h.m.topups = append(h.m.topups, top)
	c.moved(h.f.clock.Now(), wallet.TopUp, top.amount, top.amount, 0, "", "Top-up")
}

func (h history) topUpAgain(rt *rapid.T) {
	if len(h.m.topups) == 0 {
		rt.Skip("none yet")
	}
	h.credit(rt, rapid.SampledFrom(h.m.topups).Draw(rt, "top-up"))
}

func (h history) credit(rt *rapid.T, top *modelTopUp) {
	h.want(rt, h.f.db.InTx(h.f.t.Context(), func(tx postgres.Tx) error {
		return h.f.wallets.TopUp(h.f.t.Context(), tx, top.client.id, application, top.id, top.amount)
	}), nil)
}

func (h history) hold(rt *rapid.T) {
	c := rapid.SampledFrom(h.m.clients).Draw(rt, "client")
	s, price := h.f.wallets, money.Cents(2000)
	if rapid.Bool().Draw(rt, "dearer") {
		s, price = h.dearer, 3500
	}
	con := &modelConsultation{id: h.f.next("con"), state: "ACTIVE", client: c, price: price}
	err := h.f.hold(s, c.id, con.id, price)
	if c.available < price {
		h.want(rt, err, wallet.ErrInsufficientFunds)
		return
	}
	h.want(rt, err, nil)
	h.m.consultations = append(h.m.consultations, con)
	c.moved(h.f.clock.Now(), wallet.Hold, -price, -price, price, con.id, "Consultation reserved")
}

func (h history) any(rt *rapid.T) *modelConsultation {
	if len(h.m.consultations) == 0 {
		rt.Skip("none yet")
	}
	return rapid.SampledFrom(h.m.consultations).Draw(rt, "consultation")
}

func (h history) release(rt *rapid.T) {
	con := h.any(rt)
	err := h.f.release(con.id)
	if con.state != "ACTIVE" {
		h.want(rt, err, wallet.ErrHoldEnded)
		return
	}
	h.want(rt, err, nil)
	con.state = "RELEASED"
	con.client.moved(h.f.clock.Now(), wallet.Release, con.price, con.price, -con.price, con.id, "Reservation released")
}

func (h history) capture(rt *rapid.T) {
	con := h.any(rt)
	err := h.f.capture(con.id)
	if con.state != "ACTIVE" {
		h.want(rt, err, wallet.ErrHoldEnded)
		return
	}
	h.want(rt, err, nil)
	con.state = "CAPTURED"
	con.client.moved(h.f.clock.Now(), wallet.Capture, -con.price, 0, -con.price, con.id, "Consultation")
}

func (h history) refund(rt *rapid.T) {
	con := h.any(rt)
	amount := money.Cents(rapid.IntRange(0, 4000).Draw(rt, "amount"))
	err := h.f.refund(con.id, amount)
	switch {
	case amount == 0:
		h.want(rt, err, wallet.ErrAmount)
	case con.state != "CAPTURED" || con.refunded || amount > con.price:
		h.want(rt, err, wallet.ErrNotRefundable)
	default:
		h.want(rt, err, nil)
		con.refunded = true
		con.client.moved(h.f.clock.Now(), wallet.Refund, amount, amount, 0, con.id, "Refund")
	}
}

func (h history) adjust(rt *rapid.T) {
	c := rapid.SampledFrom(h.m.clients).Draw(rt, "client")
	amount := money.Cents(rapid.IntRange(-3000, 3000).Draw(rt, "amount"))
	err := h.f.db.InTx(h.f.t.Context(), func(tx postgres.Tx) error {
		return h.f.wallets.Adjust(h.f.t.Context(), tx, c.id, amount, "Correction")
	})
	switch {
	case amount == 0:
		h.want(rt, err, wallet.ErrAmount)
	case c.available+amount < 0:
		h.want(rt, err, wallet.ErrInsufficientFunds)
	default:
		h.want(rt, err, nil)
		c.moved(h.f.clock.Now(), wallet.Adjustment, amount, amount, 0, "", "Correction")
	}
}

// check compares every wallet with the model, page by page, and verifies the ledger.
func (h history) check(rt *rapid.T) {
	ctx, tx := h.f.t.Context(), h.f.db.Read()
	for _, c := range h.m.clients {
		var held money.Cents
		for _, con := range h.m.consultations {
			if con.client == c && con.state == "ACTIVE" {
				held += con.price
			}
		}
		b, err := h.f.wallets.Balance(ctx, tx, c.id)
		if want := (wallet.Balance{Balance: c.available + held, Available: c.available, Held: held}); err != nil ||
			b != want {
			rt.Fatalf("balance %+v, %v; want %+v", b, err, want)
		}
		if b.Available < 0 || b.Available != b.Balance-b.Held {
			rt.Fatalf("impossible balance %+v", b)
		}
		limit := rapid.IntRange(1, 12).Draw(rt, "page")
		var got []wallet.Transaction
		for before, more := int64(0), true; more; {
			var page []wallet.Transaction
			if page, more, err = h.f.wallets.Transactions(ctx, tx, c.id, before, limit); err != nil {
				rt.Fatal(err)
			}
			if len(page) > limit || more && len(page) < limit {
				rt.Fatalf("page of %d with limit %d, more %v", len(page), limit, more)
			}
			if got = append(got, page...); more {
				before = page[len(page)-1].Seq
			}
		}
		slices.Reverse(got)
		for i := range got {
			if got[i].ID == "" {
				rt.Fatal("transaction without an identifier")
			}
			got[i].ID = ""
		}
		if g, w := fmt.Sprint(got), fmt.Sprint(c.history); g != w {
			rt.Fatalf("history\n%s\nwant\n%s", g, w)
		}
	}
	if findings, err := wallet.Verify(ctx, tx); err != nil || len(findings) > 0 {
		rt.Fatalf("books: %v %v", findings, err)
	}
}
