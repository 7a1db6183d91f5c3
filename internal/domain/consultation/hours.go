package consultation

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/infra/postgres"
)

// A client is called back only by day (T33): from 08:00 to 21:00 in the client's time zone. A callback is offered until
// 20:40, so that all three attempts to reach the client fit before 21:00. During the search (MATCHING) the client is
// awake, and is called at any hour.
const (
	dayBegins, dayEnds = 8, 21
	lastAttempts       = 20 * time.Minute // covers the offer, the time to dial, and the attempts 5 and 15 minutes later
)

// callHours returns the hours in which a callback may be offered: those of the client's day that has not ended at now.
// Every 24 hours contain at least 11 hours 40 minutes of them, even on a day that has 25 hours. The guarantee of a
// callback therefore holds across the night.
func callHours(now time.Time, zone *time.Location) (from, until time.Time) {
	local := now.In(zone)
	y, m, d := local.Date()
	for {
		from, until = time.Date(y, m, d, dayBegins, 0, 0, 0, zone).UTC(), time.Date(y, m, d, dayEnds, 0, 0, 0, zone).
			Add(-lastAttempts).UTC()
		if now.Before(until) {
			return from, until
		}
		d++
	}
}

// callable reports whether a callback may be offered at now.
func callable(c Consultation, now time.Time) bool {
	return c.CallableFrom != nil && c.CallableUntil != nil && !now.Before(*c.CallableFrom) &&
		now.Before(*c.CallableUntil)
}

// outsideCallHours reports whether it is too early or too late at now to call a client who waits for a callback. The
// hours for calling are longer than those for offering.
func outsideCallHours(c Consultation, now time.Time) bool {
	return c.CallbackDueAt != nil && c.CallableFrom != nil && c.CallableUntil != nil &&
		(now.Before(*c.CallableFrom) || !now.Before(c.CallableUntil.Add(lastAttempts)))
}

// hoursEnd returns when a waiting callback needs the hours of the next day. That is immediately if it has no hours yet.
func hoursEnd(c Consultation) time.Time {
	if c.CallableUntil == nil {
		return c.UpdatedAt
	}
	return *c.CallableUntil
}

// setHours sets the hours of consultations from their clients' day.
func (s *Service) setHours(ctx context.Context, tx postgres.Tx, list ...*Consultation) error {
	clients := make([]string, len(list))
	for i, c := range list {
		clients[i] = c.ClientID
	}
	zones, err := s.deps.Accounts.TimeZones(ctx, tx, clients...)
	if err != nil {
		return fmt.Errorf("read the clients' time zones: %w", err)
	}
	for _, c := range list {
		from, until := callHours(tx.Now, zones[c.ClientID])
		c.CallableFrom, c.CallableUntil = &from, &until
	}
	return nil
}

// ClientMoved sets the hours of the client's waiting callbacks for the time zone that tx has set.
func (s *Service) ClientMoved(ctx context.Context, tx postgres.Tx, clientID string) error {
	ids, err := openOf(ctx, tx, clientID, "")
	if err != nil {
		return err
	}
	for _, id := range ids {
		c, err := lock(ctx, tx, id)
		if err != nil {
			return err
		}
		if c.Status != PendingCallback {
			continue
		}
		if err := s.setHours(ctx, tx, &c); err != nil {
			return err
		}
		if err := s.save(ctx, tx, &c); err != nil {
			return err
		}
		s.wakeSearch(tx, c.ID)
	}
	return nil
}
