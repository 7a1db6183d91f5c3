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

// shortestCheckout is the least time for which a provider must let the client pay, with something for the way: Stripe
// refuses less than half an hour. A client who opens the page late may therefore pay a little after our session has
// expired; that is credited as any late payment.
const shortestCheckout = 31 * time.Minute

// Parameters of the checkout page with which a provider sends the client back to it.
const (
	DoneParameter = "done"
	DoneNotYet    = "not-yet" // shows what is to be paid before leading on to the provider
	DoneSuccess   = "success"
	DoneCancelled = "cancelled"
)

// External tells whether the client pays on a page of the session's provider, and not on ours.
func (s *Service) External(session Session) bool { return session.Provider != SandboxProvider }

// OpenCheckout returns where the client pays a session: the provider's page, in a language of the product. It is made
// when first asked for and the same from then on. Errors of [Service.Begin]; the problem UNAVAILABLE when the provider
// cannot be reached.
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
		// Nothing was made under this key, and nothing will be: the next visit begins afresh.
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

// Begin marks that the client is about to pay, and returns the session. From here on its amount counts against the
// ceiling of the wallet until it is credited, or the session has ended unpaid; so of several that are begun at once no
// more than fit go through. Errors of [Service.Payable].
func (s *Service) Begin(ctx context.Context, tx postgres.Tx, sessionID string) (Session, error) {
	b, err := s.begin(ctx, tx, sessionID)
	return b.Session, err
}

// begun is a session that the client is about to pay.
type begun struct {
	Session
	url      string // the provider's page; empty before it has made one
	openedAt time.Time
}

// begin locks the session and then the wallet, as notices do. Where the client's other sessions stand is read after
// that, so it sees what every earlier one has begun.
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
	others, err := begunElsewhere(ctx, tx, b.Session)
	if err != nil {
		return begun{}, fmt.Errorf("read payments under way: %w", err)
	}
	if held.Balance+others+b.Amount > s.cfg.WalletCeiling {
		return begun{}, ErrWalletLimitExceeded
	}
	return b, nil
}

// checkoutRequest depends on the stored session and the language alone, so that a visit after a crash repeats the same
// request. In another language the request is another one and has its own key: providers refuse a key that comes with
// other values.
func (s *Service) checkoutRequest(session Session, openedAt time.Time, lang string) CheckoutRequest {
	expires := session.ExpiresAt
	if soonest := openedAt.Add(shortestCheckout); expires.Before(soonest) {
		expires = soonest
	}
	return CheckoutRequest{
		Key:       fmt.Sprintf("checkout-%s-%d-%s", session.ID, openedAt.UnixMicro(), lang),
		SessionID: session.ID, Amount: session.Amount, ExpiresAt: expires, Language: lang,
		SuccessURL: session.CheckoutURL + "?" + DoneParameter + "=" + DoneSuccess,
		CancelURL:  session.CheckoutURL + "?" + DoneParameter + "=" + DoneCancelled,
	}
}

// CancelCheckout ends a session that the client does not want to pay, at its provider first. ErrSessionClosed when it
// is paid, being paid or over.
func (s *Service) CancelCheckout(ctx context.Context, sessionID string) error {
	session, err := s.Get(ctx, s.db.Read(), sessionID)
	if err != nil {
		return err
	}
	pending, err := s.Pending(ctx, s.db.Read(), sessionID)
	if err != nil {
		return err
	}
	// One that has run out here may still be paid at its provider.
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

// Pending tells whether the client has paid in a way that takes its time, and the money has not come yet.
func (s *Service) Pending(ctx context.Context, tx postgres.Tx, sessionID string) (bool, error) {
	pending, err := isPending(ctx, tx, sessionID)
	if err != nil {
		return false, fmt.Errorf("read notices of checkout: %w", err)
	}
	return pending, nil
}
