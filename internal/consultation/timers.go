package consultation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"partnerd/internal/lawyer"
	"partnerd/internal/postgres"
	"partnerd/internal/telephony"
)

const (
	sweepEvery    = time.Second
	sweepBatch    = 200
	searchWorkers = 2           // for what commits in this process
	retryBroken   = time.Minute // a timer that failed
)

// Run searches for what commits in this process and sweeps every second, until ctx ends. Any number of processes may
// do so on one database.
func (s *Service) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	for range searchWorkers {
		workers.Go(func() { s.searchAfterCommit(ctx) })
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("sweep", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (s *Service) searchAfterCommit(ctx context.Context) {
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case id := <-s.work:
			_, err = s.search(ctx, id)
		case id := <-s.idle:
			err = s.LawyerAvailable(ctx, id)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Error("search", "error", err)
		}
	}
}

// Sweep does everything that is due: offers whose time is over, timers, lawyers who are gone, and waiting work for
// which somebody is idle. Each consultation has its own transaction; one that fails stops no other, and the faults
// come back together.
func (s *Service) Sweep(ctx context.Context) error {
	faults := s.expireOffers(ctx)
	faults = append(faults, s.fireTimers(ctx)...)
	faults = append(faults, s.takeFromLost(ctx)...)
	faults = append(faults, s.searchWaiting(ctx)...)
	return errors.Join(faults...)
}

func (s *Service) expireOffers(ctx context.Context) (faults []error) {
	offers, err := s.Matching.Expired(ctx, s.DB.Read(), sweepBatch)
	if err != nil {
		return []error{err}
	}
	for _, o := range offers {
		err := s.DB.InTx(ctx, func(tx postgres.Tx) error {
			if _, ok, err := tryLock(ctx, tx, o.ConsultationID); err != nil || !ok {
				return err
			}
			_, expired, err := s.Matching.Expire(ctx, tx, o.ID)
			if expired {
				s.wakeSearch(tx, o.ConsultationID)
			}
			return err
		})
		if err != nil {
			faults = append(faults, fmt.Errorf("expire offer %s: %w", o.ID, err))
		}
	}
	return faults
}

// takeFromLost takes assigned consultations from lawyers whose lease is lost, unless a call is being set up (rule 5).
func (s *Service) takeFromLost(ctx context.Context) (faults []error) {
	read := s.DB.Read()
	lost, err := s.Lawyers.Stale(ctx, read, read.Now.Add(-lawyer.LeaseLost))
	if err != nil || len(lost) == 0 {
		return asList(err)
	}
	work, err := inHands(ctx, read, lost)
	if err != nil {
		return []error{err}
	}
	for _, c := range work {
		if c.Status != Assigned || c.Dialling() {
			continue
		}
		if err := s.takeIfLost(ctx, c.ID); err != nil {
			faults = append(faults, fmt.Errorf("take %s from its lawyer: %w", c.ID, err))
		}
	}
	return faults
}

func (s *Service) takeIfLost(ctx context.Context, consultationID string) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, ok, err := tryLock(ctx, tx, consultationID)
		if err != nil || !ok || c.Status != Assigned || c.Dialling() {
			return err
		}
		l, err := s.Lawyers.Lock(ctx, tx, c.LawyerID)
		if err != nil || !l.HeartbeatAt.Before(tx.Now.Add(-lawyer.LeaseLost)) {
			return err
		}
		return s.giveBack(ctx, tx, &c, lawyer.Offline)
	})
}

