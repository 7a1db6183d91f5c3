package matching

import (
	"context"
	"time"

	"partnerd/internal/infra/postgres"
)

// Limits of waking.
const (
	wakeAtOnce = 3                // lawyers for one consultation
	wakeNext   = 15 * time.Minute // until others are woken for the same one
	wakeAgain  = time.Hour        // until the same lawyer is woken for another one
	wakeDaily  = 3                // times that a lawyer is woken on one of his days; the table holds it, too
)

// Woken is a lawyer who is to be told that work waits.
type Woken struct{ ID, Email, Name, TimeZone string }

// Unattended keeps of pairs those of which no lawyer is there, idle or busy.
func (s *Service) Unattended(ctx context.Context, tx postgres.Tx, pairs ...Pair) ([]Pair, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	return pairsOf(ctx, tx, unattendedSQL, pairs)
}

// Wake chooses lawyers of the pair of w who are to be told that it waits: those in their hours, and when it is due soon
// those on call, too; the least often woken first. Not one who was told of it before, or who has refused it. What it
// returns is recorded in tx: of several processes one tells him. The caller holds the consultation's lock, and knows
// that the pair is [Service.Unattended].
func (s *Service) Wake(ctx context.Context, tx postgres.Tx, w Work, soon bool) ([]Woken, error) {
	return wake(ctx, tx, w, soon)
}
