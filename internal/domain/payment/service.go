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

// Config of a deployment. Zero limits mean the defaults.
type Config struct {
	// where the checkout pages are, without a trailing slash
	BaseURL string
	// has the built-in provider, and allows loopback return URLs over http
	Sandbox bool
	// key of the built-in provider's notices; empty refuses every one
	NoticeSecret string
	// who takes the money of new sessions; nil: the built-in provider of a sandbox, nobody in live
	Provider Provider
	// is told of each credited payment, once, in its transaction; may be nil
	ToppedUp      func(ctx context.Context, tx postgres.Tx, clientID string) error
	MaxTopUp      money.Cents
	WalletCeiling money.Cents
}

// Service makes checkout sessions and credits paid ones.
type Service struct {
	db     *postgres.DB
	log    *slog.Logger
	wallet *wallet.Service
	cfg    Config

	foreign atomic.Int64 // notices that were ignored as [ErrForeignNotice]
}

// New makes a service.
func New(db *postgres.DB, log *slog.Logger, w *wallet.Service, cfg Config) *Service {
	if cfg.MaxTopUp == 0 {
		cfg.MaxTopUp = DefaultMaxTopUp
	}
	if cfg.WalletCeiling == 0 {
		cfg.WalletCeiling = DefaultWalletCeiling
	}
	return &Service{db: db, log: log, wallet: w, cfg: cfg}
}

// active is who takes the money of new sessions; nil when nobody does.
func (s *Service) active() Provider {
	if s.cfg.Provider != nil {
		return s.cfg.Provider
	}
	return s.provider(SandboxProvider)
}

// provider finds one by name, also one that takes no new sessions any more; nil when there is none.
func (s *Service) provider(name string) Provider {
	switch {
	case s.cfg.Provider != nil && s.cfg.Provider.Name() == name:
		return s.cfg.Provider
	case name == SandboxProvider && s.cfg.Sandbox:
		return builtin{s.cfg.NoticeSecret}
	}
	return nil
}

// Available tells whether there is a provider that takes the money of new sessions.
func (s *Service) Available() bool { return s.active() != nil }

// UnusableReturn is what Create would say of the return URL of a request, which may be nil: whoever refuses the request
// for something else says this with it.
func (s *Service) UnusableReturn(raw *string) []problem.Issue {
	if raw == nil {
		return nil
	}
	return checkReturn(*raw, s.cfg)
}

// Create makes a session that can be paid for one hour (specification section 4.2). Problems: VALIDATION_ERROR with
// issues at amountCents and returnUrl, WALLET_LIMIT_EXCEEDED, UNAVAILABLE where there is no provider.
func (s *Service) Create(ctx context.Context, tx postgres.Tx, c CreateCommand) (Session, error) {
	if issues := checkCreate(c, s.cfg); len(issues) > 0 {
		return Session{}, problem.ErrValidation.With(issues...)
	}
	return s.newSession(ctx, tx, c)
}

// Largest is the largest amount of one top-up.
func (s *Service) Largest() money.Cents { return s.cfg.MaxTopUp }

// CreateOwn is [Service.Create] for a top-up that the client asked for on our own pages, from [MinTopUp] to
// [Service.Largest]; the browser goes back to path there. Problems: VALIDATION_ERROR, WALLET_LIMIT_EXCEEDED,
// UNAVAILABLE.
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
		return Session{}, problem.ErrUnavailable.Because("No payment provider is configured.").After(retryUnserved)
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

// Get returns a session. Problem: NOT_FOUND. Who knows the identifier, which cannot be guessed, may see the session.
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

// Payable returns a session that may be paid now. Otherwise ErrSessionClosed, or the problems NOT_FOUND and
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

// Erase takes the addresses of partners out of the client's top-ups, which may name the client.
func (s *Service) Erase(ctx context.Context, tx postgres.Tx, clientID string) error {
	if err := eraseReturnURLs(ctx, tx, clientID); err != nil {
		return fmt.Errorf("erase from top-ups: %w", err)
	}
	return nil
}