func (s *Service) fireTimers(ctx context.Context) (faults []error) {
	due, err := dueTimers(ctx, s.DB.Read(), sweepBatch)
	if err != nil {
		return []error{err}
	}
	for _, id := range due {
		err := s.DB.InTx(ctx, func(tx postgres.Tx) error {
			c, ok, err := tryLock(ctx, tx, id)
			if err != nil || !ok {
				return err
			}
			return s.fire(ctx, tx, &c)
		})
		if err == nil {
			continue
		}
		faults = append(faults, fmt.Errorf("timer of %s: %w", id, err))
		tx := s.DB.Read()
		if err := postpone(ctx, tx, id, tx.Now.Add(retryBroken)); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// fire does what the timer of a locked consultation asks for, if it is still due.
func (s *Service) fire(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	switch dueTask(*c, tx.Now) {
	case taskSearchOver:
		return s.endSearch(ctx, tx, c)
	case taskNextDay:
		if err := s.setHours(ctx, tx, c); err != nil {
			return err
		}
		return s.save(ctx, tx, c)
	case taskCallbackOver:
		return s.missGuarantee(ctx, tx, c)
	case taskNotDialled:
		to := lawyer.Away
		if c.NextDialAt != nil {
			to = lawyer.Available // has dialled, and the line was busy
		}
		return s.giveBack(ctx, tx, c, to)
	case taskDial:
		return s.redial(ctx, tx, c)
	case taskDialStuck:
		return s.giveUpAttempt(ctx, tx, c)
	case taskLineLost:
		return s.cutCall(ctx, tx, c, "line_lost")
	case taskCallCap:
		return s.cutCall(ctx, tx, c, "limit")
	case taskRemind:
		return s.remind(ctx, tx, c)
	case taskNone:
		return update(ctx, tx, *c, c.Status) // the stored timer is not the one of the rules: set it right
	}
	return nil
}

// endSearch ends the search of a consultation, which waits for a callback from then on (X4). By night its open offer is
// taken back: the client is called in the morning.
func (s *Service) endSearch(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	if err := s.setHours(ctx, tx, c); err != nil {
		return err
	}
	if err := s.apply(ctx, tx, c, onSearchOver); err != nil || callable(*c, tx.Now) {
		return err
	}
	return s.Matching.Revoke(ctx, tx, c.ID)
}

// missGuarantee closes a consultation whose promised callback did not happen in time (X14, T32).
func (s *Service) missGuarantee(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	if err := s.letGo(ctx, tx, *c, lawyer.Available); err != nil {
		return err
	}
	c.EndReason = GuaranteeMissed
	if err := s.apply(ctx, tx, c, onCallbackMissed); err != nil {
		return err
	}
	id := c.ID
	tx.AfterCommit(func() { s.log.Error("incident: callback guarantee missed", "id", id) })
	return nil
}

// redial makes the next attempt to reach the client. What waited for a callback and has come to the end of the client's day
// goes back, and waits for the next.
func (s *Service) redial(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	if quiet(*c, tx.Now) {
		return s.giveBack(ctx, tx, c, lawyer.Available)
	}
	err := s.checkPhone(ctx, tx, *c)
	if errors.Is(err, ErrPhoneLost) {
		now := tx.Now
		if c.FirstDialAt == nil {
			c.FirstDialAt = &now
		}
		c.DialAttempts, c.LastDialAt, c.NextDialAt = c.DialAttempts+1, &now, nil
		return s.attemptFailed(ctx, tx, c)
	}
	if err != nil {
		return err
	}
	if err := s.dial(ctx, tx, c); !errors.Is(err, telephony.ErrLineBusy) {
		return err
	}
	return nil
}

// giveUpAttempt ends a call that was neither joined nor given up in time: the provider has gone silent.
func (s *Service) giveUpAttempt(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	call, active, err := s.Telephony.Active(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	if !active {
		return s.attemptFailed(ctx, tx, c)
	}
	o, err := s.Telephony.End(ctx, tx, call.ID, telephony.Timeout)
	if err != nil {
		return err
	}
	if o.Kind == telephony.LawyerNotReached {
		return s.giveBack(ctx, tx, c, lawyer.Away)
	}
	return s.attemptFailed(ctx, tx, c)
}

// remind says that the note is missing (H37): twice to the lawyer, at last to the operator.
func (s *Service) remind(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	c.Reminders++
	if err := s.save(ctx, tx, c); err != nil {
		return err
	}
	id, lawyerID, n := c.ID, c.LawyerID, c.Reminders
	tx.AfterCommit(func() {
		if n < len(noteReminders) {
			s.log.Warn("note is missing", "id", id, "lawyer", lawyerID, "after", noteReminders[n-1])
			return
		}
		s.log.Error("incident: note is missing", "id", id, "lawyer", lawyerID, "after", noteReminders[n-1])
	})
	return nil
}

func asList(err error) []error {
	if err == nil {
		return nil
	}
	return []error{err}
}
