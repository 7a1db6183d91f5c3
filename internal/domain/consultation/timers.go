package consultation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"partnerd/internal/base/poll"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

const (
	sweepEvery       = 500 * time.Millisecond
	lostEvery        = time.Second // short compared with the minute of [lawyer.LeaseLost]
	sweepBatch       = 200
	sweepConcurrency = 6           // concurrent transactions of a sweep
	movesPerTx       = 50          // searches ended per transaction
	searchWorkers    = 2           // for commits in this process
	retryBroken      = time.Minute // delay of a failed timer
)

// Run runs the searches that commits in this process require, until ctx ends. Any number of processes on a database may
// run it, and one must [Service.Lead].
func (s *Service) Run(ctx context.Context) error {
	s.working.Store(true)
	defer s.working.Store(false)
	var workers sync.WaitGroup
	defer workers.Wait()
	for range searchWorkers {
		workers.Go(func() { s.searchAfterCommit(ctx) })
	}
	return nil
}

// Announce notifies the leader of the searches that commits in this process require, until ctx ends. It is for
// processes that do not [Service.Run].
func (s *Service) Announce(ctx context.Context) error {
	s.others.Tell(ctx)
	return nil
}

// Lead does the work of the leading process until ctx ends. It sweeps, each step at its own pace so that none waits for
// another. It also runs the searches for commits in processes that do not search themselves. Several processes may
// lead, which only costs more.
func (s *Service) Lead(ctx context.Context) error {
	var steps sync.WaitGroup
	defer steps.Wait()
	steps.Go(func() { s.others.Listen(ctx, s.enqueue) })
	for _, step := range s.steps() {
		loop := poll.Loop{Name: "sweep", Every: step.every, Log: s.log}
		steps.Go(func() {
			// ends only with ctx
			_ = loop.Run(ctx, func(ctx context.Context) (bool, error) { return false, errors.Join(step.do(ctx)...) })
		})
	}
	return nil
}

func (s *Service) searchAfterCommit(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case word := <-s.words:
			if err := s.searchFor(ctx, word); err != nil && ctx.Err() == nil {
				s.log.Error("search", "error", err)
			}
		}
	}
}

