package wallet_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// A manual correction moves money only together with its audit entry.
func TestCorrectionsAreAudited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client := f.funded(1000)
	correct := func(c wallet.Correction) error {
		return f.db.InTx(t.Context(), func(tx postgres.Tx) error { return f.wallets.Correct(t.Context(), tx, c) })
	}
	if err := correct(wallet.Correction{ClientID: client, Amount: -400, Actor: "cli:demo",
		Reason: "Charged back"}); err != nil {
		t.Fatal(err)
	}
	if err := correct(wallet.Correction{ClientID: client, Amount: 100, Actor: "cli:demo"}); !errors.Is(err,
		audit.ErrIncomplete) {
		t.Errorf("without a reason: %v", err)
	}
	if err := correct(wallet.Correction{ClientID: client, Amount: -601, Actor: "cli:demo",
		Reason: "Too much"}); !errors.Is(err, wallet.ErrInsufficientFunds) {
		t.Errorf("more than there is: %v", err)
	}
	entries, err := audit.List(t.Context(), f.db.Read(), "", 0, 10)
	if err != nil || len(entries) != 1 || entries[0].Subject != client || entries[0].Reason != "Charged back" ||
		f.balance(client).Balance != 600 {
		t.Errorf("balance %+v, audit %+v, %v", f.balance(client), entries, err)
	}
	f.sound()
}

// A monthly statement starts at the closing balance of the previous month, and its lines add up to its own closing
// balance.
func TestStatement(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client := f.funded(5000) // 1 March
	f.clock.Advance(40 * 24 * time.Hour)
	if err := errors.Join(f.hold(f.wallets, client, "con_1", 2000), f.capture("con_1"),
		f.refund("con_1", 500)); err != nil {
		t.Fatal(err)
	}
	f.must(func(tx postgres.Tx) error { return f.wallets.Adjust(t.Context(), tx, client, 25, "=1+1") })
	for month, want := range map[time.Month]struct {
		opening, closing int64
		lines            int
	}{time.February: {0, 0, 0}, time.March: {0, 5000, 1}, time.April: {5000, 3525, 4}, time.May: {3525, 3525, 0}} {
		st, err := f.wallets.Statement(t.Context(), f.db.Read(), client,
			time.Date(2026, month, 17, 12, 0, 0, 0, time.UTC))
		if err != nil || int64(st.Opening) != want.opening || int64(st.Closing) != want.closing ||
			len(st.Transactions) != want.lines {
			t.Errorf("%s: %d to %d, %d lines, %v", month, st.Opening, st.Closing, len(st.Transactions), err)
		}
		if month != time.April {
			continue
		}
		var text, table bytes.Buffer
		if err := errors.Join(st.WriteText(&text), st.WriteCSV(&table)); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{
			"April 2026", "Balance carried over", "€50.00", "Consultation  ", "−€20.00", "€35.25",
		} {
			if !strings.Contains(text.String(), part) {
				t.Errorf("text lacks %q:\n%s", part, &text)
			}
		}
		if strings.Contains(text.String(), "Consultation reserved") {
			t.Errorf("the price is there twice:\n%s", &text)
		}
		sum := st.Opening
		for _, b := range st.Booked() {
			if sum += b.Amount; sum != b.BalanceAfter {
				t.Errorf("%s leads to %d, the balance is %d", b.Type, sum, b.BalanceAfter)
			}
		}
		if sum != st.Closing {
			t.Errorf("the lines lead to %d, the closing balance is %d", sum, st.Closing)
		}
		rows, err := csv.NewReader(&table).ReadAll()
		if err != nil || len(rows) != 5 || rows[1][2] != "HOLD" || rows[2][4] != "con_1" || rows[4][3] != "'=1+1" {
			t.Fatalf("rows %q, %v", rows, err)
		}
		balance, available := 5000, 5000
		for _, r := range rows[1:] {
			for i, figure := range []*int{&balance, &available} {
				change, _ := strconv.Atoi(r[5+2*i])
				*figure += change
				if r[6+2*i] != strconv.Itoa(*figure) {
					t.Errorf("%s: column %s says %s, its changes lead to %d", r[2], rows[0][6+2*i], r[6+2*i], *figure)
				}
			}
		}
	}
}

