package sandbox

import (
	"context"
	"slices"
	"strings"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

// ErrUnreachable is returned if no legal transition leads to the requested status.
var ErrUnreachable = problem.Declare(problem.Conflict, "STATUS_UNREACHABLE",
	"The consultation can no longer reach this status.")

// Ran says how far a consultation was run.
type Ran struct {
	Status  consultation.Status
	Reached bool          // the consultation has the requested status
	Passed  time.Duration // how far the application's clock was advanced
}

// Run brings a consultation of an application to a status. The simulated people act until then and stop. Where only
// time is missing, it advances the clock as [Clock.Advance] does. It returns at the status, or after 20 s; call it
// again to continue. A consultation that already has the status stays unchanged.
//
// It returns NOT_FOUND or STATUS_UNREACHABLE. It returns VALIDATION_ERROR for status in the same case as
// [Clock.Advance] for seconds.
func (c *Clock) Run(ctx context.Context, applicationID, consultationID string,
	to consultation.Status,
) (ran Ran, err error) {
	if err := c.check(ctx, applicationID, "status"); err != nil {
		return ran, err
	}
	end := c.db.Clock().Now().Add(advanceLimit)
	done, err := c.direct(ctx, applicationID, consultationID, to)
	if err != nil || done {
		return Ran{Status: to, Reached: done}, err
	}
	var stuck time.Time
	for {
		settled, quiet, err := c.settle(ctx, applicationID, stuck, end)
		if err != nil {
			return ran, err
		}
		if !quiet {
			stuck = settled
		}
		tx := c.db.Read()
		is, err := c.engine.Peek(ctx, tx, consultationID)
		if err != nil {
			return ran, err
		}
		switch ran.Status = is.Status; {
		case is.Status == to:
			ran.Reached = true
			return ran, c.stop(ctx, is)
		case !slices.Contains(is.Reachable(tx.Now), to):
			return ran, unreachable(is, tx.Now)
		case settled.After(end):
			return ran, nil
		}
		next, err := c.nextOn(ctx, tx, is)
		if err != nil {
			return ran, err
		}
		if next == nil || !next.After(settled) { // waiting for a lawyer or a line, or a worker is acting on it
			select {
			case <-time.After(settleLook):
				continue
			case <-ctx.Done():
				return ran, ctx.Err()
			}
		}
		step, err := c.step(ctx, applicationID, stuck, next.Sub(settled))
		if ran.Passed += step; err != nil {
			return ran, err
		}
	}
}

// direct sets what the simulated people do from now on. It immediately performs a change that needs no one else.
func (c *Clock) direct(ctx context.Context, applicationID, consultationID string,
	to consultation.Status,
) (done bool, err error) {
	err = c.db.InTx(ctx, func(tx postgres.Tx) error {
		crew, err := ofApplication(ctx, tx, applicationID, forKeyShare)
		if err != nil {
			return err
		}
		is, err := c.engine.Lock(ctx, tx, consultationID)
		if err != nil {
			return err
		}
		if is.ApplicationID != applicationID {
			return problem.ErrNotFound
		}
		done = is.Status == to && to.Terminal()
		switch {
		case done:
			return nil
		case !slices.Contains(is.Reachable(tx.Now), to):
			return unreachable(is, tx.Now)
		case to == consultation.Cancelled:
			done = true
			_, err := c.engine.CancelForClient(ctx, tx, is.ClientID, is.ID)
			return err
		case to == consultation.Matching, to == consultation.PendingCallback, to == consultation.Expired &&
			is.Status != consultation.Assigned:
			crew = matching.Nobody
		}
		if err := replacePlay(ctx, tx, is.ID, string(to)); err != nil {
			return err
		}
		return c.engine.Recast(ctx, tx, is.ID, crew)
	})
	return done, err
}

// stop keeps a consultation that is to stay ASSIGNED from being taken by another lawyer after its lawyer loses it.
func (c *Clock) stop(ctx context.Context, is consultation.Consultation) error {
	if is.Status != consultation.Assigned {
		return nil
	}
	return c.db.InTx(ctx, func(tx postgres.Tx) error { return c.engine.Recast(ctx, tx, is.ID, matching.Nobody) })
}

// nextOn returns the next time at which a consultation moves on, or nil if it is not waiting for time.
func (c *Clock) nextOn(ctx context.Context, tx postgres.Tx, is consultation.Consultation) (next *time.Time, err error) {
	if next, err = choreOf(ctx, tx, c.Pace, is.ID); err != nil {
		return nil, err
	}
	step, err := stepOf(ctx, tx, is.ID)
	if err != nil {
		return nil, err
	}
	next = earlier(next, step)
	switch waiting := is.Status == consultation.Matching || is.Status == consultation.PendingCallback; {
	case waiting && is.Crew == matching.Nobody, is.Status == consultation.Assigned && is.DialAttempts > 0,
		is.Status == consultation.InCall:
		next = earlier(next, is.NextTimer())
	case waiting || is.Status == consultation.Assigned:
		next = earlier(next, is.Callable(tx.Now))
	}
	return next, nil
}

// earlier returns the earlier of two times, either of which may be nil.
func earlier(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

func unreachable(is consultation.Consultation, now time.Time) error {
	list := slices.DeleteFunc(is.Reachable(now), func(s consultation.Status) bool { return s == is.Status })
	if len(list) == 0 {
		return ErrUnreachable.Because("The consultation is %s, which is final.", is.Status)
	}
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = string(s)
	}
	return ErrUnreachable.Because("The consultation is %s and can reach only %s.",
		is.Status, strings.Join(names, ", "))
}
