package payment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/money"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// RefundDays is for how many days after the day of payment an unused top-up can be refunded.
const RefundDays = 14

// Errors of a refund.
var (
	// spent, already refunded, or too old
	ErrNothingToRefund = errors.New("no unused top-up of the last 14 days covers this refund")
	ErrUnknownTopUp    = errors.New("the client has paid no such top-up")
	ErrRefundAmount    = errors.New("the amount of a refund must be positive")
)

// RefundCommand asks to refund unused top-ups to their source.
type RefundCommand struct {
	ClientID string
	TopUpID  string      // one session; empty: all that qualify
	Amount   money.Cents // of that session, or of all together, newest first; 0: everything unused
	AnyAge   bool        // include top-ups paid more than [RefundDays] ago
	Actor    string      // who asks, for the audit log
	Reason   string
	Entry    string // ID of the audit entry, to prevent refunding twice; empty means a new ID
}

// RefundPart is the refund of one top-up.
type RefundPart struct {
	ID, TopUpID string
	Amount      money.Cents
}

// topUp is a paid session. Refunded includes pending refunds and what the payer's bank took back.
type topUp struct {
	ID               string
	Amount, Refunded money.Cents
	PaidAt           time.Time
}

// refundableUntil returns the end of the last day on which a top-up can be refunded.
func refundableUntil(paid time.Time) time.Time {
	paid = paid.UTC()
	return time.Date(paid.Year(), paid.Month(), paid.Day()+RefundDays+1, 0, 0, 0, 0, time.UTC)
}

// unused divides the available money among top-ups, newest first, because the oldest money counts as spent first. It
// returns only the parts that can still be refunded, or all with anyAge. Money from other movements belongs to no
// top-up.
func unused(newestFirst []topUp, available money.Cents, now time.Time, anyAge bool) (parts []RefundPart) {
	for _, t := range newestFirst {
		left := min(t.Amount-t.Refunded, available)
		if left <= 0 {
			continue
		}
		available -= left
		if anyAge || now.Before(refundableUntil(t.PaidAt)) {
			parts = append(parts, RefundPart{TopUpID: t.ID, Amount: left})
		}
	}
	return parts
}

