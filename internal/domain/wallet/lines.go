package wallet

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
)

// LineState is how far the money of a line is.
type LineState string

// The states of lines.
const (
	Booked   LineState = "BOOKED"   // a movement by itself: a top-up, an adjustment
	Reserved LineState = "RESERVED" // for a consultation under way
	Released LineState = "RELEASED" // the reservation ended without a charge
	Paid     LineState = "PAID"
	Refunded LineState = "REFUNDED" // paid, and given back, all or in part
)

// LineStates lists them.
func LineStates() []LineState { return []LineState{Booked, Reserved, Released, Paid, Refunded} }

// Line is what people read of a wallet: a consultation is one line, whatever its money went through, and every other
// movement is one. The amounts of all lines sum to what is available.
type Line struct {
	Seq            int64 // of its first movement, by which lines are in order
	Type           Type  // of its first movement; HOLD for a consultation
	State          LineState
	Amount         money.Cents // what the line takes from what is available, or adds to it, up to now
	Available      money.Cents // sum of this line and those before it: of the newest line, what is available now
	Refunded       money.Cents // given back after the charge
	ApplicationID  string      // as in [Transaction]
	ConsultationID string
	Description    string    // of its first movement, in English
	CreatedAt      time.Time // of its first movement
}

// Lines lists the client's lines, newest first: those that begin below beforeSeq (0 means from the newest), at most
// limit of them. more tells whether older ones exist.
func (s *Service) Lines(ctx context.Context, tx postgres.Tx, clientID string, beforeSeq int64,
	limit int,
) (items []Line, more bool, err error) {
	items, err = listLines(ctx, tx, clientID, beforeSeq, limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("list wallet lines: %w", err)
	}
	if len(items) > limit {
		return items[:limit], true, nil
	}
	return items, false, nil
}
