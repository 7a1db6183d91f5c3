package consultation

import (
	"context"
	"errors"
	"fmt"

	"partnerd/internal/base/telemetry"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

const (
	peekPerLawyer = 20  // waiting consultations looked at when a lawyer becomes available
	peekPerClient = 20  // when a client is free for another one
	peekPerPair   = 100 // and in each pair at every sweep
)

func (s *Service) workOf(tx postgres.Tx, c searching) matching.Work {
	return matching.Work{
		ConsultationID: c.ID, ClientID: c.ClientID,
		Pair:  matching.Pair{Competence: c.Competence, Language: c.Language},
		Crew:  c.Crew,
		Since: c.SearchStartedAt, Failures: c.failures,
		Quarantined: func(lawyerID string) { s.incident(tx, lawyerQuarantined, c.ID, lawyerID) },
	}
}

// search is work that seeks a lawyer: found tells whether it is on offer now. A consultation that somebody else is at
// is left to the next sweep.
func (s *Service) search(ctx context.Context, consultationID string) (found bool, err error) {
	err = s.deps.Searches.InTx(ctx, func(tx postgres.Tx) error {
		found = false
		c, ok, err := lockWaiting(ctx, tx, consultationID)
		if err != nil || !ok {
			return err
		}
		ctx, span := s.seek(ctx, tx, c)
		offers, err := s.deps.Matching.Offer(ctx, tx, s.workOf(tx, c))
		found = len(offers) > 0
		span.SetInt(telemetry.Found, int64(len(offers)))
		span.End(err)
		return err
	})
	return found, err
}

// seek begins the span of a search, which follows from the creation.
func (s *Service) seek(ctx context.Context, tx postgres.Tx, c searching) (context.Context, telemetry.Span) {
	ctx, span := s.deps.Tracer.Resume(ctx, "consultation search", c.TraceParent, tx.Now.Sub(c.CreatedAt))
	span.Set(telemetry.ConsultationID, c.ID)
	return ctx, span
}

// AwaitSearches waits until nobody seeks a lawyer for what an application's clients wait for, and keeps all from it
// until the transaction ends: a search that began before shows nothing of what it will do.
func (s *Service) AwaitSearches(ctx context.Context, tx postgres.Tx, applicationID string) error {
	return lockWaitingOf(ctx, tx, applicationID)
}

// searchClient seeks a lawyer for what a client waits for, the oldest first, until something is on offer: he is served
// one at a time, and each may be in a pair of its own.
func (s *Service) searchClient(ctx context.Context, clientID string) error {
	work, err := waitingOfClient(ctx, s.deps.Searches.Read(), clientID, peekPerClient)
	if err != nil {
		return err
	}
	for _, c := range work {
		if found, err := s.search(ctx, c.ID); err != nil || found {
			return err
		}
	}
	return nil
}

// LawyerAvailable is a lawyer who seeks work: of all that waits in his pairs he is offered what has waited longest,
// callbacks near their due time first. It takes the lawyer's lock before the consultation's, which is safe because it
// skips consultations that are locked.
func (s *Service) LawyerAvailable(ctx context.Context, lawyerID string) error {
	return s.deps.Searches.InTx(ctx, func(tx postgres.Tx) error {
		l, err := s.deps.Lawyers.Lock(ctx, tx, lawyerID)
		if err != nil || l.State != lawyer.Available || l.Suspended || !l.Fresh(tx.Now) {
			return err
		}
		candidates, err := waitingFor(ctx, tx, l, peekPerLawyer)
		if err != nil {
			return err
		}
		byAge(candidates, tx.Now)
		for _, peeked := range candidates {
			c, ok, err := lockWaiting(ctx, tx, peeked.ID)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			ctx, span := s.seek(ctx, tx, c)
			found, err := s.deps.Matching.OfferTo(ctx, tx, s.workOf(tx, c), lawyerID)
			if found {
				span.SetInt(telemetry.Found, 1)
			}
			span.End(err)
			if err != nil || found {
				return err
			}
		}
		return nil
	})
}

// searchWaiting brings together what the searches after commit have missed: idle lawyers and waiting work. With nobody
// idle it costs two statements, however much is waiting.
func (s *Service) searchWaiting(ctx context.Context) []error {
	pairs, err := waitingPairs(ctx, s.deps.Searches.Read())
	if err != nil {
		return []error{err}
	}
	faults := s.searchPairs(ctx, "", pairs)
	if s.deps.Stage == nil {
		return faults
	}
	crews, err := waitingCrews(ctx, s.deps.Searches.Read())
	if err != nil {
		return append(faults, err)
	}
	for crew, pairs := range crews {
		faults = append(faults, s.searchPairs(ctx, crew, pairs)...)
	}
	return faults
}

// searchPairs searches for the waiting work of those pairs for which somebody of the crew is idle.
func (s *Service) searchPairs(ctx context.Context, crew matching.Crew, pairs []matching.Pair) (faults []error) {
	pairs, err := s.deps.Matching.IdlePairs(ctx, s.deps.Searches.Read(), crew, pairs...)
	if err != nil {
		return []error{err}
	}
	for _, p := range pairs {
		if err := s.searchPair(ctx, p, crew); err != nil {
			faults = append(faults, fmt.Errorf("search for %s in %s: %w", p.Competence, p.Language, err))
		}
	}
	return faults
}

// searchPair offers the waiting work of a pair as long as somebody is idle for it, one consultation of each client.
func (s *Service) searchPair(ctx context.Context, p matching.Pair, crew matching.Crew) error {
	tx := s.deps.Searches.Read()
	work, err := waitingOf(ctx, tx, p, crew, peekPerPair)
	if err != nil {
		return err
	}
	byAge(work, tx.Now)
	var faults []error
	served := map[string]bool{}
	for _, c := range work {
		if served[c.ClientID] {
			continue
		}
		idle, err := s.deps.Matching.IdlePairs(ctx, s.deps.Searches.Read(), crew, p)
		if err != nil || len(idle) == 0 {
			return errors.Join(append(faults, err)...)
		}
		found, err := s.search(ctx, c.ID)
		if err != nil {
			faults = append(faults, err)
		}
		served[c.ClientID] = found
	}
	return errors.Join(faults...)
}

// WaitingFor counts what waits for a lawyer of the fields of l and was not refused by them, up to limit.
func (s *Service) WaitingFor(ctx context.Context, tx postgres.Tx, l lawyer.Lawyer, limit int) (int, error) {
	work, err := waitingFor(ctx, tx, l, limit)
	return len(work), err
}
