package matching

import (
	"context"
	"time"

	"partnerd/internal/infra/postgres"
)

// Limits for waking lawyers.
const (
	wakeAtOnce = 3                // lawyers per consultation
	wakeNext   = 15 * time.Minute // until more are woken for the same consultation
	wakeAgain  = time.Hour        // until the same lawyer is woken for another consultation
	wakeDaily  = 3                // per lawyer and day in their time zone; the table enforces it too
)

// Woken is a lawyer to notify that work waits.
type Woken struct{ ID, Email, Name, TimeZone string }

// Unattended returns the pairs for which no lawyer is present, idle or busy.
func (s *Service) Unattended(ctx context.Context, tx postgres.Tx, pairs ...Pair) ([]Pair, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	return pairsOf(ctx, tx, unattendedSQL, pairs)
}

// Wake chooses lawyers of the pair of w to notify that it waits. It chooses lawyers within their hours, and if w is due
// soon also those on call; the least often woken come first. Lawyers who were notified of w before, or refused it, are
// left out. The choice is recorded in tx, so that only one of several processes notifies a lawyer. The caller must hold
// the consultation's lock and know that the pair is [Service.Unattended].
func (s *Service) Wake(ctx context.Context, tx postgres.Tx, w Work, soon bool) ([]Woken, error) {
	return wake(ctx, tx, w, soon)
}
