package sandbox

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/postgres"
)

const (
	advanceLimit = 20 * time.Second      // of real time for one call
	settleLook   = 50 * time.Millisecond // between two looks whether it has
	maxYears     = 1000                  // that anything becomes older: a text of a time has a year of four digits
)

// Aging is everything that becomes older with an application.
var Aging = slices.Concat(application.Aging, consultation.Aging, matching.Aging, telephony.Aging, note.Aging,
	webhook.Aging, oauth.Aging, idempotency.Aging, payment.Aging, stepsAging)

// Clock lets time pass for one application: everything of it becomes older, and what falls due meanwhile is done by
// whoever does it anyway. Nothing has another time than the real one: no signature, no event and no other application.
type Clock struct {
	Pace     Pace          // of the simulated lawyers
	Patience time.Duration // of real time, for each thing that is due to happen, before the clock goes on without it

	db     *postgres.DB
	engine *consultation.Service
	log    *slog.Logger
}

// NewClock makes it.
func NewClock(db *postgres.DB, engine *consultation.Service, log *slog.Logger) *Clock {
	return &Clock{Pace: DefaultPace, Patience: 10 * time.Second, db: db, engine: engine, log: log}
}

var ruleOld = problem.DeclareRule("clock.old", problem.IssueInvalidValue,
	"The clock was advanced by %d years in all, which is the most. Create another application to go on.")

// check refuses to make an application older that has something of [maxYears], with an issue of the value at path.
func (c *Clock) check(ctx context.Context, applicationID, path string) error {
	oldest, err := oldestOf(ctx, c.db.Read(), applicationID)
	if err == nil && oldest != nil && oldest.Before(c.db.Clock().Now().AddDate(-maxYears, 0, 0)) {
		err = problem.ErrValidation.With(ruleOld.At(path, maxYears))
	}
	return err
}

// Advance lets d pass, stopping at each instant at which something falls due until it has happened. It returns when all
// has passed and been done, or after 20 s; passed says how much it was. Problem: VALIDATION_ERROR of seconds, when all
// calls together were [maxYears].
func (c *Clock) Advance(ctx context.Context, applicationID string, d time.Duration) (passed time.Duration, err error) {
	if err := c.check(ctx, applicationID, "seconds"); err != nil {
		return 0, err
	}
	end := c.db.Clock().Now().Add(advanceLimit)
	var stuck time.Time
	for {
		settled, done, err := c.settle(ctx, applicationID, stuck, end)
		if err != nil || passed == d || settled.After(end) {
			return passed, err
		}
		if !done {
			stuck = settled
		}
		step, err := c.step(ctx, applicationID, stuck, d-passed)
		if passed += step; err != nil {
			return passed, err
		}
	}
}

// step lets time pass until the first timer after the given instant, most at most; none, when something has fallen due
// meanwhile: also what was begun before the last look and came to light after it, like the call that is due once a
// lawyer is found.
func (c *Clock) step(ctx context.Context, applicationID string, after time.Time,
	most time.Duration,
) (step time.Duration, err error) {
	err = c.db.InTx(ctx, func(tx postgres.Tx) error {
		if err := tx.Lock(ctx, "sandbox clock of "+applicationID); err != nil {
			return err
		}
		if err := c.engine.AwaitSearches(ctx, tx, applicationID); err != nil {
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

// settle has lawyers sought for whoever waits, and waits until nothing is due that fell due after the given instant,
// but not for ever: a chore that is refused, for instance, is tried again and again. It ends at the given end at the
// latest, and returns when it last looked: what falls due after that has not been waited for, and what had fallen due
// before and is not done is what the clock goes on without. The patience is for one thing: on a busy machine each takes
// seconds, and while one after the other is done nothing is stuck.
func (c *Clock) settle(ctx context.Context, applicationID string,
	after, end time.Time,
) (looked time.Time, done bool, err error) {
	looked = c.db.Clock().Now()
	var first time.Time // of what is due
	limit := looked.Add(c.Patience)
	for ; looked.Before(end) && looked.Before(limit); looked = c.db.Clock().Now() {
		if err := c.engine.Sweep(postgres.Regardless(ctx)); err != nil && ctx.Err() == nil { // of whichever application
			c.log.WarnContext(ctx, "a sweep for the sandbox's clock had faults", "error", err)
		}
		next, err := c.next(ctx, c.db.Read(), applicationID, after)
		if err != nil || next == nil || next.After(looked) {
			return looked, true, err
		}
		if !next.Equal(first) {
			first, limit = *next, looked.Add(c.Patience)
		}
		select {
		case <-time.After(settleLook):
		case <-ctx.Done():
			return looked, false, ctx.Err()
		}
	}
	return looked, false, nil
}
