package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"partnerd/internal/base/id"
	"partnerd/internal/base/money"
	"partnerd/internal/base/poll"
	"partnerd/internal/domain/payment"
	"partnerd/internal/infra/postgres"
)

const (
	noticePoll         = 500 * time.Millisecond // finds what another process decided, and what is due again
	noticeTimeout      = 5 * time.Second
	noticeLease        = 2 * noticeTimeout // after a crash during an attempt the next one comes then
	noticeBatch        = 16
	noticeWorkers      = 4
	longestNoticePause = time.Minute
)

// ErrDecided refuses to pay a checkout that was cancelled, or to cancel one that was paid.
var ErrDecided = errors.New("checkout is decided the other way already")

// Payments is the payment provider of a sandbox. Clients decide on the checkout page; it then tells the service by
// signed notices over HTTP, as a real provider does, again and again until they are accepted. Decisions and notices are
// rows, so they outlive the process.
type Payments struct {
	db        *postgres.DB
	payments  *payment.Service
	noticeURL string
	secret    string
	client    *http.Client
	log       *slog.Logger
	wake      chan struct{}
}

// NewPayments makes the provider. It posts its notices to noticeURL, signed with secret.
func NewPayments(db *postgres.DB, payments *payment.Service, noticeURL, secret string, log *slog.Logger) *Payments {
	return &Payments{
		db: db, payments: payments, noticeURL: noticeURL, secret: secret, log: log,
		client: &http.Client{
			Timeout: noticeTimeout,
			// never through a proxy
			Transport:     &http.Transport{MaxConnsPerHost: noticeWorkers, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		wake: make(chan struct{}, 1),
	}
}

// Pay is the client's click on "pay": the money counts as taken, and a notice will say so, unless the cents of the
// amount say that the payment fails or takes its time. Paying again changes nothing. ErrDecided after a cancellation,
// payment.ErrSessionClosed when it is too late; problems NOT_FOUND and WALLET_LIMIT_EXCEEDED.
func (p *Payments) Pay(ctx context.Context, tx postgres.Tx, sessionID string) error {
	return p.decide(ctx, tx, sessionID, payment.CheckoutPaid)
}

// Cancel is the client's click on "cancel". Cancelling again changes nothing. ErrDecided after a payment,
// payment.ErrSessionClosed when the session is over; problem NOT_FOUND.
func (p *Payments) Cancel(ctx context.Context, tx postgres.Tx, sessionID string) error {
	return p.decide(ctx, tx, sessionID, payment.CheckoutCancelled)
}

// Decision tells what the client decided, even while the notice is still under way; false when nothing yet.
func (p *Payments) Decision(ctx context.Context, tx postgres.Tx, sessionID string) (payment.Kind, bool, error) {
	kind, err := readDecision(ctx, tx, sessionID)
	if err != nil {
		return "", false, fmt.Errorf("read checkout decision: %w", err)
	}
	return kind, kind != "", nil
}

func (p *Payments) decide(ctx context.Context, tx postgres.Tx, sessionID string, kind payment.Kind) error {
	if decided, ok, err := p.Decision(ctx, tx, sessionID); err != nil || ok {
		return against(decided, kind, err)
	}
	begin := p.payments.Begin
	if kind == payment.CheckoutCancelled {
		begin = p.payments.Payable
	}
	session, err := begin(ctx, tx, sessionID)
	if err != nil && !(kind == payment.CheckoutCancelled && errors.Is(err, payment.ErrWalletLimitExceeded)) {
		return err
	}
	told, after := kind, time.Duration(0)
	if way, ok := paymentsByCents[session.Amount%100]; ok && kind == payment.CheckoutPaid {
		told, after = way.kind, way.after
	}
	n := payment.Notice{
		ID: tx.NewID(id.Notice), Type: told, SessionID: session.ID, AmountCents: session.Amount,
		Currency: money.Currency, CreatedAt: tx.Now,
	}
	body, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("write notice: %w", err)
	}
	first, err := insertDecision(ctx, tx, n, body, after)
	if err != nil {
		return fmt.Errorf("insert notice: %w", err)
	}
	if !first { // decided by another click meanwhile
		decided, _, err := p.Decision(ctx, tx, sessionID)
		return against(decided, kind, err)
	}
	tx.AfterCommit(p.nudge)
	return nil
}

// against refuses the other decision: whoever pays may be declined.
func against(decided, wanted payment.Kind, err error) error {
	if decided == payment.CheckoutFailed {
		decided = payment.CheckoutPaid
	}
	if err == nil && decided != wanted {
		return ErrDecided
	}
	return err
}

func (p *Payments) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run posts due notices until ctx ends, then returns nil. Any number of processes may run it at once.
func (p *Payments) Run(ctx context.Context) error {
	return poll.Loop{Name: "post sandbox payment notices", Every: noticePoll, Wake: p.wake, Log: p.log}.Run(ctx,
		func(ctx context.Context) (bool, error) {
			n, err := p.post(ctx)
			return n == noticeBatch, err
		})
}

// post makes one attempt for at most [noticeBatch] due notices and returns how many there were.
func (p *Payments) post(ctx context.Context) (int, error) {
	due, err := claimNotices(ctx, p.db.Read(), noticeBatch, noticeLease)
	if err != nil {
		return 0, fmt.Errorf("claim notices: %w", err)
	}
	var g errgroup.Group
	g.SetLimit(noticeWorkers)
	for _, n := range due {
		g.Go(func() error { return p.attempt(ctx, n) })
	}
	return len(due), g.Wait()
}

// attempt posts one notice. The service's refusal is not an error of ours: the notice comes again.
func (p *Payments) attempt(ctx context.Context, n noticeRow) error {
	refusal := p.send(ctx, n.Body)
	if ctx.Err() != nil {
		return nil // the lease brings it back
	}
	if refusal != nil {
		p.log.WarnContext(ctx, "sandbox payment notice not accepted", "notice", n.ID, "attempt", n.Attempts,
			"error", refusal)
		return postponeNotice(ctx, p.db.Read(), n.ID, noticePause(n.Attempts))
	}
	return settleNotice(ctx, p.db.Read(), n.ID)
}

func (p *Payments) send(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.noticeURL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(payment.SignatureHeader, payment.SignNotice(p.secret, p.db.Clock().Now(), body))
	res, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // lets the connection be used again
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	return nil
}

// noticePause is the time before the next attempt: 1 s, 2 s, 4 s … up to a minute.
func noticePause(attempts int) time.Duration {
	if attempts > 6 {
		return longestNoticePause
	}
	return min(time.Second<<max(attempts-1, 0), longestNoticePause)
}
