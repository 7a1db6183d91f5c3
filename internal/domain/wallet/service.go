package wallet

import (
	"context"
	"fmt"

	"partnerd/internal/base/id"
	"partnerd/internal/base/money"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// Price is what a consultation costs (specification section 2.2), and who gets what of it, in cents.
const (
	LawyerFee   money.Cents = 1700
	PlatformFee money.Cents = 300
	Price                   = LawyerFee + PlatformFee
)

// Service moves clients' money. Its methods join the caller's transaction.
type Service struct{ lawyerFee, platformFee money.Cents }

// New makes a service.
func New() *Service { return &Service{LawyerFee, PlatformFee} }

// Open makes an empty wallet. For a client who has one it does nothing.
func (s *Service) Open(ctx context.Context, tx postgres.Tx, clientID string) error {
	if err := openWallet(ctx, tx, clientID); err != nil {
		return fmt.Errorf("open wallet: %w", err)
	}
	return nil
}

// Balance returns the state of the client's wallet; zeros when there is none yet.
func (s *Service) Balance(ctx context.Context, tx postgres.Tx, clientID string) (Balance, error) {
	b, err := readBalance(ctx, tx, clientID)
	if err != nil {
		return Balance{}, fmt.Errorf("read wallet: %w", err)
	}
	return b, nil
}

// Lock returns the state of the client's wallet, which nothing moves before the end of the transaction.
func (s *Service) Lock(ctx context.Context, tx postgres.Tx, clientID string) (Balance, error) {
	row, err := lockWallet(ctx, tx, clientID)
	if err != nil {
		return Balance{}, fmt.Errorf("lock wallet: %w", err)
	}
	return row.balance(), nil
}

// Hold reserves the price of a consultation with the next statement of the transaction, which ends with
// ErrInsufficientFunds when less is available. ErrFees when the amount is not what the fees add up to.
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

// Release gives the money reserved for a consultation back with the next statement of the transaction, which ends with
// ErrHoldEnded when there is no active hold.
func (s *Service) Release(ctx context.Context, tx postgres.Tx, consultationID string) error {
	return moveLater(ctx, tx, "release", releaseSQL,
		movement{ID: tx.NewID(id.Transaction), Now: tx.Now, Consultation: consultationID}, ErrHoldEnded)
}

// Capture takes the money reserved for a consultation, for the lawyer and the platform, with the next statement of the
// transaction, which ends with ErrHoldEnded when there is no active hold.
func (s *Service) Capture(ctx context.Context, tx postgres.Tx, consultationID string) error {
	return moveLater(ctx, tx, "capture", captureSQL,
		movement{ID: tx.NewID(id.Transaction), Now: tx.Now, Consultation: consultationID}, ErrHoldEnded)
}

// Refund gives amount cents, at most what was captured, back to the client, once per consultation (X15), with the next
// statement of the transaction, which ends with ErrNotRefundable otherwise.
func (s *Service) Refund(ctx context.Context, tx postgres.Tx, consultationID string, amount money.Cents) error {
	if amount <= 0 {
		return ErrAmount
	}
	return moveLater(ctx, tx, "refund", refundSQL, movement{
		ID: tx.NewID(id.Transaction), Now: tx.Now, Consultation: consultationID, Amount: amount,
	}, ErrNotRefundable)
}

// TopUp credits a payment. For a top-up that is credited already it does nothing. Needs a real transaction: without
// one, concurrent twins get an error instead (and credit once all the same).
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

// Adjust corrects a wallet by hand, up or down, by at most [MaxAdjustment]: ErrAmount, ErrTooMuch. ErrInsufficientFunds
// when less is available than it takes.
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

// Correct adjusts a wallet as an operator's act: what Adjust does, with an audit entry. The reason stays with the
// operators; the client reads that it is a correction.
func (s *Service) Correct(ctx context.Context, tx postgres.Tx, c Correction) error {
	if err := s.Adjust(ctx, tx, c.ClientID, c.Amount, OperatorCorrection); err != nil {
		return err
	}
	return audit.Record(ctx, tx, audit.Entry{
		ID: c.Entry, Actor: c.Actor, Action: "wallet.adjust", Subject: c.ClientID, Reason: c.Reason,
		Details: map[string]any{"amountCents": c.Amount},
	})
}

// Withdraw takes amount cents of a top-up out of the wallet, because they go back to their source. No application takes
// part in that, whichever asked for the top-up.
// ErrInsufficientFunds when less is available.
func (s *Service) Withdraw(ctx context.Context, tx postgres.Tx, clientID, topupID string, amount money.Cents) error {
	if amount <= 0 {
		return ErrAmount
	}
	moved, err := move(ctx, tx, withdrawSQL, movement{
		ID: tx.NewID(id.Transaction), Now: tx.Now, Client: clientID, TopUp: topupID, Amount: amount,
	})
	return outcome("withdraw", moved, err, ErrInsufficientFunds)
}

// Reverse takes amount cents of a top-up out of the wallet (negative), because its payer's bank or the provider took
// them back, or puts them in again. ErrInsufficientFunds when less is available.
func (s *Service) Reverse(ctx context.Context, tx postgres.Tx, clientID, topupID string, amount money.Cents) error {
	if amount == 0 {
		return ErrAmount
	}
	moved, err := move(ctx, tx, reverseSQL, movement{
		ID: tx.NewID(id.Transaction), Now: tx.Now, Client: clientID, TopUp: topupID, Amount: amount,
	})
	return outcome("reverse", moved, err, ErrInsufficientFunds)
}

// Transactions lists the client's movements, newest first: those numbered below beforeSeq (0 means from the newest),
// at most limit of them. more tells whether older ones exist.
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

// OfConsultation lists what a consultation has moved, in order: for operators.
func (s *Service) OfConsultation(ctx context.Context, tx postgres.Tx, consultationID string) ([]Transaction, error) {
	return transactionsOf(ctx, tx, consultationID)
}
