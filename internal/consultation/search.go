package consultation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"partnerd/internal/lawyer"
	"partnerd/internal/matching"
	"partnerd/internal/postgres"
)

const (
	peekPerLawyer = 20  // waiting consultations looked at when a lawyer becomes available
	peekPerPair   = 100 // and in each pair at every sweep
)

func workOf(c Consultation) matching.Work {
	return matching.Work{
		ConsultationID: c.ID, Callback: c.Status == PendingCallback,
		Pair: matching.Pair{Competence: c.Competence, Language: c.Language},
	}
}

// searching tells whether a lawyer may be sought for c at now.
func (c Consultation) searching(now time.Time) bool {
	return c.Status == Matching || c.Status == PendingCallback && callable(c, now)
}

// search is work that seeks a lawyer: found tells whether it is on offer now. A consultation that somebody else is at
// is left to the next sweep.
func (s *Service) search(ctx context.Context, consultationID string) (found bool, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		found = false
		c, ok, err := tryLock(ctx, tx, consultationID)
		if err != nil || !ok || !c.searching(tx.Now) {
			return err
		}
		_, found, err = s.Matching.Offer(ctx, tx, workOf(c))
		return err
	})
	return found, err
}

// LawyerAvailable is a lawyer who seeks work: of all that waits in his pairs he is offered what has waited longest,
// callbacks near their due time first. It takes the lawyer's lock before the consultation's, which is safe because it
// skips consultations that are locked.
func (s *Service) LawyerAvailable(ctx context.Context, lawyerID string) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		l, err := s.Lawyers.Lock(ctx, tx, lawyerID)
		if err != nil || l.State != lawyer.Available || l.Suspended || !l.Fresh(tx.Now) {
			return err
		}
		pairs, err := s.Matching.PairsOf(ctx, tx, lawyerID)
		if err != nil || len(pairs) == 0 {
			return err
		}
		candidates, err := waitingFor(ctx, tx, lawyerID, pairs, peekPerLawyer)
		if err != nil {
			return err
		}
		byAge(candidates, tx.Now)
		for _, peeked := range candidates {
			c, ok, err := tryLock(ctx, tx, peeked.ID)
			if err != nil {
				return err
			}
			if !ok || !c.searching(tx.Now) {
				continue
			}
			if _, found, err := s.Matching.OfferTo(ctx, tx, workOf(c), lawyerID); err != nil || found {
				return err
			}
		}
		return nil
	})
}

// searchWaiting brings together what the searches after commit have missed: idle lawyers and waiting work.
func (s *Service) searchWaiting(ctx context.Context) []error {
	pairs, err := waitingPairs(ctx, s.DB.Read())
	if err != nil {
		return []error{err}
	}
	var faults []error
	for _, p := range pairs {
		if err := s.searchPair(ctx, p); err != nil {
			faults = append(faults, fmt.Errorf("search for %s in %s: %w", p.Competence, p.Language, err))
		}
	}
	return faults
}

// searchPair offers the waiting work of a pair as long as somebody is idle for it.
func (s *Service) searchPair(ctx context.Context, p matching.Pair) error {
	var work []Consultation
	var faults []error
	for i := 0; ; i++ {
		idle, err := s.Matching.IdleFor(ctx, s.DB.Read(), p)
		if err != nil || !idle {
			return errors.Join(append(faults, err)...)
		}
		if work == nil {
			tx := s.DB.Read()
			if work, err = waitingOf(ctx, tx, p, peekPerPair); err != nil {
				return err
			}
			byAge(work, tx.Now)
		}
		if i >= len(work) {
			return errors.Join(faults...)
		}
		if _, err := s.search(ctx, work[i].ID); err != nil {
			faults = append(faults, err)
		}
	}
}
