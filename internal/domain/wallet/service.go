package wallet

import (
	"context"
	"fmt"

	"partnerd/internal/base/id"
	"partnerd/internal/base/money"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// Price is the price of a consultation in cents (specification section 2.2), split into the fees of lawyer and
// platform.
const (
	LawyerFee   money.Cents = 1700
	PlatformFee money.Cents = 300
	Price                   = LawyerFee + PlatformFee
)

// Service moves clients' money. Its methods run in the caller's transaction.
type Service struct{ lawyerFee, platformFee money.Cents }

// New creates a service.
func New() *Service { return &Service{LawyerFee, PlatformFee} }

// Open creates an empty wallet. It does nothing if the client has one.
func (s *Service) Open(ctx context.Context, tx postgres.Tx, clientID string) error {
	if err := openWallet(ctx, tx, clientID); err != nil {
		return fmt.Errorf("open wallet: %w", err)
	}
	return nil
}

// Balance returns the state of the client's wallet, or zeros if there is no wallet yet.
func (s *Service) Balance(ctx context.Context, tx postgres.Tx, clientID string) (Balance, error) {
	b, err := readBalance(ctx, tx, clientID)
	if err != nil {
		return Balance{}, fmt.Errorf("read wallet: %w", err)
	}
	return b, nil
}

// Lock returns the state of the client's wallet and locks it until the end of the transaction.
func (s *Service) Lock(ctx context.Context, tx postgres.Tx, clientID string) (Balance, error) {
	row, err := lockWallet(ctx, tx, clientID)
	if err != nil {
		return Balance{}, fmt.Errorf("lock wallet: %w", err)
	}
	return row.balance(), nil
}

// Hold reserves the price of a consultation with the next statement of the transaction. That transaction fails with
// ErrInsufficientFunds if less is available. Hold returns ErrFees if the amount is not the sum of the fees.
func (s *Service) Hold(ctx context.Context, tx postgres.Tx, c HoldCommand) error {
	if c.Amount <= 0 {
		return ErrAmount
	}
	if c.Amount != s.lawyerFee+s.platformFee {
		return fmt.Errorf("hold %d cents: %w", c.Amount, ErrFees)
	}
	return moveLater(ctx, tx, "hold", holdSQL, movement{
		ID: tx.NewID(id.Transaction), Now: tx.Now, Client: c.ClientID, Application: c.ApplicationID,
		Consultation: c.ConsultationID, Amount: c.Amount, Hold: tx.NewID(id.Hold), LawyerFee: s.lawyerFee,
		PlatformFee: s.platformFee,
	}, ErrInsufficientFunds)
}

// Release releases the money reserved for a consultation with the next statement of the transaction. That transaction
// fails with ErrHoldEnded if there is no active hold.
func (s *Service) Release(ctx context.Context, tx postgres.Tx, consultationID string) error {
	return moveLater(ctx, tx, "release", releaseSQL,
		movement{ID: tx.NewID(id.Transaction), Now: tx.Now, Consultation: consultationID}, ErrHoldEnded)
}

// Capture charges the money reserved for a consultation, for the lawyer and the platform. It runs with the next
// statement of the transaction, which fails with ErrHoldEnded if there is no active hold.
func (s *Service) Capture(ctx context.Context, tx postgres.Tx, consultationID string) error {
	return moveLater(ctx, tx, "capture", captureSQL,
		movement{ID: tx.NewID(id.Transaction), Now: tx.Now, Consultation: consultationID}, ErrHoldEnded)
}

// Refund refunds amount cents to the client: at most what was captured, and once per consultation (X15). It runs with
// the next statement of the transaction, which otherwise fails with ErrNotRefundable.
func (s *Service) Refund(ctx context.Context, tx postgres.Tx, consultationID string, amount money.Cents) error {
	if amount <= 0 {
		return ErrAmount
	}
	return moveLater(ctx, tx, "refund", refundSQL, movement{
		ID: tx.NewID(id.Transaction), Now: tx.Now, Consultation: consultationID, Amount: amount,
	}, ErrNotRefundable)
}

// TopUp credits a payment. It does nothing if the top-up is already credited. It needs a real transaction. Without one,
// concurrent duplicates get an error, although the payment is still credited once.
func (s *Service) TopUp(ctx context.Context, tx postgres.Tx, clientID, applicationID, topupID string,
	amount money.Cents,
) error {
	if amount <= 0 {
		return ErrAmount
	}
	if _, err := lockWallet(ctx, tx, clientID); err != nil {
		return fmt.Errorf("lock wallet: %w", err)
	}
	_, err := move(ctx, tx, topUpSQL, movement{
		ID: tx.NewID(id.Transaction), Now: tx.Now, Client: clientID, Application: applicationID, TopUp: topupID,
		Amount: amount,
	})
	return outcome("top up", true, err, nil)
}

// Adjust corrects a wallet manually, up or down, by at most [MaxAdjustment]. It returns ErrAmount for zero, ErrTooMuch
// above the limit, and ErrInsufficientFunds if less is available than it would take.
func (s *Service) Adjust(ctx context.Context, tx postgres.Tx, clientID string, amount money.Cents,
	description string,
) error {
	if amount == 0 {
		return ErrAmount
	}
	if amount > MaxAdjustment || amount < -MaxAdjustment {
		return ErrTooMuch
	}
	if err := openWallet(ctx, tx, clientID); err != nil {
		return fmt.Errorf("open wallet: %w", err)
	}
	moved, err := move(ctx, tx, adjustSQL, movement{
		ID: tx.NewID(id.Transaction), Now: tx.Now, Client: clientID, Amount: amount, Description: description,
	})
	return outcome("adjust", moved, err, ErrInsufficientFunds)
}

// Correct adjusts a wallet as an operator, as Adjust does, with an audit entry. Only operators see the reason; the
// client sees that it is a correction.
func (s *Service) Correct(ctx context.Context, tx postgres.Tx, c Correction) error {
	if err := s.Adjust(ctx, tx, c.ClientID, c.Amount, OperatorCorrection); err != nil {
		return err
	}
	return audit.Record(ctx, tx, audit.Entry{
		ID: c.Entry, Actor: c.Actor, Action: "wallet.adjust", Subject: c.ClientID, Reason: c.Reason,
		Details: map[string]any{"amountCents": c.Amount},
	})
}

// Withdraw takes amount cents of a top-up out of the wallet, to refund them to their source. It records no application,
// even if one asked for the top-up. It returns ErrInsufficientFunds if less is available.
func (s *Service) Withdraw(ctx context.Context, tx postgres.Tx, clientID, topupID string, amount money.Cents) error {
	if amount <= 0 {
		return ErrAmount
	}
	moved, err := move(ctx, tx, withdrawSQL, movement{
		ID: tx.NewID(id.Transaction), Now: tx.Now, Client: clientID, TopUp: topupID, Amount: amount,
	})
	return outcome("withdraw", moved, err, ErrInsufficientFunds)
}

// Reverse takes amount cents of a top-up out of the wallet if amount is negative, or puts them back if it is positive.
// Use it when the payer's bank or the provider took them back or restored them. It returns ErrInsufficientFunds if less
// is available.
func (s *Service) Reverse(ctx context.Context, tx postgres.Tx, clientID, topupID string, amount money.Cents) error {
	if amount == 0 {
		return ErrAmount
	}
	moved, err := move(ctx, tx, reverseSQL, movement{
		ID: tx.NewID(id.Transaction), Now: tx.Now, Client: clientID, TopUp: topupID, Amount: amount,
	})
	return outcome("reverse", moved, err, ErrInsufficientFunds)
}

// Transactions returns up to limit movements of the client, newest first. It returns those numbered below beforeSeq, or
// the newest ones if beforeSeq is 0. more reports whether older movements exist.
func (s *Service) Transactions(ctx context.Context, tx postgres.Tx, clientID string, beforeSeq int64,
	limit int,
) (items []Transaction, more bool, err error) {
	items, err = listTransactions(ctx, tx, clientID, beforeSeq, limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("list wallet transactions: %w", err)
	}
	if len(items) > limit {
		return items[:limit], true, nil
	}
	return items, false, nil
}

func outcome(what string, moved bool, err, refusal error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !moved {
		return refusal
	}
	return nil
}

// OfConsultation lists the movements of a consultation in order, for operators.
func (s *Service) OfConsultation(ctx context.Context, tx postgres.Tx, consultationID string) ([]Transaction, error) {
	return transactionsOf(ctx, tx, consultationID)
}
