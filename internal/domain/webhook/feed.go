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
	ConsultationID string // what it is about: this or ClientID; neither: a test event
	ClientID       string
	Type           Type
	Sequence       int64
	Position       int64  // in the application's list; 0 when it has none yet
	Body           []byte // exactly what is sent
	CreatedAt      time.Time
}

// Test tells whether nothing happened for the event.
func (e StoredEvent) Test() bool { return e.ConsultationID == "" && e.ClientID == "" }

// EventPage is a part of an application's event list, oldest first.
type EventPage struct {
	Items []StoredEvent
	Last  int64 // pass it to get what follows, now or later
	More  bool  // events follow already
	Gap   bool  // events between the position asked for and the first item were removed by [Service.Purge]
}

// maxNumbered is how many events get their position by one call of [Service.Events].
const maxNumbered = 500

// Events lists the events of an application after a position (0: from the oldest), at most limit (1 to 100; 0 means
// 20). An event that committed is on exactly one page of a reader who goes on from Last, whatever the order in which
// transactions committed: it gets its position here, when it can be seen, under the lock of the endpoint, so that no
// later event can get a lower one. Problem: NOT_FOUND.
func (s *Service) Events(ctx context.Context, applicationID string, after int64,
	limit int,
) (page EventPage, err error) {
	limit = min(cmp.Or(max(limit, 0), 20), 100)
	err = s.numbered(ctx, applicationID, func(tx postgres.Tx) error {
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

// Event returns an event of the application. Problem: NOT_FOUND.
func (s *Service) Event(ctx context.Context, tx postgres.Tx, applicationID, eventID string) (StoredEvent, error) {
	return selectEvent(ctx, tx, applicationID, eventID)
}

// EventsBefore lists the events of an application before a position (0: the newest), the newest first, at most limit (1
// to 100). Positions are given as by [Service.Events]. Problem: NOT_FOUND.
func (s *Service) EventsBefore(ctx context.Context, applicationID string, before int64,
	limit int,
) (items []StoredEvent, err error) {
	err = s.numbered(ctx, applicationID, func(tx postgres.Tx) error {
		items, err = selectEventsBefore(ctx, tx, applicationID, before, min(max(limit, 1), 100))
		return err
	})
	return items, err
}

// numbered lists events of an application once all that are committed have their positions.
func (s *Service) numbered(ctx context.Context, applicationID string, list func(tx postgres.Tx) error) error {
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