// choose selects what a command asks for from the unused parts.
func choose(c RefundCommand, parts []RefundPart) ([]RefundPart, error) {
	left := c.Amount
	var chosen []RefundPart
	for _, p := range parts {
		if c.TopUpID != "" && p.TopUpID != c.TopUpID {
			continue
		}
		if c.Amount > 0 {
			p.Amount = min(p.Amount, left)
			left -= p.Amount
		}
		if p.Amount > 0 {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) == 0 || c.Amount > 0 && left > 0 || c.Amount < 0 {
		return nil, ErrNothingToRefund
	}
	return chosen, nil
}

// Refund takes unused top-ups out of the wallet and queues their refund to their source, which [Service.SendRefunds]
// sends. It returns ErrNothingToRefund, ErrUnknownTopUp or ErrRefundAmount.
func (s *Service) Refund(ctx context.Context, tx postgres.Tx, c RefundCommand) ([]RefundPart, error) {
	if c.Amount < 0 {
		return nil, ErrRefundAmount
	}
	paid, err := lockPaid(ctx, tx, c.ClientID)
	if err != nil {
		return nil, fmt.Errorf("read top-ups: %w", err)
	}
	if c.TopUpID != "" && !slices.ContainsFunc(paid, func(t topUp) bool { return t.ID == c.TopUpID }) {
		return nil, ErrUnknownTopUp
	}
	b, err := s.wallet.Balance(ctx, tx, c.ClientID)
	if err != nil {
		return nil, err
	}
	parts, err := choose(c, unused(paid, b.Available, tx.Now, c.AnyAge))
	if err != nil {
		return nil, err
	}
	return s.queueRefunds(ctx, tx, c, parts)
}

// Returnable returns how much of the client's available money came from top-ups of any age and can be refunded.
func (s *Service) Returnable(ctx context.Context, tx postgres.Tx, clientID string) (money.Cents, error) {
	return s.unused(ctx, tx, clientID, true)
}

// Withdrawable returns how much [Service.Refund] would refund if the client withdrew from all recent top-ups.
func (s *Service) Withdrawable(ctx context.Context, tx postgres.Tx, clientID string) (money.Cents, error) {
	return s.unused(ctx, tx, clientID, false)
}

func (s *Service) unused(ctx context.Context, tx postgres.Tx, clientID string,
	anyAge bool,
) (sum money.Cents, err error) {
	paid, err := paidTopUps(ctx, tx, clientID)
	if err != nil {
		return 0, fmt.Errorf("read top-ups: %w", err)
	}
	b, err := s.wallet.Balance(ctx, tx, clientID)
	if err != nil {
		return 0, err
	}
	for _, p := range unused(paid, b.Available, tx.Now, anyAge) {
		sum += p.Amount
	}
	return sum, nil
}

// Return is money that has left the wallet for its source.
type Return struct {
	Amount money.Cents
	Failed bool // the provider refused it: someone has to review it
	Since  time.Time
}

// Returning lists the client's money that has not reached its source, newest first.
func (s *Service) Returning(ctx context.Context, tx postgres.Tx, clientID string) ([]Return, error) {
	list, err := returning(ctx, tx, clientID)
	if err != nil {
		return nil, fmt.Errorf("list money on its way back: %w", err)
	}
	return list, nil
}

// queueRefunds takes the parts out of the wallet, which has them available, and queues their refund.
func (s *Service) queueRefunds(ctx context.Context, tx postgres.Tx, c RefundCommand,
	parts []RefundPart,
) ([]RefundPart, error) {
	for i := range parts {
		parts[i].ID = tx.NewID(id.TopUpRefund)
		if err := insertRefund(ctx, tx, c, parts[i]); err != nil {
			return nil, fmt.Errorf("insert refund: %w", err)
		}
		if err := s.wallet.Withdraw(ctx, tx, c.ClientID, parts[i].TopUpID, parts[i].Amount); err != nil {
			return nil, err
		}
	}
	return parts, audit.Record(ctx, tx, audit.Entry{ID: c.Entry, Actor: c.Actor, Action: "wallet.refund",
		Subject: c.ClientID, Reason: c.Reason, Details: parts})
}

// RefundEvery is how often to call [Service.SendRefunds].
const RefundEvery = 10 * time.Second

const (
	refundBatch = 3
	// longer than a batch takes; a second attempt would be harmless, because it uses the same key
	refundLease = 2 * time.Minute
)

// SendRefunds makes one attempt for each due refund and returns how many there were. It is safe to call from several
// processes at the same time.
func (s *Service) SendRefunds(ctx context.Context) (sent int, err error) {
	for {
		due, err := claimRefunds(ctx, s.db.Read(), refundBatch, refundLease)
		if err != nil {
			return sent, fmt.Errorf("claim refunds: %w", err)
		}
		for _, r := range due {
			if err := s.sendRefund(ctx, s.db.Read(), r); err != nil {
				return sent, err
			}
			sent++
		}
		if len(due) < refundBatch || ctx.Err() != nil {
			return sent, nil
		}
	}
}

func (s *Service) sendRefund(ctx context.Context, tx postgres.Tx, r dueRefund) error {
	p := s.provider(r.Provider)
	if p == nil {
		s.log.WarnContext(ctx, "refund of a top-up waits for its provider to be configured", "refund", r.ID,
			"topup", r.TopUpID, "provider", r.Provider)
		return postponeRefund(ctx, tx, r.ID, "the provider "+r.Provider+" is not configured", refundPause(r.Attempts))
	}
	ref, err := p.Refund(ctx, RefundRequest{ID: r.ID, PaymentRef: r.PaymentRef, TopUpID: r.TopUpID,
		Amount: r.AmountCents, Again: r.Attempts > 1})
	switch {
	case ctx.Err() != nil:
		return nil // retried when the lease ends
	case errors.Is(err, ErrRefused):
		s.log.ErrorContext(ctx, "refund of a top-up refused", "refund", r.ID, "topup", r.TopUpID, "error", err)
		return endRefund(ctx, tx, r.ID, refundFailed, "", err.Error())
	case err != nil:
		s.log.WarnContext(ctx, "refund of a top-up will be tried again", "refund", r.ID, "attempt", r.Attempts,
			"error", err)
		return postponeRefund(ctx, tx, r.ID, err.Error(), refundPause(r.Attempts))
	}
	return endRefund(ctx, tx, r.ID, refundSent, ref, "")
}

// refundPause returns the time before the next attempt: 10 s, 20 s, 40 s … up to an hour.
func refundPause(attempts int) time.Duration {
	return min(10*time.Second<<min(max(attempts-1, 0), 10), time.Hour)
}
