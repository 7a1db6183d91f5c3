package wallet

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
)

// Statement lists the transactions of a wallet in one month (UTC).
type Statement struct {
	ClientID         string
	From, To         time.Time   // start of the month and of the next month
	Opening, Closing money.Cents // balance at these times
	Transactions     []Transaction
}

// Statement returns the statement of the month that contains month. It is final once that month is over.
func (s *Service) Statement(ctx context.Context, tx postgres.Tx, clientID string, month time.Time) (Statement, error) {
	month = month.UTC()
	st := Statement{ClientID: clientID, From: time.Date(month.Year(), month.Month(), 1, 0, 0, 0, 0, time.UTC)}
	st.To = st.From.AddDate(0, 1, 0)
	var err error
	if st.Transactions, err = monthOf(ctx, tx, clientID, st.From, st.To); err != nil {
		return Statement{}, fmt.Errorf("read statement: %w", err)
	}
	if len(st.Transactions) == 0 {
		st.Opening, err = balanceBefore(ctx, tx, clientID, st.From)
		st.Closing = st.Opening
		if err != nil {
			return Statement{}, fmt.Errorf("read statement: %w", err)
		}
		return st, nil
	}
	first, last := st.Transactions[0], st.Transactions[len(st.Transactions)-1]
	st.Opening, st.Closing = first.BalanceAfter-onBalance(first), last.BalanceAfter
	return st, nil
}

// Booked returns the transactions that changed the balance. Their amounts lead from Opening to Closing.
func (st Statement) Booked() []Transaction {
	booked := []Transaction{}
	for _, t := range st.Transactions {
		if onBalance(t) != 0 {
			booked = append(booked, t)
		}
	}
	return booked
}

// onBalance returns the change of the balance. A reservation or its release only moves money within the balance.
func onBalance(t Transaction) money.Cents {
	if t.Type == Hold || t.Type == Release {
		return 0
	}
	return t.Amount
}

// onAvailable returns the change of the available amount. A charge does not change it, because the reservation did.
func onAvailable(t Transaction) money.Cents {
	if t.Type == Capture {
		return 0
	}
	return t.Amount
}

// WriteCSV writes the statement as CSV (RFC 4180) with a header line, oldest first. Amounts are whole cents. It
// includes reservations, so it has separate columns for the balance and the available amount.
func (st Statement) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	_ = out.Write([]string{"created_at", "transaction_id", "type", "description", "consultation_id",
		"balance_change_cents", "balance_after_cents", "available_change_cents", "available_after_cents", "currency"})
	for _, t := range st.Transactions {
		_ = out.Write([]string{clock.Format(t.CreatedAt), t.ID, string(t.Type), plainCell(t.Description),
			t.ConsultationID, fmt.Sprint(int64(onBalance(t))), fmt.Sprint(int64(t.BalanceAfter)),
			fmt.Sprint(int64(onAvailable(t))), fmt.Sprint(int64(t.AvailableAfter)), money.Currency})
	}
	out.Flush()
	return out.Error()
}

// plainCell prevents spreadsheets from reading a text as a formula.
func plainCell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

// WriteText writes the statement for printing.
func (st Statement) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Statement of wallet %s, %s (UTC)\n\n", st.ClientID, st.From.Format("January 2006"))
	line := func(day, what string, amount, balance string) {
		fmt.Fprintf(&b, "%-16s  %-34s  %12s  %12s\n", day, what, amount, balance)
	}
	line("", "Balance carried over", "", st.Opening.Format("en"))
	for _, t := range st.Booked() {
		line(t.CreatedAt.Format("2006-01-02 15:04"), t.Description, t.Amount.Format("en"), t.BalanceAfter.Format("en"))
	}
	line("", "Balance at the end", "", st.Closing.Format("en"))
	b.WriteString("\nReservations move money within the balance and are not listed.\n")
	_, err := io.WriteString(w, b.String())
	return err
}
