package payment

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"partnerd/internal/base/id"
	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

// Config is the configuration of a deployment. Zero limits mean the defaults.
type Config struct {
	// base URL of the checkout pages, without a trailing slash
	BaseURL string
	// enables the built-in provider and allows loopback return URLs over http
	Sandbox bool
	// key of the built-in provider's notices; empty rejects all
	NoticeSecret string
	// takes payments of new sessions; nil: the built-in provider in a sandbox, none in live
	Provider Provider
	// called once for each credited payment, in its transaction; may be nil
	ToppedUp      func(ctx context.Context, tx postgres.Tx, clientID string) error
	MaxTopUp      money.Cents
	WalletCeiling money.Cents
}

// Service creates checkout sessions and credits paid ones.
type Service struct {
	db     *postgres.DB
	log    *slog.Logger
	wallet *wallet.Service
	cfg    Config

	foreign atomic.Int64 // notices ignored as [ErrForeignNotice]
}

// New creates a service.
func New(db *postgres.DB, log *slog.Logger, w *wallet.Service, cfg Config) *Service {
	if cfg.MaxTopUp == 0 {
		cfg.MaxTopUp = DefaultMaxTopUp
	}
	if cfg.WalletCeiling == 0 {
		cfg.WalletCeiling = DefaultWalletCeiling
	}
	return &Service{db: db, log: log, wallet: w, cfg: cfg}
}

// active returns the provider of new sessions, or nil if there is none.
func (s *Service) active() Provider {
	if s.cfg.Provider != nil {
		return s.cfg.Provider
	}
	return s.provider(SandboxProvider)
}

// provider returns a provider by name, including one that no longer takes new sessions, or nil if there is none.
func (s *Service) provider(name string) Provider {
	switch {
	case s.cfg.Provider != nil && s.cfg.Provider.Name() == name:
		return s.cfg.Provider
	case name == SandboxProvider && s.cfg.Sandbox:
		return builtin{s.cfg.NoticeSecret}
	}
	return nil
}

// Available reports whether there is a provider for new sessions.
func (s *Service) Available() bool { return s.active() != nil }

// UnusableReturn returns the issues that Create would report for the return URL of a request; raw may be nil. Callers
// that reject the request for another reason add these issues.
func (s *Service) UnusableReturn(raw *string) []problem.Issue {
	if raw == nil {
		return nil
	}
	return checkReturn(*raw, s.cfg)
}

// Create creates a session that can be paid for one hour (specification section 4.2). It returns VALIDATION_ERROR with
// issues at amountCents and returnUrl, WALLET_LIMIT_EXCEEDED, or UNAVAILABLE without a provider.
func (s *Service) Create(ctx context.Context, tx postgres.Tx, c CreateCommand) (Session, error) {
	if issues := checkCreate(c, s.cfg); len(issues) > 0 {
		return Session{}, problem.ErrValidation.With(issues...)
	}
	return s.newSession(ctx, tx, c)
}

// Largest returns the largest amount of one top-up.
func (s *Service) Largest() money.Cents { return s.cfg.MaxTopUp }

// CreateOwn is [Service.Create] for a top-up requested on our own pages, from [MinTopUp] to [Service.Largest]. The
// browser returns to path there. It returns VALIDATION_ERROR, WALLET_LIMIT_EXCEEDED or UNAVAILABLE.
func (s *Service) CreateOwn(ctx context.Context, tx postgres.Tx, clientID string, amount money.Cents,
	path string,
) (Session, error) {
	if issues := checkAmount(amount, s.cfg); len(issues) > 0 {
		return Session{}, problem.ErrValidation.With(issues...)
	}
	return s.newSession(ctx, tx, CreateCommand{ClientID: clientID, Amount: amount, ReturnURL: s.cfg.BaseURL + path})
}

func (s *Service) newSession(ctx context.Context, tx postgres.Tx, c CreateCommand) (Session, error) {
	provider := s.active()
	if provider == nil {
		return Session{}, problem.ErrUnavailable.Because("No payment provider is configured.").After(providerRetryAfter)
	}
	if err := s.checkCeiling(ctx, tx, c.ClientID, c.Amount); err != nil {
		return Session{}, err
	}
	sessionID := tx.NewID(id.TopUp)
	session := Session{
		ID: sessionID, ClientID: c.ClientID, ApplicationID: c.ApplicationID, Amount: c.Amount, ReturnURL: c.ReturnURL,
		CheckoutURL: s.cfg.BaseURL + "/checkout/" + sessionID, Provider: provider.Name(), Status: Open,
		CreatedAt: tx.Now, ExpiresAt: tx.Now.Add(SessionLifetime),
	}
	if err := insertSession(ctx, tx, session); err != nil {
		return Session{}, fmt.Errorf("insert top-up session: %w", err)
	}
	return session, nil
}

// Get returns a session, or NOT_FOUND. Anyone who knows the ID, which cannot be guessed, may see the session.
func (s *Service) Get(ctx context.Context, tx postgres.Tx, sessionID string) (Session, error) {
	row, err := readSession(ctx, tx, sessionID)
	if postgres.IsNotFound(err) {
		return Session{}, problem.ErrNotFound
	}
	if err != nil {
		return Session{}, fmt.Errorf("read top-up session: %w", err)
	}
	return row.session(tx.Now), nil
}

// Payable returns a session that may be paid now. Otherwise it returns ErrSessionClosed, NOT_FOUND or
// WALLET_LIMIT_EXCEEDED.
func (s *Service) Payable(ctx context.Context, tx postgres.Tx, sessionID string) (Session, error) {
	session, err := s.Get(ctx, tx, sessionID)
	if err != nil {
		return Session{}, err
	}
	if session.Status != Open {
		return Session{}, ErrSessionClosed
	}
	return session, s.checkCeiling(ctx, tx, session.ClientID, session.Amount)
}

func (s *Service) checkCeiling(ctx context.Context, tx postgres.Tx, clientID string, amount money.Cents) error {
	b, err := s.wallet.Balance(ctx, tx, clientID)
	if err != nil {
		return err
	}
	if b.Balance+amount > s.cfg.WalletCeiling {
		return ErrWalletLimitExceeded
	}
	return nil
}

// Erase removes the partners' return URLs from the client's top-ups, because they may identify the client.
func (s *Service) Erase(ctx context.Context, tx postgres.Tx, clientID string) error {
	if err := eraseReturnURLs(ctx, tx, clientID); err != nil {
		return fmt.Errorf("erase from top-ups: %w", err)
	}
	return nil
}
