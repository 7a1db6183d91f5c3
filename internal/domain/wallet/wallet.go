package wallet

import (
	"errors"
	"fmt"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
)

// ErrInsufficientFunds refuses a movement that the available money does not cover (specification section 7).
var ErrInsufficientFunds = problem.Declare(problem.Conflict, "INSUFFICIENT_FUNDS",
	"The wallet's available funds do not cover this amount; top up and try again.")

// MaxAdjustment is the most cents that one adjustment moves, up or down: a slip of the hand must not bring the books to
// where sums overflow.
const MaxAdjustment money.Cents = 100_000_000

// Faults that no partner can cause.
var (
	// absent, captured or released
	ErrHoldEnded = errors.New("consultation has no active hold")
	// not captured, less was captured, or refunded before
	ErrNotRefundable = errors.New("consultation has no captured amount left to refund")
	// the amount is not the price
	ErrFees    = errors.New("fees of lawyer and platform do not add up to the hold")
	ErrTooMuch = fmt.Errorf("an adjustment moves at most %d cents", MaxAdjustment)
	ErrAmount  = errors.New("amount of a movement must be positive, of an adjustment not zero")
)

// Balance is the state of a wallet, in cents. Available + Held = Balance.
type Balance struct {
	Balance   money.Cents // all money of the client
	Available money.Cents // what can be reserved; never negative
	Held      money.Cents // reserved by active consultations; never negative
}

// HoldCommand reserves Amount cents for a consultation.
type HoldCommand struct {
	ClientID, ApplicationID, ConsultationID string
	Amount                                  money.Cents
}

// Correction is an adjustment by an operator.
type Correction struct {
	ClientID string
	Amount   money.Cents // up or down
	Actor    string      // who corrects
	Reason   string      // why; not shown to the client
	Entry    string      // identifier of the audit entry, for whoever must not correct twice; empty: a new one
}

// Type is the kind of a ledger transaction (decision H1).
type Type string

// The types of ledger transactions.
const (
	TopUp      Type = "TOPUP"
	Hold       Type = "HOLD"
	Release    Type = "RELEASE"
	Capture    Type = "CAPTURE"
	Refund     Type = "REFUND"
	Adjustment Type = "ADJUSTMENT"
)

// Descriptions of adjustments, by which pages tell them apart. Ledgers hold these texts: a change is a new description.
const (
	OpeningBalance     = "Opening balance"
	SandboxMoney       = "Sandbox money"                 // with which a test client was created
	TopUpReturned      = "Top-up returned to its source" // by [Service.Withdraw]
	PaymentTakenBack   = "Payment taken back by the bank"
	PaymentRestored    = "Payment restored by the bank"
	OperatorCorrection = "Correction" // by an operator
)

// Transaction is one movement of a wallet (specification section 2.3, decision H1).
type Transaction struct {
	ID   string
	Type Type
	Seq  int64 // 1, 2, 3 … within the wallet
	// signed, from the point of view of what it moves: HOLD and RELEASE available, the others the balance
	Amount         money.Cents
	BalanceAfter   money.Cents
	AvailableAfter money.Cents
	ApplicationID  string // empty when no application took part
	ConsultationID string // empty when it concerns none; to be shown to ApplicationID alone (T29)
	Description    string // English
	CreatedAt      time.Time
}
