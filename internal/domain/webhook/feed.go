package webhook

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"partnerd/internal/infra/postgres"
)

// StoredEvent is an event as it was written.
type StoredEvent struct {
	ID             string
	ConsultationID string // subject of the event: this or ClientID; a test event has neither
	ClientID       string
	Type           Type
	Sequence       int64
	Position       int64  // in the application's list; 0 if not assigned yet
	Body           []byte // exactly what is sent
	CreatedAt      time.Time
}

// Test reports whether this is a test event, for which nothing happened.
func (e StoredEvent) Test() bool { return e.ConsultationID == "" && e.ClientID == "" }

// EventPage is a page of an application's event list, oldest first.
type EventPage struct {
	Items []StoredEvent
	Last  int64 // pass it to get the following events, now or later
	More  bool  // more events exist
	Gap   bool  // [Service.Purge] removed events between the requested position and the first item
}

// maxNumbered is how many events one call of [Service.Events] assigns positions to.
const maxNumbered = 500

// Events lists up to limit events (1 to 100; 0 means 20) of an application after a position, where 0 means from the
// oldest.
//
// A reader who continues from Last gets every committed event exactly once, in whatever order transactions commit. An
// event gets its position here, once it is visible, under the lock of the endpoint. So no later event can get a lower
// position. It returns NOT_FOUND.
func (s *Service) Events(ctx context.Context, applicationID string, after int64,
	limit int,
) (page EventPage, err error) {
	limit = min(cmp.Or(max(limit, 0), 20), 100)
	err = s.withPositions(ctx, applicationID, func(tx postgres.Tx) error {
		page.Items, err = selectEvents(ctx, tx, applicationID, after, limit+1)
		return err
	})
	if err != nil {
		return EventPage{}, err
	}
	if page.More = len(page.Items) > limit; page.More {
		page.Items = page.Items[:limit]
	}
	page.Last = after
	if n := len(page.Items); n > 0 {
		page.Last = page.Items[n-1].Position
		page.Gap = after > 0 && page.Items[0].Position != after+1
	}
	return page, nil
}

// Event returns an event of the application, or NOT_FOUND.
func (s *Service) Event(ctx context.Context, tx postgres.Tx, applicationID, eventID string) (StoredEvent, error) {
	return selectEvent(ctx, tx, applicationID, eventID)
}

// EventsBefore lists up to limit (1 to 100) events of an application before a position (0: the newest), newest first.
// Positions are as in [Service.Events]. It returns NOT_FOUND.
func (s *Service) EventsBefore(ctx context.Context, applicationID string, before int64,
	limit int,
) (items []StoredEvent, err error) {
	err = s.withPositions(ctx, applicationID, func(tx postgres.Tx) error {
		items, err = selectEventsBefore(ctx, tx, applicationID, before, min(max(limit, 1), 100))
		return err
	})
	return items, err
}

// withPositions runs list after all committed events of an application have positions.
func (s *Service) withPositions(ctx context.Context, applicationID string, list func(tx postgres.Tx) error) error {
	err := s.db.InTx(ctx, func(tx postgres.Tx) error {
		last, err := lockPositions(ctx, tx, applicationID)
		if err != nil {
			return err
		}
		if err := numberEvents(ctx, tx, applicationID, last, maxNumbered); err != nil {
			return err
		}
		return list(tx)
	})
	if err != nil {
		return fmt.Errorf("list events of %s: %w", applicationID, err)
	}
	return nil
}
