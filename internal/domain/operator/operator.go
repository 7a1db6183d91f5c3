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

// Faults of what operators do, in words for them.
var (
	ErrNoReason = errors.New("a reason is needed, for the audit")
	ErrNoAmount = errors.New("the amount must not be 0")
	ErrSandbox  = errors.New("an opening balance exists in a sandbox only; correct the wallet of a live client with " +
		"a reason: partnerd wallet adjust")
)

// Service does what operators ask for. Safe for concurrent use.
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

// Act is who does something by hand, and why: what the audit keeps of it.
type Act struct {
	Actor  string // for example "cli:anna", or the identifier of a person who works here
	Reason string
	Entry  string // identifier of its audit entry, for whoever must not do it twice; empty: a new one

	// Keep stores, in the transaction of the act, the secrets that it made, for whoever shows them later; nil for
	// nobody.
	Keep func(ctx context.Context, tx postgres.Tx, secrets []string) error
}

// Record adds the entry, last in the transaction. secrets are what the act shows once.
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

// KnownClient is nil for a client that there is, and otherwise tells an operator that there is none.
func (s *Service) KnownClient(ctx context.Context, tx postgres.Tx, clientID string) error {
	_, err := s.Accounts.Get(ctx, tx, clientID)
	if errors.Is(err, problem.ErrNotFound) {
		return fmt.Errorf("there is no client %q: %w", clientID, err)
	}
	return err
}
