package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/base/text"
	"partnerd/internal/infra/postgres"
)

// minCheckout is the minimum time for which a provider must let the client pay. Stripe rejects less than 30
// minutes; the rest allows for latency. A client who opens the page late may therefore pay shortly after our session
// expired. Such a payment is credited like any late payment.
const minCheckout = 31 * time.Minute

// Query parameters with which a provider returns the client to the checkout page.
const (
	DoneParameter = "done"
	DoneNotYet    = "not-yet" // shows the amount before redirecting to the provider
	DoneSuccess   = "success"
	DoneCancelled = "cancelled"
)

// External reports whether the client pays on a page of the session's provider instead of ours.
func (s *Service) External(session Session) bool { return session.Provider != SandboxProvider }

// OpenCheckout returns the URL where the client pays a session: the provider's page, in a supported language. The page
// is created on the first call and reused from then on. It returns the errors of [Service.Begin], or UNAVAILABLE if the
// provider cannot be reached.
func (s *Service) OpenCheckout(ctx context.Context, sessionID, lang string) (url string, err error) {
	var b begun
	var p Provider
	err = s.db.InTx(ctx, func(tx postgres.Tx) error {
		if b, err = s.begin(ctx, tx, sessionID); err != nil {
			return err
		}
		if p = s.provider(b.Provider); p == nil {
			return problem.ErrUnavailable
		}
		return nil
	})
	if err != nil || b.url != "" {
		return b.url, err
	}
	made, err := p.CreateCheckout(ctx, s.checkoutRequest(b.Session, b.openedAt, text.Known(lang)))
	if errors.Is(err, ErrRefused) {
		// Nothing was created under this key, and nothing will be. The next visit starts over.
		err = errors.Join(err, reopenSession(ctx, s.db.Read(), sessionID, b.openedAt))
	}
	if err != nil {
		s.log.ErrorContext(ctx, "payment provider makes no checkout", "provider", p.Name(), "session", sessionID,
			"error", err)
		return "", problem.ErrUnavailable
	}
	if err := storeCheckout(ctx, s.db.Read(), sessionID, made); err != nil {
		return "", fmt.Errorf("store checkout: %w", err)
	}
	return made.URL, nil
}

// Begin marks that the client is about to pay, and returns the session. From then on its amount counts against the
// wallet ceiling, until it is credited or the session ends unpaid. Concurrent payments therefore cannot exceed the
// ceiling together. It returns the errors of [Service.Payable].
func (s *Service) Begin(ctx context.Context, tx postgres.Tx, sessionID string) (Session, error) {
	b, err := s.begin(ctx, tx, sessionID)
	return b.Session, err
}

// begun is a session that the client is about to pay.
type begun struct {
	Session
	url      string // the provider's page; empty until it exists
	openedAt time.Time
}

// begin locks the session and then the wallet, as notices do. It reads the client's other sessions after that, so it
// sees every session that began earlier.
func (s *Service) begin(ctx context.Context, tx postgres.Tx, sessionID string) (b begun, err error) {
	row, err := openSession(ctx, tx, sessionID)
	if postgres.IsNotFound(err) {
		return begun{}, problem.ErrNotFound
	}
	if err != nil {
		return begun{}, err
	}
	b = begun{Session: row.session(tx.Now), url: row.ProviderURL, openedAt: *row.OpenedAt}
	if b.Status != Open {
		return begun{}, ErrSessionClosed
	}
	held, err := s.wallet.Lock(ctx, tx, b.ClientID)
	if err != nil {
		return begun{}, err
	}
	others, err := otherBegunAmount(ctx, tx, b.Session)
	if err != nil {
		return begun{}, fmt.Errorf("read payments under way: %w", err)
	}
	if held.Balance+others+b.Amount > s.cfg.WalletCeiling {
		return begun{}, ErrWalletLimitExceeded
	}
	return b, nil
}

// checkoutRequest depends only on the stored session and the language, so a visit after a crash repeats the same
// request. Another language is another request with its own key, because providers reject a key with different values.
func (s *Service) checkoutRequest(session Session, openedAt time.Time, lang string) CheckoutRequest {
	expires := session.ExpiresAt
	if soonest := openedAt.Add(minCheckout); expires.Before(soonest) {
		expires = soonest
	}
	return CheckoutRequest{
		Key:       fmt.Sprintf("checkout-%s-%d-%s", session.ID, openedAt.UnixMicro(), lang),
		SessionID: session.ID, Amount: session.Amount, ExpiresAt: expires, Language: lang,
		SuccessURL: session.CheckoutURL + "?" + DoneParameter + "=" + DoneSuccess,
		CancelURL:  session.CheckoutURL + "?" + DoneParameter + "=" + DoneCancelled,
	}
}

// CancelCheckout ends a session that the client does not want to pay, first at its provider. It returns
// ErrSessionClosed if the session is paid, being paid, cancelled or expired.
func (s *Service) CancelCheckout(ctx context.Context, sessionID string) error {
	session, err := s.Get(ctx, s.db.Read(), sessionID)
	if err != nil {
		return err
	}
	pending, err := s.Pending(ctx, s.db.Read(), sessionID)
	if err != nil {
		return err
	}
	// A session that has expired here may still be payable at its provider.
	if session.Status != Open && session.Status != Expired || pending {
		return ErrSessionClosed
	}
	if p := s.provider(session.Provider); p != nil && session.ProviderRef != "" {
		err := p.Expire(ctx, session.ProviderRef)
		if errors.Is(err, ErrRefused) {
			return ErrSessionClosed // a notice says why
		}
		if err != nil {
			s.log.ErrorContext(ctx, "payment provider does not end a checkout", "provider", p.Name(),
				"session", sessionID, "error", err)
			return problem.ErrUnavailable
		}
	}
	return cancelOpenSession(ctx, s.db.Read(), sessionID)
}

// Pending reports whether the client has paid by a slow method and the money has not arrived yet.
func (s *Service) Pending(ctx context.Context, tx postgres.Tx, sessionID string) (bool, error) {
	pending, err := isPending(ctx, tx, sessionID)
	if err != nil {
		return false, fmt.Errorf("read notices of checkout: %w", err)
	}
	return pending, nil
}