// A consultation is one line whatever happens to its money, and the lines add up to the available amount.
func TestLinesAddUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client := f.funded(5000)
	session := f.session(client, 8000)
	if err := errors.Join(f.hold(f.wallets, client, "con_1", 2000),
		f.hold(f.wallets, client, "con_2", 2000)); err != nil {
		t.Fatal(err)
	}
	f.must(func(tx postgres.Tx) error {
		return f.wallets.TopUp(t.Context(), tx, client, application, session, 8000)
	})
	if err := errors.Join(
		f.hold(f.wallets, client, "con_3", 2000), f.hold(f.wallets, client, "con_4", 2000),
		f.hold(f.wallets, client, "con_5", 2000), f.capture("con_1"), f.release("con_2"), f.capture("con_3"),
		f.refund("con_3", 500), f.capture("con_4"), f.refund("con_4", 2000),
	); err != nil {
		t.Fatal(err)
	}
	f.must(func(tx postgres.Tx) error {
		return errors.Join(f.wallets.Adjust(t.Context(), tx, client, -700, "Correction"),
			f.wallets.Adjust(t.Context(), tx, client, 25, "Goodwill"))
	})
	want := []wallet.Line{ // newest first
		{Type: wallet.Adjustment, State: wallet.Booked, Amount: 25, Available: 6825, Description: "Goodwill"},
		{Type: wallet.Adjustment, State: wallet.Booked, Amount: -700, Available: 6800, Description: "Correction"},
		{Type: wallet.Hold, State: wallet.Reserved, Amount: -2000, Available: 7500, ConsultationID: "con_5",
			Description: "Consultation reserved"},
		{Type: wallet.Hold, State: wallet.Refunded, Amount: 0, Available: 9500, Refunded: 2000, ConsultationID: "con_4",
			Description: "Consultation reserved"},
		{Type: wallet.Hold, State: wallet.Refunded, Amount: -1500, Available: 9500, Refunded: 500,
			ConsultationID: "con_3", Description: "Consultation reserved"},
		{Type: wallet.TopUp, State: wallet.Booked, Amount: 8000, Available: 11000, Description: "Top-up"},
		{Type: wallet.Hold, State: wallet.Released, Amount: 0, Available: 3000, ConsultationID: "con_2",
			Description: "Consultation reserved"},
		{Type: wallet.Hold, State: wallet.Paid, Amount: -2000, Available: 3000, ConsultationID: "con_1",
			Description: "Consultation reserved"},
		{Type: wallet.Adjustment, State: wallet.Booked, Amount: 5000, Available: 5000, Description: "Opening balance"},
	}
	var got []wallet.Line
	for before, more := int64(0), true; more; { // pages of two lines
		var items []wallet.Line
		var err error
		if items, more, err = f.wallets.Lines(t.Context(), f.db.Read(), client, before, 2); err != nil {
			t.Fatal(err)
		}
		got = append(got, items...)
		before = items[len(items)-1].Seq
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines: %+v", len(got), got)
	}
	for i, l := range got {
		if (l.ConsultationID != "") != (l.ApplicationID != "") && l.Type == wallet.Hold {
			t.Errorf("line %d: %+v", i, l)
		}
		l.Seq, l.ApplicationID, l.CreatedAt = 0, "", time.Time{}
		if l != want[i] {
			t.Errorf("line %d: %+v, want %+v", i, l, want[i])
		}
	}
	if b, err := f.wallets.Balance(t.Context(), f.db.Read(), client); err != nil || b.Available != got[0].Available {
		t.Errorf("%+v, %v; the lines lead to %d", b, err, got[0].Available)
	}
	f.sound()
}

func TestOneAdjustmentMovesABoundedAmount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one := f.funded(1000)
	for amount, want := range map[money.Cents]error{
		wallet.MaxAdjustment: nil, -wallet.MaxAdjustment: nil, wallet.MaxAdjustment + 1: wallet.ErrTooMuch,
		-wallet.MaxAdjustment - 1: wallet.ErrTooMuch, math.MaxInt64: wallet.ErrTooMuch,
		math.MinInt64: wallet.ErrTooMuch, 0: wallet.ErrAmount,
	} {
		if amount < 0 && want == nil {
			continue // already adjusted back
		}
		err := f.db.InTx(t.Context(), func(tx postgres.Tx) error {
			err := f.wallets.Adjust(t.Context(), tx, one, amount, "Test")
			if err == nil {
				err = f.wallets.Adjust(t.Context(), tx, one, -amount, "Test")
			}
			return err
		})
		if !errors.Is(err, want) {
			t.Errorf("%d: %v, want %v", amount, err, want)
		}
	}
	f.sound()
}
