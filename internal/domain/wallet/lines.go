package wallet

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
)

// LineState is the state of a line's money.
type LineState string

// The states of a line.
const (
	Booked   LineState = "BOOKED"   // a single movement: a top-up or an adjustment
	Reserved LineState = "RESERVED" // reserved for an open consultation
	Released LineState = "RELEASED" // the reservation ended without a charge
	Paid     LineState = "PAID"
	Refunded LineState = "REFUNDED" // charged, then refunded in full or in part
)

// LineStates lists all states.
func LineStates() []LineState { return []LineState{Booked, Reserved, Released, Paid, Refunded} }

// Line is an entry of a wallet as people read it. All movements of a consultation form one line; every other movement
// is a line of its own. The amounts of all lines sum to the available amount.
type Line struct {
	Seq            int64 // of its first movement; lines are sorted by it
	Type           Type  // of its first movement; HOLD for a consultation
	State          LineState
	Amount         money.Cents // total change of the available amount so far
	Available      money.Cents // sum of this line and all earlier ones; for the newest line, the available amount now
	Refunded       money.Cents // refunded after the charge
	ApplicationID  string      // as in [Transaction]
	ConsultationID string
	Description    string    // of its first movement, in English
	CreatedAt      time.Time // of its first movement
}

// Lines returns up to limit lines of the client, newest first. It returns lines whose first movement is below
// beforeSeq, or the newest ones if beforeSeq is 0. more reports whether older lines exist.
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
