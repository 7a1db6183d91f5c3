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
	noticePoll         = 500 * time.Millisecond // finds decisions of other processes and due retries
	noticeTimeout      = 5 * time.Second
	noticeLease        = 2 * noticeTimeout // a crash during an attempt delays the next one by this long
	noticeBatch        = 16
	noticeWorkers      = 4
	longestNoticePause = time.Minute
)

// ErrDecided is returned for paying a cancelled checkout, or cancelling a paid one.
var ErrDecided = errors.New("checkout is decided the other way already")

// Payments is the payment provider of a sandbox. Clients decide on the checkout page. Like a real provider, it then
// sends signed notices over HTTP, and repeats each until it is accepted. Decisions and notices are rows, so they
// outlive the process.
type Payments struct {
	db        *postgres.DB
	payments  *payment.Service
	noticeURL string
	secret    string
	client    *http.Client
	log       *slog.Logger
	wake      chan struct{}
}

// NewPayments creates the provider. It posts its notices to noticeURL, signed with secret.
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

// Pay handles the client's click on "pay". The money counts as taken, and a notice will say so. The cents of the amount
// may instead make the payment fail or be slow. Paying again changes nothing.
//
// It returns ErrDecided after a cancellation, payment.ErrSessionClosed if it is too late, NOT_FOUND or
// WALLET_LIMIT_EXCEEDED.
func (p *Payments) Pay(ctx context.Context, tx postgres.Tx, sessionID string) error {
	return p.decide(ctx, tx, sessionID, payment.CheckoutPaid)
}

// Cancel handles the client's click on "cancel". Cancelling again changes nothing. It returns ErrDecided after a
// payment, payment.ErrSessionClosed if the session is over, or NOT_FOUND.
func (p *Payments) Cancel(ctx context.Context, tx postgres.Tx, sessionID string) error {
	return p.decide(ctx, tx, sessionID, payment.CheckoutCancelled)
}

// Decision returns what the client decided, even while the notice is on its way. It returns false before a decision.
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
	if !first { // a concurrent click has decided
		decided, _, err := p.Decision(ctx, tx, sessionID)
		return against(decided, kind, err)
	}
	tx.AfterCommit(p.nudge)
	return nil
}

// against returns ErrDecided if the decision was the opposite. A declined payment counts as paid.
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

// Run posts due notices until ctx ends, then returns nil. It is safe to run in several processes.
func (p *Payments) Run(ctx context.Context) error {
	return poll.Loop{Name: "post sandbox payment notices", Every: noticePoll, Wake: p.wake, Log: p.log}.Run(ctx,
		func(ctx context.Context) (bool, error) {
			n, err := p.post(ctx)
			return n == noticeBatch, err
		})
}

// post makes one attempt for up to [noticeBatch] due notices and returns how many there were.
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

// attempt posts one notice. If the service rejects it, attempt schedules a retry and returns no error.
func (p *Payments) attempt(ctx context.Context, n noticeRow) error {
	refusal := p.send(ctx, n.Body)
	if ctx.Err() != nil {
		return nil // retried when the lease ends
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
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be reused
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	return nil
}

// noticePause returns the time before the next attempt: 1 s, 2 s, 4 s … up to a minute.
func noticePause(attempts int) time.Duration {
	if attempts > 6 {
		return longestNoticePause
	}
	return min(time.Second<<max(attempts-1, 0), longestNoticePause)
}
