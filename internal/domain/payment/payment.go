package payment

import (
	"errors"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/wallet"
)

// SandboxProvider is the name of the built-in provider of a sandbox, in the path of its notices.
const SandboxProvider = "sandbox"

// Limits of decisions H29 and H30, in cents and as duration.
const (
	MinTopUp                         = wallet.Price // one consultation
	DefaultMaxTopUp      money.Cents = 100_000
	DefaultWalletCeiling money.Cents = 200_000
	SessionLifetime                  = time.Hour
)

// retryUnserved is when to ask again where there is no provider: one comes with a new start of the program.
const retryUnserved = 5 * time.Minute

// ErrWalletLimitExceeded refuses a top-up that would lift the balance above the ceiling (decision H29).
var ErrWalletLimitExceeded = problem.Declare(problem.Conflict, "WALLET_LIMIT_EXCEEDED",
	"This top-up would lift the balance above the most a wallet may hold.")

// Faults that partners do not see.
var (
	ErrSessionClosed   = errors.New("checkout session is paid, cancelled or expired")
	ErrUnknownProvider = errors.New("unknown payment provider")
	ErrBadSignature    = errors.New("payment notice is not signed by the provider, or not recently")
	ErrBadNotice       = errors.New("payment notice is malformed")
	ErrForeignNotice   = errors.New("payment notice is of another account or mode")
)

// Status of a top-up session.
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
	ReturnURL     string      `gorm:"column:return_url"` // empty once the client was erased
	CheckoutURL   string      `gorm:"column:checkout_url"`
	Provider      string      `gorm:"column:provider"`
	// the provider's session; empty before the client first opened it
	ProviderRef string `gorm:"column:provider_ref;serializer:zeronull"`
	// the provider's payment; empty before it was paid
	PaymentRef string `gorm:"column:payment_ref;serializer:zeronull"`
	// as of the transaction that read it; never Expired in the table
	Status    Status    `gorm:"column:status"`
	Reversed  Reversed  `gorm:"embedded"`
	CreatedAt time.Time `gorm:"column:created_at;autoCreateTime:false"`
	ExpiresAt time.Time `gorm:"column:expires_at"`
}

// CreateCommand asks for a session. ReturnURL is where the client's browser may go afterwards.
type CreateCommand struct {
	ClientID, ApplicationID string
	Amount                  money.Cents
	ReturnURL               string
}

// Kind of a notice.
type Kind string

// The kinds of notices that are acted on.
const (
	CheckoutPaid      Kind = "checkout.paid"
	CheckoutCancelled Kind = "checkout.cancelled"
	CheckoutPending   Kind = "checkout.pending" // paid in a way that takes its time
	CheckoutFailed    Kind = "checkout.failed"  // the way that took its time came to nothing
	CheckoutExpired   Kind = "checkout.expired" // the provider lets nobody pay any more
	// the client's bank asks for the money back; also every later word on it
	PaymentDisputed Kind = "payment.disputed"
	// one refund, ours or made at the provider; also every later word on it
	PaymentRefunded  Kind = "payment.refunded"
	PaymentRefundSum Kind = "payment.refund_sum" // what was refunded of a payment in all
)

// Notice is what a provider tells us. The JSON is that of the built-in provider.
type Notice struct {
	ID          string      `json:"id"` // unique per provider: a repeated one is ignored
	Type        Kind        `json:"type"`
	SessionID   string      `json:"sessionId"`
	AmountCents money.Cents `json:"amountCents"`
	Currency    string      `json:"currency"`
	CreatedAt   time.Time   `json:"createdAt"`

	ProviderRef string `json:"-"` // the provider's session
	PaymentRef  string `json:"-"` // the provider's payment

	Reversal *Reversal `json:"-"` // of a notice of a dispute or a refund, which names PaymentRef and no SessionID
}

// Reversal is what a provider tells of money that leaves a payment again: AmountCents of the notice.
type Reversal struct {
	Ref      string // the provider's dispute, refund or charge
	RefundID string // our identifier of the refund; empty when we did not ask for it
	Gone     bool   // the provider took the money
	Back     bool   // the provider gave it back, or does not move it after all
}
