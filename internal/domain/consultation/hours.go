package consultation

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/infra/postgres"
)

// A client is called back by day only (T33): from 08:00 to 21:00 in the client's time zone. A callback is offered until
// 20:40, so that all three attempts to reach the client fit before 21:00. Whoever has just asked (MATCHING) is awake,
// and is called at any hour.
const (
	dayBegins, dayEnds = 8, 21
	lastAttempts       = 20 * time.Minute // the offer, the time to dial, and the attempts 5 and 15 minutes later
)

// callHours are the hours in which a callback may be offered: those of the client's day that has not ended at now.
// Every 24 hours contain 11 hours 40 minutes of them at the least, on the day that has 25; so the guarantee holds
// across the night.
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

// callable tells whether a callback may be offered at now.
func callable(c Consultation, now time.Time) bool {
	return c.CallableFrom != nil && c.CallableUntil != nil && !now.Before(*c.CallableFrom) &&
		now.Before(*c.CallableUntil)
}

// quiet tells whether the client, who waits for a callback, may not be called at now. The hours for calling are longer
// than those for offering.
func quiet(c Consultation, now time.Time) bool {
	return c.CallbackDueAt != nil && c.CallableFrom != nil && c.CallableUntil != nil &&
		(now.Before(*c.CallableFrom) || !now.Before(c.CallableUntil.Add(lastAttempts)))
}

// hoursEnd is when a waiting callback needs the hours of the next day; at once when it has none.
func hoursEnd(c Consultation) time.Time {
	if c.CallableUntil == nil {
		return c.UpdatedAt
	}
	return *c.CallableUntil
}

// setHours gives consultations the hours of their clients' day.
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

// ClientMoved gives the client's waiting callbacks the hours of the time zone that tx has set.
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
