package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"partnerd/internal/base/money"
)

// Provider takes payments. Every call that changes something at the provider carries an idempotency key, so it can be
// retried safely. No call is made inside a transaction.
type Provider interface {
	// Name returns the name of the provider in the database and in the path of its notices.
	Name() string
	// CreateCheckout creates the provider's session for one of ours. The URL is empty if the client pays on our own
	// page.
	CreateCheckout(ctx context.Context, r CheckoutRequest) (Checkout, error)
	// Expire ends an unpaid session. It returns [ErrRefused] if the session is paid or over.
	Expire(ctx context.Context, ref string) error
	// SignatureHeader returns the HTTP header that carries the signature of a notice.
	SignatureHeader() string
	// ReadNotice verifies and parses a notice. acted is false for an irrelevant notice, which n still identifies. It
	// returns [ErrBadSignature], [ErrBadNotice], or [ErrForeignNotice], for which n also identifies the notice.
	ReadNotice(body []byte, signature string, now time.Time) (n Notice, acted bool, err error)
	// Refund refunds a payment to its source, in full or in part, and returns the provider's reference.
	Refund(ctx context.Context, r RefundRequest) (ref string, err error)
}

// ErrRefused is a provider's final refusal, for which a retry is useless. Any other error may be temporary.
var ErrRefused = errors.New("the payment provider refuses")

// CheckoutRequest asks a provider for a session. Repeating a request creates one session.
type CheckoutRequest struct {
	Key                   string // idempotency key of this attempt
	SessionID             string // our session
	Amount                money.Cents
	ExpiresAt             time.Time
	SuccessURL, CancelURL string // pages of ours
	Language              string // of the payment page; a supported language
}

// Checkout is a provider's session.
type Checkout struct {
	Ref string
	URL string // where the client pays; empty: on our own page
}

// RefundRequest asks a provider for a refund. Repeating an ID refunds once, however much later.
type RefundRequest struct {
	ID         string
	PaymentRef string // the provider's payment, from its notice
	TopUpID    string
	Amount     money.Cents
	Again      bool // a retry: an earlier attempt may have arrived
}

// builtin is the provider of a sandbox. Its checkout page is ours (package web); package sandbox sends its notices.
type builtin struct{ secret string }

func (builtin) Name() string            { return SandboxProvider }
func (builtin) SignatureHeader() string { return SignatureHeader }

func (builtin) CreateCheckout(context.Context, CheckoutRequest) (Checkout, error) {
	return Checkout{}, nil
}

func (builtin) Expire(context.Context, string) error { return nil }

func (builtin) Refund(_ context.Context, r RefundRequest) (string, error) {
	return "simulated " + r.ID, nil
}

func (b builtin) ReadNotice(body []byte, signature string, now time.Time) (Notice, bool, error) {
	if err := verifyNotice(b.secret, signature, body, now); err != nil {
		return Notice{}, false, err
	}
	var n Notice
	if err := json.Unmarshal(body, &n); err != nil {
		return Notice{}, false, fmt.Errorf("%w: %w", ErrBadNotice, err)
	}
	return n, true, nil
}

const (
	maxNotice = 64 << 10 // bytes
	maxText   = 255      // bytes per text in a notice
)

// check rejects a notice that cannot be stored.
func (n Notice) check() error {
	what := n.SessionID
	if n.Reversal != nil {
		what = n.PaymentRef
		if n.Reversal.Ref == "" || !storable(n.Reversal.Ref) || !storable(n.Reversal.RefundID) || n.AmountCents < 0 {
			return fmt.Errorf("%w: a dispute or refund without its reference, or of less than nothing", ErrBadNotice)
		}
	}
	for _, text := range []string{n.ID, string(n.Type), what, n.Currency} {
		if text == "" || !storable(text) {
			return fmt.Errorf("%w: a text is missing, too long or not storable", ErrBadNotice)
		}
	}
	if !storable(n.ProviderRef) || !storable(n.PaymentRef) {
		return fmt.Errorf("%w: a reference is too long or not storable", ErrBadNotice)
	}
	return nil
}

func storable(text string) bool {
	return len(text) <= maxText && utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}
