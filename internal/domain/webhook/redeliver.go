package webhook

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// Redeliver sends a delivery again, once its endpoint accepts deliveries, with a whole new schedule.
//
// The ID stays the same, so an endpoint that has the delivery ignores it. asNew creates a delivery with another ID for
// the same event, for an endpoint that lost data (trap T10). A delivery that waits for its next attempt gets it now. A
// delivery in progress stays unchanged. It returns NOT_FOUND.
func (s *Service) Redeliver(ctx context.Context, tx postgres.Tx, applicationID, deliveryID string,
	asNew bool,
) (Delivery, error) {
	d, err := selectDelivery(ctx, tx, applicationID, deliveryID)
	if err != nil {
		return Delivery{}, err
	}
	target := redelivery{ID: deliveryID, State: d.State}
	if asNew || d.State != Pending {
		if room, err := pendingRoom(ctx, tx, applicationID); err != nil || room == 0 {
			return Delivery{}, cmp.Or(err, errPending)
		}
	}
	if asNew {
		target.NewID = tx.NewID(id.Delivery)
		d.ID = target.NewID
	}
	if err := redeliver(ctx, tx, []redelivery{target}); err != nil {
		return Delivery{}, fmt.Errorf("redeliver %s: %w", deliveryID, err)
	}
	tx.AfterCommit(s.wakeUp)
	return selectDelivery(ctx, tx, applicationID, d.ID)
}

// RedeliveryFilter selects deliveries to send again after an outage.
type RedeliveryFilter struct {
	From, To time.Time // creation time; To is exclusive; at most maxRedeliverySpan apart
	All      bool      // include delivered ones
	AsNew    bool      // use new IDs, except for those that still have attempts left
	After    Position  // last delivery of the previous part; zero at first
}

const (
	maxRedeliverySpan = 31 * 24 * time.Hour
	maxRedelivered    = 5000 // per call

	// maxPending is the number of pending deliveries of an application up to which requests may add more. Real events
	// are not limited.
	maxPending  = 20_000
	pendingWait = time.Minute // suggested wait before another request
)

var errPending error = problem.ErrRateLimited.Because("At least %d deliveries are pending. Wait until some have ended.",
	maxPending).After(pendingWait)

// pendingRoom returns how many pending deliveries a request may add. It locks the number for the application until the
// transaction ends.
func pendingRoom(ctx context.Context, tx postgres.Tx, applicationID string) (int, error) {
	n, err := countPending(ctx, tx, applicationID, maxPending)
	if err != nil {
		return 0, fmt.Errorf("count pending deliveries of %s: %w", applicationID, err)
	}
	return maxPending - n, nil
}

var ruleSpan = problem.DeclareRule("span", problem.IssueInvalidValue,
	"Must be later than the start, by at most %d days.")

// RedeliverRange applies [Service.Redeliver] to the newest delivery of every event in a time range, oldest first. It
// returns how many it processed, and where to continue if more remain. It returns VALIDATION_ERROR, or RATE_LIMITED if
// too many are pending.
func (s *Service) RedeliverRange(ctx context.Context, tx postgres.Tx, applicationID string,
	f RedeliveryFilter,
) (count int, next *Position, err error) {
	if span := f.To.Sub(f.From); span <= 0 || span > maxRedeliverySpan {
		return 0, nil, problem.ErrValidation.With(ruleSpan.At("to", int(maxRedeliverySpan/(24*time.Hour))))
	}
	found, err := selectRedeliveries(ctx, tx, applicationID, f, maxRedelivered+1)
	if err != nil {
		return 0, nil, fmt.Errorf("find deliveries to send again: %w", err)
	}
	room, err := pendingRoom(ctx, tx, applicationID)
	if err != nil {
		return 0, nil, err
	}
	if n := redeliverable(found, room); n < len(found) {
		if n == 0 {
			return 0, nil, errPending
		}
		found = found[:n]
		last := found[n-1]
		next = &Position{last.CreatedAt, last.ID}
	}
	if f.AsNew {
		for i := range found {
			if found[i].State != Pending {
				found[i].NewID = tx.NewID(id.Delivery)
			}
		}
	}
	if err := redeliver(ctx, tx, found); err != nil {
		return 0, nil, fmt.Errorf("redeliver %d deliveries: %w", len(found), err)
	}
	tx.AfterCommit(s.wakeUp)
	return len(found), next, nil
}

// redeliverable returns how many of the first targets one call may send again if room of them may become pending.
func redeliverable(found []redelivery, room int) int {
	for i, r := range found[:min(len(found), maxRedelivered)] {
		if r.State == Pending {
			continue
		}
		if room--; room < 0 {
			return i
		}
	}
	return min(len(found), maxRedelivered)
}
