package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
)

// Errors of operators' actions, worded for operators.
var (
	ErrNoReason = errors.New("a reason is required for the audit log")
	ErrNoAmount = errors.New("the amount must not be 0")
	ErrSandbox  = errors.New("opening balances exist only in a sandbox; adjust the wallet of a live client with " +
		"partnerd wallet adjust and a reason")
)

// Service performs operators' actions. It is safe for concurrent use.
type Service struct {
	DB            *postgres.DB
	Sandbox       bool
	Accounts      *account.Service
	SelfService   *account.SelfService
	Applications  *application.Service
	OAuth         *oauth.Service
	Wallet        *wallet.Service
	Payments      *payment.Service
	Webhooks      *webhook.Service
	Lawyers       *lawyer.Service
	Staff         *staff.Service
	Portal        *portal.Service
	Consultations *consultation.Service
	Matching      *matching.Service
	Telephony     *telephony.Service
	Mail          *mail.Service
}

// Act is who performs an action and why, as the audit log keeps it.
type Act struct {
	Actor  string // for example "cli:anna", or the ID of an operator
	Reason string
	Entry  string // ID of the audit entry, to prevent repeating the action; empty means a new ID

	// Keep stores the secrets that the action created, in its transaction, so that they can be shown later. nil stores
	// nothing.
	Keep func(ctx context.Context, tx postgres.Tx, secrets []string) error
}

// Record adds the audit entry, last in the transaction. secrets are shown once.
func (by Act) Record(ctx context.Context, tx postgres.Tx, action, subject string, details any,
	secrets ...string,
) error {
	if strings.TrimSpace(by.Reason) == "" {
		return ErrNoReason
	}
	if by.Keep != nil && len(secrets) > 0 {
		if err := by.Keep(ctx, tx, secrets); err != nil {
			return err
		}
	}
	return audit.Record(ctx, tx, audit.Entry{ID: by.Entry, Actor: by.Actor, Action: action, Subject: subject,
		Reason: by.Reason, Details: details})
}

// KnownClient returns nil if the client exists, and otherwise an error worded for operators.
func (s *Service) KnownClient(ctx context.Context, tx postgres.Tx, clientID string) error {
	_, err := s.Accounts.Get(ctx, tx, clientID)
	if errors.Is(err, problem.ErrNotFound) {
		return fmt.Errorf("client %q does not exist: %w", clientID, err)
	}
	return err
}
