package payment

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
)

// Incident is a notice that someone has to review.
type Incident struct {
	Provider, NoticeID string
	SessionID          string // as sent by the provider; may not exist
	PaymentRef         string // the provider's payment; may be empty
	Amount             money.Cents
	Currency           string
	Outcome            Outcome
	// disputes and refunds of the session at the provider: what the wallet gave, and what it did not have
	Taken, Uncovered money.Cents
	ReceivedAt       time.Time
}

// UnderWay reports whether the client has a top-up that may still be paid, or a refund that has not reached its source.
func (s *Service) UnderWay(ctx context.Context, tx postgres.Tx, clientID string) (bool, error) {
	some, err := underWay(ctx, tx, clientID)
	if err != nil {
		return false, fmt.Errorf("look for payments under way: %w", err)
	}
	return some, nil
}

// OpenTopUp is a top-up that may still be paid.
type OpenTopUp struct {
	Session
	Pending bool // paid, with the money on its way: cannot be cancelled
}

// OpenTopUps lists the client's top-ups that may still be paid, newest first.
func (s *Service) OpenTopUps(ctx context.Context, tx postgres.Tx, clientID string) ([]OpenTopUp, error) {
	list, err := openTopUps(ctx, tx, clientID)
	if err != nil {
		return nil, fmt.Errorf("list open top-ups: %w", err)
	}
	return list, nil
}

// Incidents lists up to limit incidents, newest first.
func (s *Service) Incidents(ctx context.Context, tx postgres.Tx, limit int) ([]Incident, error) {
	list, err := incidents(ctx, tx, limit)
	if err != nil {
		return nil, fmt.Errorf("list payment incidents: %w", err)
	}
	return list, nil
}

// RefundState is a refund that has not reached its source.
type RefundState struct {
	ID, TopUpID string
	Amount      money.Cents
	State       string // PENDING or FAILED
	Attempts    int
	LastError   string // English
	CreatedAt   time.Time
}

// OpenRefunds lists pending and failed refunds, newest first.
func (s *Service) OpenRefunds(ctx context.Context, tx postgres.Tx, limit int) ([]RefundState, error) {
	list, err := openRefunds(ctx, tx, limit)
	if err != nil {
		return nil, fmt.Errorf("list refunds: %w", err)
	}
	return list, nil
}
