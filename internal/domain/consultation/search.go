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
	peekPerLawyer = 20  // waiting consultations considered for a lawyer who becomes available
	peekPerClient = 20  // for a client who becomes free
	peekPerPair   = 100 // per pair and sweep
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

// search searches for a lawyer for a waiting consultation and reports whether it is now on offer. A locked consultation
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

// seek starts the span of a search, which follows from the creation.
func (s *Service) seek(ctx context.Context, tx postgres.Tx, c searching) (context.Context, telemetry.Span) {
	ctx, span := s.deps.Tracer.Resume(ctx, "consultation search", c.TraceParent, tx.Now.Sub(c.CreatedAt))
	span.Set(telemetry.ConsultationID, c.ID)
	return ctx, span
}

// AwaitSearches waits for running searches for an application's clients, and blocks new ones until the transaction
// ends. Otherwise a search that began earlier could still act without being seen.
func (s *Service) AwaitSearches(ctx context.Context, tx postgres.Tx, applicationID string) error {
	return lockWaitingOf(ctx, tx, applicationID)
}

// searchClient searches for lawyers for a client's waiting consultations, oldest first, until one is on offer. A client
// is served one at a time, and each consultation may belong to a different pair.
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

// LawyerAvailable offers a lawyer the longest-waiting consultation of their pairs, with callbacks near their due time
// first. It locks the lawyer before the consultation, which is safe because it skips locked consultations.
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

// searchWaiting matches idle lawyers and waiting work that the searches after commits have missed. If no lawyer is
// idle, it costs two statements, however much work waits.
func (s *Service) searchWaiting(ctx context.Context) []error {
	pairs, err := waitingPairs(ctx, s.deps.Searches.Read())
	if err != nil {
		return []error{err}
	}
	errs := s.searchPairs(ctx, "", pairs)
	if s.deps.Stage == nil {
		return errs
	}
	crews, err := waitingCrews(ctx, s.deps.Searches.Read())
	if err != nil {
		return append(errs, err)
	}
	for crew, pairs := range crews {
		errs = append(errs, s.searchPairs(ctx, crew, pairs)...)
	}
	return errs
}

// searchPairs offers the waiting consultations of those pairs for which a lawyer of the crew is idle.
func (s *Service) searchPairs(ctx context.Context, crew matching.Crew, pairs []matching.Pair) (errs []error) {
	pairs, err := s.deps.Matching.IdlePairs(ctx, s.deps.Searches.Read(), crew, pairs...)
	if err != nil {
		return []error{err}
	}
	for _, p := range pairs {
		if err := s.searchPair(ctx, p, crew); err != nil {
			errs = append(errs, fmt.Errorf("search for %s in %s: %w", p.Competence, p.Language, err))
		}
	}
	return errs
}

// searchPair offers the waiting consultations of a pair, at most one per client, for as long as the pair has an idle
// lawyer.
func (s *Service) searchPair(ctx context.Context, p matching.Pair, crew matching.Crew) error {
	tx := s.deps.Searches.Read()
	work, err := waitingOf(ctx, tx, p, crew, peekPerPair)
	if err != nil {
		return err
	}
	byAge(work, tx.Now)
	var errs []error
	served := map[string]bool{}
	for _, c := range work {
		if served[c.ClientID] {
			continue
		}
		idle, err := s.deps.Matching.IdlePairs(ctx, s.deps.Searches.Read(), crew, p)
		if err != nil || len(idle) == 0 {
			return errors.Join(append(errs, err)...)
		}
		found, err := s.search(ctx, c.ID)
		if err != nil {
			errs = append(errs, err)
		}
		served[c.ClientID] = found
	}
	return errors.Join(errs...)
}

// WaitingFor counts waiting consultations that may be offered to lawyer l, up to limit.
func (s *Service) WaitingFor(ctx context.Context, tx postgres.Tx, l lawyer.Lawyer, limit int) (int, error) {
	work, err := waitingFor(ctx, tx, l, limit)
	return len(work), err
}
