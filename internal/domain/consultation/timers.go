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
	sweepEvery    = 500 * time.Millisecond
	lostEvery     = time.Second // of the minute that [lawyer.LeaseLost] is
	sweepBatch    = 200
	sweepHands    = 6           // transactions of a sweep at one time
	movesAtOnce   = 50          // searches ended by one transaction
	searchWorkers = 2           // for what commits in this process
	retryBroken   = time.Minute // a timer that failed
)

// Run searches for what commits in this process until ctx ends. Any number of processes may do so on one database, and
// one has to [Service.Lead].
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

// Announce tells the process that leads of what commits in this one, until ctx ends: for a process that does not
// [Service.Run].
func (s *Service) Announce(ctx context.Context) error {
	s.others.Tell(ctx)
	return nil
}

// Lead is the work of one process that runs, until ctx ends: to sweep, each step at its own pace so that none waits for
// another, and to search for what commits in processes that do not search themselves. Several may, which only costs
// more.
func (s *Service) Lead(ctx context.Context) error {
	var steps sync.WaitGroup
	defer steps.Wait()
	steps.Go(func() { s.others.Listen(ctx, s.heard) })
	for _, step := range s.steps() {
		loop := poll.Loop{Name: "sweep", Every: step.every, Log: s.log}
		steps.Go(func() {
			// ends with ctx alone
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

// SearchCommitted searches for what has committed in this process since the last time, in the caller's goroutine: for
// one who moves the clock himself, instead of [Service.Run]. What commits before the first call is found by a sweep.
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

// searchFor does what a word of [channel] asks for.
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

// Sweep does everything that is due: offers whose time is over, timers, lawyers who are gone, and waiting work for
// which somebody is idle. Each consultation moves in a transaction that stops no other when it fails; the faults come
// back together.
func (s *Service) Sweep(ctx context.Context) error {
	var faults []error
	for _, step := range s.steps() {
		faults = append(faults, step.do(ctx)...)
	}
	return errors.Join(faults...)
}

// each does f for every item, some at one time, and collects the faults.
func each[T any](items []T, f func(T) error) (faults []error) {
	var mu sync.Mutex
	var hands errgroup.Group
	hands.SetLimit(sweepHands)
	for _, item := range items {
		hands.Go(func() error {
			if err := f(item); err != nil {
				mu.Lock()
				defer mu.Unlock()
				faults = append(faults, err)
			}
			return nil
		})
	}
	_ = hands.Wait() // what failed is in faults
	return faults
}

// expireOffers goes on until nothing is left that was due when it looked.
func (s *Service) expireOffers(ctx context.Context) (faults []error) {
	for after, more := (matching.Offer{}), true; more && ctx.Err() == nil; {
		offers, err := s.deps.Matching.Expired(ctx, s.deps.Searches.Read(), after, sweepBatch)
		if err != nil {
			return append(faults, err)
		}
		faults = append(faults, each(offers, func(o matching.Offer) error { return s.expire(ctx, o) })...)
		if more = len(offers) == sweepBatch; more {
			after = offers[len(offers)-1]
		}
	}
	return faults
}

func (s *Service) expire(ctx context.Context, o matching.Offer) error {
	err := s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, ok, err := tryLock(ctx, tx, o.ConsultationID)
		if err != nil || !ok {
			return err
		}
		// a program before this one left it open: nobody missed it
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

// takeFromLost signs lawyers off whose lease is lost, and takes assigned consultations from them, unless a call is
// being set up (rule 5).
func (s *Service) takeFromLost(ctx context.Context) (faults []error) {
	for more := true; more && ctx.Err() == nil; {
		var err error
		if more, err = s.deps.Lawyers.SignOffLost(ctx, s.deps.DB.Read()); err != nil {
			faults = append(faults, err)
		}
	}
	lost, err := s.deps.Lawyers.BusyLost(ctx, s.deps.DB.Read())
	if err != nil {
		return append(faults, err)
	}
	for some := range slices.Chunk(lost, sweepBatch) {
		work, err := inHands(ctx, s.deps.DB.Read(), some)
		if err != nil {
			return append(faults, err)
		}
		for _, c := range work {
			if c.Status != Assigned || c.Dialling() {
				continue
			}
			if err := s.takeIfLost(ctx, c.ID); err != nil {
				faults = append(faults, fmt.Errorf("take %s from its lawyer: %w", c.ID, err))
			}
		}
	}
	return faults
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
		return s.giveBack(ctx, tx, &c, lawyer.Off(lawyer.NoPage))
	})
}

// fireTimers goes on until nothing is left that was due when it looked. Searches that are over move together, many in a
// transaction, since they need no row of a call or a wallet; whatever else is due moves one by one.
func (s *Service) fireTimers(ctx context.Context) (faults []error) {
	for after, more := (due{}), true; more && ctx.Err() == nil; {
		list, err := dueTimers(ctx, s.deps.Searches.Read(), after, sweepBatch)
		if err != nil {
			return append(faults, err)
		}
		var groups [][]string
		for some := range slices.Chunk(list, movesAtOnce) {
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
		faults = append(faults, each(groups, func(ids []string) error { return s.fireAll(ctx, ids) })...)
		if more = len(list) == sweepBatch; more {
			after = list[len(list)-1]
		}
	}
	return faults
}

// fireAll handles consultations in one transaction; when that fails, each in its own, and the one that fails alone is
// looked at again later.
func (s *Service) fireAll(ctx context.Context, ids []string) error {
	err := s.fireTogether(ctx, ids)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if len(ids) > 1 {
		var faults []error
		for _, id := range ids {
			faults = append(faults, s.fireAll(ctx, []string{id}))
		}
		return errors.Join(faults...)
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
			if len(ids) > 1 && c.Status != Matching { // it has moved meanwhile, and may need rows that are locked last
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

// fire does what the timer of a locked consultation asks for, if it is still due.
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
			to = toWork // has dialled, and the line was busy
		}
		return s.giveBack(ctx, tx, c, to)
	case taskDial:
		return s.redial(ctx, tx, c)
	case taskNotChosen:
		return s.giveBack(ctx, tx, c, toWork)
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
		return update(ctx, tx, c.Status, *c) // the stored timer is not the one of the rules: set it right
	}
	return nil
}

// endSearch ends the searches of consultations, which wait for a callback from then on (X4). By night their open offers
// are taken back: the clients are called in the morning.
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
	if err := s.letGo(ctx, tx, *c, toWork); err != nil {
		return err
	}
	c.EndReason = GuaranteeMissed
	if err := s.apply(ctx, tx, c, onCallbackMissed); err != nil {
		return err
	}
	s.incident(tx, callbackMissed, c.ID, "")
	return nil
}

// redial makes the next attempt to reach the client. What waited for a callback and has come to the end of the client's
// day goes back, and waits for the next.
func (s *Service) redial(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	if quiet(*c, tx.Now) {
		return s.giveBack(ctx, tx, c, toWork)
	}
	if err := s.dial(ctx, tx, c); !errors.Is(err, telephony.ErrLineBusy) && !errors.Is(err, ErrPhoneLost) {
		return err
	}
	return nil
}

// giveUpAttempt ends a call that was neither joined nor given up in time: the provider has gone silent.
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
		return s.giveBack(ctx, tx, c, lawyer.Off(lawyer.NotReached))
	}
	return s.attemptFailed(ctx, tx, c)
}
