package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"partnerd/internal/base/money"
	"partnerd/internal/base/poll"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// Consultations are the actions of lawyers, clients and operators that are simulated. They are the methods of
// consultation.Service behind the desk and the pages.
type Consultations interface {
	AcceptOffer(ctx context.Context, lease lawyer.Lease, offerID string) error
	DeclineOffer(ctx context.Context, lease lawyer.Lease, offerID, reason string) error
	Withdraw(ctx context.Context, lease lawyer.Lease, consultationID string, reason consultation.Reason) error
	ChooseRedial(ctx context.Context, lease lawyer.Lease, consultationID string, wait bool) error
	StartCall(ctx context.Context, lease lawyer.Lease, consultationID string) error
	EndCall(ctx context.Context, lease lawyer.Lease, consultationID string) error
	SubmitNote(ctx context.Context, lease lawyer.Lease, consultationID, note, preview string) error
	NoUsefulCall(ctx context.Context, lease lawyer.Lease, consultationID string, reason consultation.Reason) error

	Peek(ctx context.Context, tx postgres.Tx, consultationID string) (consultation.Consultation, error)
	CancelForClient(ctx context.Context, tx postgres.Tx,
		clientID, consultationID string) (consultation.Consultation, error)
	Refund(ctx context.Context, tx postgres.Tx, consultationID string,
		amount money.Cents) (consultation.Consultation, error)
	Recast(ctx context.Context, tx postgres.Tx, consultationID string, crew matching.Crew) error
}

var _ Consultations = (*consultation.Service)(nil)

// Pace is how quickly simulated lawyers act.
type Pace struct {
	Accept time.Duration // from the offer
	Dial   time.Duration // from the assignment
	Talk   time.Duration // joined without a break
	Write  time.Duration // from the end of the call to the note
}

// look returns the pause between two polls for work, short enough to see all work before it is due.
func (p Pace) look() time.Duration {
	return min(max(min(p.Accept, p.Dial, p.Talk, p.Write)/2, turnEvery), lookEvery)
}

// DefaultPace completes a consultation within about ten seconds.
var DefaultPace = Pace{Accept: time.Second, Dial: 2 * time.Second, Talk: 4 * time.Second,
	Write: 1500 * time.Millisecond}

const (
	turnEvery = 200 * time.Millisecond // at the soonest
	lookEvery = 500 * time.Millisecond // at the latest
	beatEvery = 10 * time.Second
	wakeEvery = time.Second     // between two polls for simulated lawyers who are away
	retry     = 2 * time.Second // before a failed action is retried
	handsFree = 8               // concurrent actions
	batch     = 250             // lawyers whose leases one statement renews
	backBatch = 50              // lawyers who return per turn
)

// Lawyers simulates lawyers. It has no plan of its own: every turn reads what is due from the database, so a restart
// continues where the last run stopped. If two processes run it, the services decide which one comes first.
type Lawyers struct {
	// Set these fields before Run.
	Pace  Pace
	Queue *postgres.DB // connections of [postgres.DB.ByIndex] to look for chores; default: the db of NewLawyers

	db            *postgres.DB
	consultations Consultations
	lawyers       *lawyer.Service
	log           *slog.Logger

	mu       sync.Mutex
	lastBeat time.Time
	lastWake time.Time
	lastBack string               // the last one who returned, while more are returning
	notYet   map[string]time.Time // recent failures, and when each may be retried
}

// NewLawyers creates the simulation.
func NewLawyers(db *postgres.DB, c Consultations, l *lawyer.Service, log *slog.Logger) *Lawyers {
	return &Lawyers{Pace: DefaultPace, Queue: db, db: db, consultations: c, lawyers: l, log: log,
		notYet: map[string]time.Time{}}
}

// Run simulates until ctx ends.
func (l *Lawyers) Run(ctx context.Context) error {
	return poll.Loop{Name: "simulated lawyers", Every: l.Pace.look(), Log: l.log}.RunTimed(ctx, l.Turn)
}

// Turn does everything that is due now: heartbeats, returns to work, and each lawyer's current task. It returns the
// pause until the next turn, at most the polling interval.
func (l *Lawyers) Turn(ctx context.Context) (again time.Duration, err error) {
	now := l.db.Clock().Now()
	if err := l.beat(ctx, now); err != nil {
		return 0, err
	}
	if err := l.comeBack(ctx, now); err != nil {
		return 0, err
	}
	list, err := chores(ctx, l.Queue.Read(), l.Pace)
	if err != nil {
		return 0, err
	}
	again = l.Pace.look()
	switch {
	case l.lastBack != "":
		again = turnEvery
	case len(list) > 0:
		again = min(again, max(list[0].due.Sub(now), turnEvery))
	}
	var g errgroup.Group
	g.SetLimit(handsFree)
	for _, c := range list {
		if c.due.After(now) { // and so are all that follow
			break
		}
		if l.held(c.key(), now) {
			continue
		}
		g.Go(func() error { l.do(ctx, c); return nil }) // one failure does not stop the others
	}
	return again, g.Wait()
}

// beat renews the leases in small statements, so that none locks many rows for long.
func (l *Lawyers) beat(ctx context.Context, now time.Time) error {
	if now.Sub(l.lastBeat) < beatEvery {
		return nil
	}
	ids, err := l.lawyers.Simulated(ctx, l.db.Read())
	if err != nil {
		return err
	}
	for some := range slices.Chunk(ids, batch) {
		if err := l.lawyers.Heartbeat(ctx, l.db.Read(), some...); err != nil {
			return err
		}
	}
	l.lastBeat = now
	return nil
}

