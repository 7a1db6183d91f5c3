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

// Provider takes money. Every call that changes something there carries a key, so that repeating it is harmless; none
// is made inside a transaction.
type Provider interface {
	// Name is that of the provider in the database and in the path of its notices.
	Name() string
	// CreateCheckout makes the provider's session for one of ours. The URL is empty when the checkout page is our own.
	CreateCheckout(ctx context.Context, r CheckoutRequest) (Checkout, error)
	// Expire ends a session that nobody has paid. [ErrRefused] when it is paid or over.
	Expire(ctx context.Context, ref string) error
	// SignatureHeader is the HTTP header with the signature of a notice.
	SignatureHeader() string
	// ReadNotice verifies and reads what the provider posted. acted is false for what does not concern us: n names it.
	// [ErrBadSignature], [ErrBadNotice], or [ErrForeignNotice], with which n names the notice, too.
	ReadNotice(body []byte, signature string, now time.Time) (n Notice, acted bool, err error)
	// Refund gives a payment back to its source, all or in part, and returns the provider's reference.
	Refund(ctx context.Context, r RefundRequest) (ref string, err error)
}

// ErrRefused is a provider's final no: asking again in the same way is of no use. Any other error may pass.
var ErrRefused = errors.New("the payment provider refuses")

// CheckoutRequest asks a provider for a session. The same request twice makes one.
type CheckoutRequest struct {
	Key                   string // of this attempt
	SessionID             string // ours
	Amount                money.Cents
	ExpiresAt             time.Time
	SuccessURL, CancelURL string // pages of ours
	Language              string // in which the client pays, one of the product's
}

// Checkout is a provider's session.
type Checkout struct {
	Ref string
	URL string // where the client pays; empty: on our own page
}

// RefundRequest asks a provider to give money back. The same ID twice gives it back once, however much later.
type RefundRequest struct {
	ID         string
	PaymentRef string // what the provider's notice called the payment
	TopUpID    string
	Amount     money.Cents
	Again      bool // it was asked for before, and may have arrived
}

// builtin is the provider of a sandbox. Its checkout page is ours (package web), its notices come from package sandbox.
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
	maxText   = 255      // bytes of each text in a notice
)

// check refuses a notice that cannot be kept.
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
