package webhook

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
	"partnerd/internal/problem"
)

// Redeliver sends a delivery again, as soon as its endpoint takes deliveries, and with the whole schedule before it. The
// identifier stays, so that a receiver that has it ignores it; asNew makes a delivery with another identifier for the
// same event, for a receiver that lost data (decision T10). A delivery that waits for its next attempt gets it now; one
// that is under way is left as it is. Problem: NOT_FOUND.
func (s *Service) Redeliver(ctx context.Context, tx postgres.Tx, applicationID, deliveryID string, asNew bool) (Delivery, error) {
	d, err := selectDelivery(ctx, tx, applicationID, deliveryID)
	if err != nil {
		return Delivery{}, err
	}
	target := redelivery{ID: deliveryID}
	if asNew {
		target.NewID = tx.NewID(id.Delivery)
		d.ID = target.NewID
	}
	if err := redeliver(ctx, tx, []redelivery{target}); err != nil {
		return Delivery{}, fmt.Errorf("redeliver %s: %w", deliveryID, err)
	}
	tx.AfterCommit(s.wakeAll)
	return selectDelivery(ctx, tx, applicationID, d.ID)
}

// RedeliveryFilter selects deliveries to send again after an outage.
type RedeliveryFilter struct {
	From, To time.Time // of their creation; To is excluded; at most maxRedeliverySpan apart
	All      bool      // those that were delivered, too
	AsNew    bool      // under new identifiers, except those that still have attempts before them
	After    Position  // of the last delivery of the part before; zero at first
}

const (
	maxRedeliverySpan = 31 * 24 * time.Hour
	maxRedelivered    = 5000 // by one call
)

// RedeliverRange does what [Service.Redeliver] does to the newest delivery of every event in a range of time, oldest
// first. It returns how many it took, and where to go on when more remain. Problem: VALIDATION_ERROR.
func (s *Service) RedeliverRange(ctx context.Context, tx postgres.Tx, applicationID string, f RedeliveryFilter) (count int, next *Position, err error) {
	if span := f.To.Sub(f.From); span <= 0 || span > maxRedeliverySpan {
		return 0, nil, problem.ErrValidation.With(problem.Issue{
			Path: "to", Code: problem.IssueInvalidValue, Message: "Must be later than from, by 31 days at most."})
	}
	found, err := selectRedeliveries(ctx, tx, applicationID, f, maxRedelivered+1)
	if err != nil {
		return 0, nil, fmt.Errorf("find deliveries to send again: %w", err)
	}
	if len(found) > maxRedelivered {
		found = found[:maxRedelivered]
		last := found[len(found)-1]
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
	tx.AfterCommit(s.wakeAll)
	return len(found), next, nil
}
