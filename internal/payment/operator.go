package payment

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/money"
	"partnerd/internal/postgres"
)

// Incident is a notice of a payment that did not fit: a person has to look into it.
type Incident struct {
	Provider, NoticeID string
	SessionID          string // as the provider says; there may be no such session
	Amount             money.Cents
	Currency           string
	Outcome            Outcome
	ReceivedAt         time.Time
}

// Incidents lists the newest incidents first.
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

// OpenRefunds lists refunds that are on their way or were refused, newest first.
func (s *Service) OpenRefunds(ctx context.Context, tx postgres.Tx, limit int) ([]RefundState, error) {
	list, err := openRefunds(ctx, tx, limit)
	if err != nil {
		return nil, fmt.Errorf("list refunds: %w", err)
	}
	return list, nil
}