// comeBack makes simulated lawyers available who are away, off duty or have written their note. Many return over
// several turns, between which the others act. The sweep then finds work for them.
func (l *Lawyers) comeBack(ctx context.Context, now time.Time) error {
	if now.Sub(l.lastWake) < wakeEvery {
		return nil
	}
	idle, err := idleLawyers(ctx, l.db.Read(), l.lastBack, 1)
	if len(idle) > 0 {
		err = l.db.InTx(ctx, func(tx postgres.Tx) (err error) {
			if idle, err = idleLawyers(ctx, tx, l.lastBack, backBatch, postgres.SkipLocked); err != nil {
				return err
			}
			_, err = l.lawyers.ReturnIdle(ctx, tx, idle...)
			return err
		})
	}
	if err == nil && len(idle) == backBatch {
		l.lastBack = idle[backBatch-1]
		return nil
	}
	l.lastWake, l.lastBack = now, ""
	return err
}

func (l *Lawyers) do(ctx context.Context, c chore) {
	err := l.act(ctx, c)
	if err == nil || ctx.Err() != nil {
		return
	}
	l.hold(c.key())
	level := slog.LevelWarn
	if lostRace(err) {
		level = slog.LevelDebug
	}
	l.log.Log(ctx, level, "simulated lawyer", "does", c.kind, "lawyer", c.lease.LawyerID, "subject", c.subjectID,
		"error", err)
}

func (l *Lawyers) act(ctx context.Context, c chore) error {
	switch c.kind {
	case accept:
		return l.consultations.AcceptOffer(ctx, c.lease, c.subjectID)
	case dial:
		return l.consultations.StartCall(ctx, c.lease, c.subjectID)
	case wait:
		return l.consultations.ChooseRedial(ctx, c.lease, c.subjectID, true)
	case hangUp:
		return l.consultations.EndCall(ctx, c.lease, c.subjectID)
	case write:
		t := textFor(c.language, c.subjectID)
		return l.consultations.SubmitNote(ctx, c.lease, c.subjectID, t.note, t.preview)
	case decline:
		return l.consultations.DeclineOffer(ctx, c.lease, c.subjectID, matching.ReasonConflict)
	case withdraw:
		return l.consultations.Withdraw(ctx, c.lease, c.subjectID, consultation.ConflictOfInterest)
	case useless:
		play, err := readPlay(ctx, l.db.Read(), c.subjectID)
		if err != nil {
			return err
		}
		way, _ := scenarioOf(play.Scenario)
		return l.consultations.NoUsefulCall(ctx, c.lease, c.subjectID, way.reason)
	case correct:
		t := textFor(c.language, c.subjectID)
		if err := l.consultations.SubmitNote(ctx, c.lease, c.subjectID, t.note,
			t.preview+correction(c.language)); err != nil {
			return err
		}
		return endAct(ctx, l.db.Read(), c.subjectID)
	case open, cancel, refund, over:
		return l.db.InTx(ctx, func(tx postgres.Tx) error { return l.doAct(ctx, tx, c) })
	case nothing: // is never due
	}
	return fmt.Errorf("unknown chore %q", c.kind)
}

// doAct does what a scenario requires of people other than the lawyer, once.
func (l *Lawyers) doAct(ctx context.Context, tx postgres.Tx, c chore) error {
	is, err := l.consultations.Peek(ctx, tx, c.subjectID)
	if err != nil {
		return err
	}
	var entry *audit.Entry // of operators' actions
	switch c.kind {
	case open:
		var crew matching.Crew
		if crew, err = ofApplication(ctx, tx, is.ApplicationID, forKeyShare); err == nil {
			err = l.consultations.Recast(ctx, tx, is.ID, crew)
		}
	case cancel:
		_, err = l.consultations.CancelForClient(ctx, tx, is.ClientID, is.ID)
	case refund:
		var play playRow
		if play, err = readPlay(ctx, tx, is.ID); err != nil {
			return err
		}
		way, _ := scenarioOf(play.Scenario)
		_, err = l.consultations.Refund(ctx, tx, is.ID, way.refund)
		if errors.Is(err, consultation.ErrNotRefundable) { // already refunded by an operator
			err = nil
			break
		}
		if err == nil {
			entry = &audit.Entry{Actor: "sandbox", Action: "consultation.refund", Subject: is.ID,
				Reason: "The scenario " + way.name + ".", Details: map[string]any{"amountCents": way.refund}}
		}
	case over, nothing, accept, dial, wait, hangUp, write, decline, withdraw, useless, correct:
		// only record that it is over
	}
	if err != nil {
		return err
	}
	if err := endAct(ctx, tx, c.subjectID); err != nil || entry == nil {
		return err
	}
	return audit.Record(ctx, tx, *entry)
}

// lostRace reports whether another replica, a timer or a client's cancellation was first.
func lostRace(err error) bool {
	for _, expected := range []error{matching.ErrOfferGone, lawyer.ErrState, lawyer.ErrLeaseLost, telephony.ErrLineBusy,
		consultation.ErrForbidden, consultation.ErrNotYours, consultation.ErrTooEarly, consultation.ErrNotCancellable} {
		if errors.Is(err, expected) {
			return true
		}
	}
	return false
}

func (l *Lawyers) held(key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, ok := l.notYet[key]
	if ok && !now.Before(until) {
		delete(l.notYet, key)
		return false
	}
	return ok
}

// hold postpones a failed chore, so that it is not retried every turn. It also forgets chores that are no longer due.
func (l *Lawyers) hold(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.db.Clock().Now()
	if len(l.notYet) > 1000 {
		for k, until := range l.notYet {
			if !now.Before(until) {
				delete(l.notYet, k)
			}
		}
	}
	l.notYet[key] = now.Add(retry)
}