// SearchCommitted runs, in the caller's goroutine, the searches for commits in this process since the previous call. It
// replaces [Service.Run] for a caller who advances the clock. A sweep finds the work of commits before the first call.
func (s *Service) SearchCommitted(ctx context.Context) error {
	s.working.Store(true)
	for {
		select {
		case word := <-s.words:
			if err := s.searchFor(ctx, word); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// searchFor runs the search that a word of [channel] asks for.
func (s *Service) searchFor(ctx context.Context, word string) error {
	if id, ok := strings.CutPrefix(word, wordWork); ok {
		_, err := s.search(ctx, id)
		return err
	}
	if id, ok := strings.CutPrefix(word, wordClient); ok {
		return s.searchClient(ctx, id)
	}
	if id, ok := strings.CutPrefix(word, wordLawyer); ok {
		return s.LawyerAvailable(ctx, id)
	}
	return nil
}

type sweepStep struct {
	every time.Duration
	do    func(ctx context.Context) []error
}

func (s *Service) steps() []sweepStep {
	return []sweepStep{{sweepEvery, s.expireOffers}, {sweepEvery, s.fireTimers}, {lostEvery, s.takeFromLost},
		{sweepEvery, s.searchWaiting}, {wakeEvery, s.wakeLawyers}}
}

// Sweep does everything that is due: expired offers, timers, lost lawyers, and waiting work for which a lawyer is idle.
// A transaction that fails does not stop the others. All errors are returned together.
func (s *Service) Sweep(ctx context.Context) error {
	var errs []error
	for _, step := range s.steps() {
		errs = append(errs, step.do(ctx)...)
	}
	return errors.Join(errs...)
}

// each calls f for every item, several concurrently, and collects the errors.
func each[T any](items []T, f func(T) error) (errs []error) {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(sweepConcurrency)
	for _, item := range items {
		group.Go(func() error {
			if err := f(item); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
			return nil
		})
	}
	_ = group.Wait() // errors are in errs
	return errs
}

// expireOffers continues until no offer is left that was due when it started to look.
func (s *Service) expireOffers(ctx context.Context) (errs []error) {
	for after, more := (matching.Offer{}), true; more && ctx.Err() == nil; {
		offers, err := s.deps.Matching.Expired(ctx, s.deps.Searches.Read(), after, sweepBatch)
		if err != nil {
			return append(errs, err)
		}
		errs = append(errs, each(offers, func(o matching.Offer) error { return s.expire(ctx, o) })...)
		if more = len(offers) == sweepBatch; more {
			after = offers[len(offers)-1]
		}
	}
	return errs
}

func (s *Service) expire(ctx context.Context, o matching.Offer) error {
	err := s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, ok, err := tryLock(ctx, tx, o.ConsultationID)
		if err != nil || !ok {
			return err
		}
		// left open by an earlier release: no lawyer missed it
		if c.Status != Matching && c.Status != PendingCallback {
			return s.revoke(ctx, tx, c)
		}
		_, expired, err := s.deps.Matching.Expire(ctx, tx, o.ID)
		if expired {
			s.wakeClient(tx, c.ClientID)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("expire offer %s: %w", o.ID, err)
	}
	return nil
}

// takeFromLost signs off lawyers whose lease is lost, and takes assigned consultations from them, unless a call is
// being set up (rule 5).
func (s *Service) takeFromLost(ctx context.Context) (errs []error) {
	for more := true; more && ctx.Err() == nil; {
		var err error
		if more, err = s.deps.Lawyers.SignOffLost(ctx, s.deps.DB.Read()); err != nil {
			errs = append(errs, err)
		}
	}
	lost, err := s.deps.Lawyers.BusyLost(ctx, s.deps.DB.Read())
	if err != nil {
		return append(errs, err)
	}
	for some := range slices.Chunk(lost, sweepBatch) {
		work, err := inHands(ctx, s.deps.DB.Read(), some)
		if err != nil {
			return append(errs, err)
		}
		for _, c := range work {
			if c.Status != Assigned || c.Dialling() {
				continue
			}
			if err := s.takeIfLost(ctx, c.ID); err != nil {
				errs = append(errs, fmt.Errorf("take %s from its lawyer: %w", c.ID, err))
			}
		}
	}
	return errs
}

func (s *Service) takeIfLost(ctx context.Context, consultationID string) error {
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, ok, err := tryLock(ctx, tx, consultationID)
		if err != nil || !ok || c.Status != Assigned || c.Dialling() {
			return err
		}
		l, err := s.deps.Lawyers.Lock(ctx, tx, c.LawyerID)
		if err != nil || !l.HeartbeatAt.Before(tx.Now.Add(-lawyer.LeaseLost)) {
			return err
		}
		return s.unassign(ctx, tx, &c, lawyer.Off(lawyer.NoPage))
	})
}

// fireTimers continues until no timer is left that was due when it started to look. Searches that are over end
// together, many in a transaction, because they need no row of a call or a wallet. Everything else moves one by one.
func (s *Service) fireTimers(ctx context.Context) (errs []error) {
	for after, more := (due{}), true; more && ctx.Err() == nil; {
		list, err := dueTimers(ctx, s.deps.Searches.Read(), after, sweepBatch)
		if err != nil {
			return append(errs, err)
		}
		var groups [][]string
		for some := range slices.Chunk(list, movesPerTx) {
			var together []string
			for _, d := range some {
				if d.Status == Matching {
					together = append(together, d.ID)
				} else {
					groups = append(groups, []string{d.ID})
				}
			}
			if together != nil {
				groups = append(groups, together)
			}
		}
		errs = append(errs, each(groups, func(ids []string) error { return s.fireAll(ctx, ids) })...)
		if more = len(list) == sweepBatch; more {
			after = list[len(list)-1]
		}
	}
	return errs
}

// fireAll handles consultations in one transaction. If that fails, it handles each in its own, and postpones the timers
// that fail alone.
func (s *Service) fireAll(ctx context.Context, ids []string) error {
	err := s.fireTogether(ctx, ids)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if len(ids) > 1 {
		var errs []error
		for _, id := range ids {
			errs = append(errs, s.fireAll(ctx, []string{id}))
		}
		return errors.Join(errs...)
	}
	tx := s.deps.DB.Read()
	return errors.Join(fmt.Errorf("timer of %s: %w", ids[0], err), postpone(ctx, tx, ids[0], tx.Now.Add(retryBroken)))
}

func (s *Service) fireTogether(ctx context.Context, ids []string) (err error) {
	ctx, span := s.deps.Tracer.Start(ctx, "consultation timer")
	defer func() { span.End(err) }()
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		list, err := tryLockAll(ctx, tx, ids)
		if err != nil {
			return err
		}
		var over []*Consultation
		for i := range list {
			c := &list[i]
			if len(ids) > 1 && c.Status != Matching { // it has moved since, and may need rows that are locked last
				continue
			}
			if at := nextTimer(*c); at != nil && !tx.Now.Before(*at) {
				late := tx.Now.Sub(*at)
				tx.AfterCommit(func() { s.lateness.Observe(late.Seconds()) })
			}
			if dueTask(*c, tx.Now) == taskSearchOver {
				over = append(over, c)
			} else if err := s.fire(ctx, tx, c); err != nil {
				return err
			}
		}
		return s.endSearch(ctx, tx, over...)
	})
}

