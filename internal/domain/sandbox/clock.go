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
	advanceLimit = 20 * time.Second      // of real time per call
	settleLook   = 50 * time.Millisecond // pause between two polls
	maxYears     = 1000                  // largest total advance: years in time texts have four digits
)

// Aging lists all columns that move when an application's clock advances.
var Aging = slices.Concat(application.Aging, consultation.Aging, matching.Aging, telephony.Aging, note.Aging,
	webhook.Aging, oauth.Aging, idempotency.Aging, payment.Aging, stepsAging)

// Clock advances the clock of one application. It moves the application's past and deadlines back in time; the regular
// workers then do what has become due. The real time stays: signatures, events and other applications are not affected.
type Clock struct {
	Pace     Pace          // of the simulated lawyers
	Patience time.Duration // real time to wait for each due item before continuing without it

	db     *postgres.DB
	engine *consultation.Service
	log    *slog.Logger
}

// NewClock creates a clock.
func NewClock(db *postgres.DB, engine *consultation.Service, log *slog.Logger) *Clock {
	return &Clock{Pace: DefaultPace, Patience: 10 * time.Second, db: db, engine: engine, log: log}
}

var ruleOld = problem.DeclareRule("clock.old", problem.IssueInvalidValue,
	"The clock can be advanced by %d years in total. Create another application to continue.")

// check returns VALIDATION_ERROR, with an issue at path, if some data of the application is already [maxYears] old.
func (c *Clock) check(ctx context.Context, applicationID, path string) error {
	oldest, err := oldestOf(ctx, c.db.Read(), applicationID)
	if err == nil && oldest != nil && oldest.Before(c.db.Clock().Now().AddDate(-maxYears, 0, 0)) {
		err = problem.ErrValidation.With(ruleOld.At(path, maxYears))
	}
	return err
}

// Advance advances the clock by d. It stops at each time at which something falls due, until that has happened. It
// returns when all is done, or after 20 s; passed says how far it advanced. It returns VALIDATION_ERROR for seconds if
// all calls together have reached [maxYears].
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

// step advances the clock to the first timer after the given time, but by no more than most. It does not advance if
// something has become due since the last poll. That includes work that became visible only after the poll, such as the
// call of a lawyer who was just found.
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

// settle runs matching and waits until nothing is due that fell due after the given time, or until end.
//
// It returns the time of its last poll, because it has not waited for work that falls due later. done is false if it
// gave up on work that is still due: a rejected action, for example, is retried forever. The patience applies to each
// item. On a busy machine each takes seconds, and nothing is stuck while items complete one after another.
func (c *Clock) settle(ctx context.Context, applicationID string,
	after, end time.Time,
) (looked time.Time, done bool, err error) {
	looked = c.db.Clock().Now()
	var first time.Time // due time of the first item
	limit := looked.Add(c.Patience)
	for ; looked.Before(end) && looked.Before(limit); looked = c.db.Clock().Now() {
		if err := c.engine.Sweep(postgres.Regardless(ctx)); err != nil && ctx.Err() == nil { // for all applications
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
