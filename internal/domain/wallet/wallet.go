package wallet

import (
	"errors"
	"fmt"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
)

// ErrInsufficientFunds is returned for a movement that exceeds the available money (specification section 7).
var ErrInsufficientFunds = problem.Declare(problem.Conflict, "INSUFFICIENT_FUNDS",
	"The wallet's available funds do not cover this amount; top up and try again.")

// MaxAdjustment is the most that one adjustment can move, in cents, up or down. It keeps a typing error from bringing
// the ledger near overflow.
const MaxAdjustment money.Cents = 100_000_000

// Errors that no partner can cause.
var (
	// absent, captured or released
	ErrHoldEnded = errors.New("consultation has no active hold")
	// not captured, captured for less, or already refunded
	ErrNotRefundable = errors.New("consultation has no captured amount left to refund")
	// the amount is not the price
	ErrFees    = errors.New("fees of lawyer and platform do not add up to the hold")
	ErrTooMuch = fmt.Errorf("an adjustment moves at most %d cents", MaxAdjustment)
	ErrAmount  = errors.New("amount of a movement must be positive, of an adjustment not zero")
)

// Balance is the state of a wallet, in cents. Available + Held = Balance.
type Balance struct {
	Balance   money.Cents // all money of the client
	Available money.Cents // can be reserved; never negative
	Held      money.Cents // reserved by open consultations; never negative
}

// HoldCommand reserves Amount cents for a consultation.
type HoldCommand struct {
	ClientID, ApplicationID, ConsultationID string
	Amount                                  money.Cents
}

// Correction is an adjustment by an operator.
type Correction struct {
	ClientID string
	Amount   money.Cents // positive or negative
	Actor    string      // who corrects
	Reason   string      // not shown to the client
	Entry    string      // ID of the audit entry, to prevent correcting twice; empty means a new ID
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

// The descriptions of adjustments, by which pages tell them apart. Ledgers contain these texts, so add a new
// description instead of changing one.
const (
	OpeningBalance     = "Opening balance"
	SandboxMoney       = "Sandbox money"                 // given to a test client when it is created
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
	// signed change: of the available amount for HOLD and RELEASE, of the balance for all others
	Amount         money.Cents
	BalanceAfter   money.Cents
	AvailableAfter money.Cents
	ApplicationID  string // empty if no application took part
	ConsultationID string // empty if there is none; show it only to ApplicationID (T29)
	Description    string // English
	CreatedAt      time.Time
}