// fire does what the timer of a locked consultation requires, if it is still due.
func (s *Service) fire(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	switch dueTask(*c, tx.Now) {
	case taskSearchOver:
		return s.endSearch(ctx, tx, c)
	case taskAlarm:
		return s.alarm(ctx, tx, c)
	case taskNextDay:
		if err := s.setHours(ctx, tx, c); err != nil {
			return err
		}
		return s.save(ctx, tx, c)
	case taskCallbackOver:
		return s.missGuarantee(ctx, tx, c)
	case taskNotDialled:
		to := lawyer.Off(lawyer.NotDialled)
		if c.NextDialAt != nil {
			to = toWork // the lawyer dialled, and the line was busy
		}
		return s.unassign(ctx, tx, c, to)
	case taskDial:
		return s.redial(ctx, tx, c)
	case taskNotChosen:
		return s.unassign(ctx, tx, c, toWork)
	case taskDialStuck:
		return s.giveUpAttempt(ctx, tx, c)
	case taskLineLost:
		return s.cutCall(ctx, tx, c, "line_lost")
	case taskCallCap:
		return s.cutCall(ctx, tx, c, "limit")
	case taskRemind:
		return s.remind(ctx, tx, c)
	case taskNoteMissing:
		return s.giveUpNote(ctx, tx, c)
	case taskNone:
		return update(ctx, tx, c.Status, *c) // the stored timer differs from the rules: correct it
	}
	return nil
}

// endSearch ends the searches of consultations, which from then on wait for a callback (X4). At night their open offers
// are revoked: the clients are called in the morning.
func (s *Service) endSearch(ctx context.Context, tx postgres.Tx, list ...*Consultation) error {
	if err := s.setHours(ctx, tx, list...); err != nil {
		return err
	}
	if err := s.applyAll(ctx, tx, onSearchOver, list...); err != nil {
		return err
	}
	var night []Consultation
	for _, c := range list {
		if !callable(*c, tx.Now) {
			night = append(night, *c)
		}
	}
	return s.revoke(ctx, tx, night...)
}

// missGuarantee closes a consultation whose promised callback did not happen in time (X14, T32).
func (s *Service) missGuarantee(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	if err := s.endAssignment(ctx, tx, *c, toWork); err != nil {
		return err
	}
	c.EndReason = GuaranteeMissed
	if err := s.apply(ctx, tx, c, onCallbackMissed); err != nil {
		return err
	}
	s.incident(tx, callbackMissed, c.ID, "")
	return nil
}

// redial makes the next attempt to reach the client. If a callback has reached the end of the client's day, the
// consultation goes back and waits for the next day.
func (s *Service) redial(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	if outsideCallHours(*c, tx.Now) {
		return s.unassign(ctx, tx, c, toWork)
	}
	if err := s.dial(ctx, tx, c); !errors.Is(err, telephony.ErrLineBusy) && !errors.Is(err, ErrPhoneLost) {
		return err
	}
	return nil
}

// giveUpAttempt ends a call that neither joined nor failed in time, because the provider has gone silent.
func (s *Service) giveUpAttempt(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	call, active, err := s.deps.Telephony.Active(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	if !active {
		return s.attemptFailed(ctx, tx, c)
	}
	o, err := s.deps.Telephony.End(ctx, tx, call.ID, telephony.Timeout)
	if err != nil {
		return err
	}
	if o.Kind == telephony.LawyerNotReached {
		return s.unassign(ctx, tx, c, lawyer.Off(lawyer.NotReached))
	}
	return s.attemptFailed(ctx, tx, c)
}
