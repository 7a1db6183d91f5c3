package payment

import (
	"errors"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/wallet"
)

// SandboxProvider is the name of a sandbox's built-in provider, used in the path of its notices.
const SandboxProvider = "sandbox"

// Limits of decisions H29 and H30: amounts in cents, and a duration.
const (
	MinTopUp                         = wallet.Price // one consultation
	DefaultMaxTopUp      money.Cents = 100_000
	DefaultWalletCeiling money.Cents = 200_000
	SessionLifetime                  = time.Hour
)

// providerRetryAfter is the Retry-After without a provider, which needs a restart of the program.
const providerRetryAfter = 5 * time.Minute

// ErrWalletLimitExceeded is returned for a top-up that would raise the balance above the ceiling (decision H29).
var ErrWalletLimitExceeded = problem.Declare(problem.Conflict, "WALLET_LIMIT_EXCEEDED",
	"This top-up would raise the balance above the wallet limit. Choose a smaller amount.")

// Errors that partners do not see.
var (
	ErrSessionClosed   = errors.New("checkout session is paid, cancelled or expired")
	ErrUnknownProvider = errors.New("unknown payment provider")
	ErrBadSignature    = errors.New("payment notice is not signed by the provider, or not recently")
	ErrBadNotice       = errors.New("payment notice is malformed")
	ErrForeignNotice   = errors.New("payment notice is of another account or mode")
)

// Status is the status of a top-up session.
type Status string

// The statuses of a session.
const (
	Open      Status = "OPEN"
	Paid      Status = "PAID"
	Cancelled Status = "CANCELLED"
	Expired   Status = "EXPIRED" // derived from the time
)

// Session is a checkout that a client may pay once.
type Session struct {
	ID            string      `gorm:"column:id;primaryKey"`
	ClientID      string      `gorm:"column:client_id"`
	ApplicationID string      `gorm:"column:application_id;serializer:zeronull"`
	Amount        money.Cents `gorm:"column:amount_cents"`
	ReturnURL     string      `gorm:"column:return_url"` // empty after the client was erased
	CheckoutURL   string      `gorm:"column:checkout_url"`
	Provider      string      `gorm:"column:provider"`
	// the provider's session; empty until the client first opens it
	ProviderRef string `gorm:"column:provider_ref;serializer:zeronull"`
	// the provider's payment; empty until paid
	PaymentRef string `gorm:"column:payment_ref;serializer:zeronull"`
	// at the time of the reading transaction; never Expired in the table
	Status    Status    `gorm:"column:status"`
	Reversed  Reversed  `gorm:"embedded"`
	CreatedAt time.Time `gorm:"column:created_at;autoCreateTime:false"`
	ExpiresAt time.Time `gorm:"column:expires_at"`
}

// CreateCommand is the input of [Service.Create]. ReturnURL is where the client's browser may go afterwards.
type CreateCommand struct {
	ClientID, ApplicationID string
	Amount                  money.Cents
	ReturnURL               string
}

// Kind is the kind of a notice.
type Kind string

// The kinds of notices that have an effect.
const (
	CheckoutPaid      Kind = "checkout.paid"
	CheckoutCancelled Kind = "checkout.cancelled"
	CheckoutPending   Kind = "checkout.pending" // paid by a slow method
	CheckoutFailed    Kind = "checkout.failed"  // the slow method failed
	CheckoutExpired   Kind = "checkout.expired" // the provider no longer accepts payment
	// the client's bank claims the money back; also every later update of the dispute
	PaymentDisputed Kind = "payment.disputed"
	// one refund, ours or made at the provider; also every later update of the refund
	PaymentRefunded  Kind = "payment.refunded"
	PaymentRefundSum Kind = "payment.refund_sum" // the total refunded of a payment
)

// Notice is a webhook of a payment provider. The JSON form is that of the built-in provider.
type Notice struct {
	ID          string      `json:"id"` // unique per provider; a repeated ID is ignored
	Type        Kind        `json:"type"`
	SessionID   string      `json:"sessionId"`
	AmountCents money.Cents `json:"amountCents"`
	Currency    string      `json:"currency"`
	CreatedAt   time.Time   `json:"createdAt"`

	ProviderRef string `json:"-"` // the provider's session
	PaymentRef  string `json:"-"` // the provider's payment

	Reversal *Reversal `json:"-"` // set for a dispute or refund, which has a PaymentRef but no SessionID
}

// Reversal describes a dispute or refund; the amount is the notice's AmountCents.
type Reversal struct {
	Ref      string // the provider's dispute, refund or charge
	RefundID string // our ID of the refund; empty if we did not request it
	Gone     bool   // the provider took the money
	Back     bool   // the provider returned it, or is not moving it after all
}
