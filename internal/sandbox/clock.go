package sandbox

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"partnerd/internal/consultation"
	"partnerd/internal/idempotency"
	"partnerd/internal/matching"
	"partnerd/internal/note"
	"partnerd/internal/oauth"
	"partnerd/internal/payment"
	"partnerd/internal/postgres"
	"partnerd/internal/telephony"
	"partnerd/internal/webhook"
)

const (
	advanceLimit = 20 * time.Second      // of real time for one call
	settleLimit  = 3 * time.Second       // for what is due to happen, before the clock goes on without it
	settleLook   = 50 * time.Millisecond // between two looks whether it has
)

// Aging is everything that becomes older with an application.
var Aging = slices.Concat(consultation.Aging, matching.Aging, telephony.Aging, note.Aging, webhook.Aging, oauth.Aging, idempotency.Aging, payment.Aging, stepsAging)

// Clock lets time pass for one application: everything of it becomes older, and what falls due meanwhile is done by whoever does it
// anyway. Nothing has another time than the real one: no signature, no event and no other application.
type Clock struct {
	Pace Pace // of the simulated lawyers

	db     *postgres.DB
	engine *consultation.Service
	log    *slog.Logger
}

// NewClock makes it.
func NewClock(db *postgres.DB, engine *consultation.Service, log *slog.Logger) *Clock {
	return &Clock{Pace: DefaultPace, db: db, engine: engine, log: log}
}

// Advance lets d pass, stopping at each instant at which something falls due until it has happened. It returns when all has passed
// and been done, or after 20 s; passed says how much it was.
func (c *Clock) Advance(ctx context.Context, applicationID string, d time.Duration) (passed time.Duration, err error) {
	end := c.db.Clock().Now().Add(advanceLimit)
	for {
		settled, err := c.settle(ctx, applicationID)
		if err != nil || passed == d || settled.After(end) {
			return passed, err
		}
		step, err := c.step(ctx, applicationID, settled, d-passed)
		if passed += step; err != nil {
			return passed, err
		}
	}
}

// step lets time pass until the first timer after the given instant, most at most; none, when real time has come to that meanwhile.
func (c *Clock) step(ctx context.Context, applicationID string, after time.Time, most time.Duration) (step time.Duration, err error) {
	err = c.db.InTx(ctx, func(tx postgres.Tx) error {
		if err := tx.Lock(ctx, "sandbox clock of "+applicationID); err != nil {
			return err
		}
		next, err := c.next(ctx, tx, applicationID, after)
		if err != nil {
			return err
		}
		if step = most; next != nil {
			step = min(step, next.Sub(tx.Now))
		}
		if step <= 0 {
			step = 0
			return nil
		}
		return tx.Age(ctx, applicationID, step, Aging...)
	})
	return step, err
}

// settle has lawyers sought for whoever waits, and waits until nothing is due, but not for ever: a chore that is refused, for
// instance, is tried again and again. It returns when it last looked: what falls due after that has not been waited for.
func (c *Clock) settle(ctx context.Context, applicationID string) (looked time.Time, err error) {
	looked = c.db.Clock().Now()
	for end := looked.Add(settleLimit); looked.Before(end); looked = c.db.Clock().Now() {
		if err := c.engine.Sweep(ctx); err != nil && ctx.Err() == nil { // of whichever application
			c.log.WarnContext(ctx, "a sweep for the sandbox's clock had faults", "error", err)
		}
		next, err := c.next(ctx, c.db.Read(), applicationID, time.Time{})
		if err != nil || next == nil || next.After(looked) {
			return looked, err
		}
		select {
		case <-time.After(settleLook):
		case <-ctx.Done():
			return looked, ctx.Err()
		}
	}
	return looked, nil
}

// next is the first instant after the given one at which something of the application happens by itself; nil for none.
func (c *Clock) next(ctx context.Context, tx postgres.Tx, applicationID string, after time.Time) (*time.Time, error) {
	timer, err := tx.NextOf(ctx, applicationID, after, Aging...)
	if err != nil {
		return nil, err
	}
	chore, err := nextChore(ctx, tx, c.Pace, applicationID, after)
	if timer == nil || chore != nil && chore.Before(*timer) {
		timer = chore
	}
	return timer, err
}
