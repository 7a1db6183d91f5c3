package consultation

import (
	"context"
	"slices"
	"time"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

// Stage decides in a sandbox which lawyers serve which consultations.
type Stage interface {
	// Cast returns the crew that serves a new consultation. If it returns a problem, the consultation is rejected.
	Cast(ctx context.Context, tx postgres.Tx, c Consultation) (matching.Crew, error)

	// Crew returns the crew that serves an application by default.
	Crew(ctx context.Context, tx postgres.Tx, applicationID string) (matching.Crew, error)
}

func (s *Service) crew(ctx context.Context, tx postgres.Tx, applicationID string) (matching.Crew, error) {
	if s.deps.Stage == nil {
		return "", nil
	}
	return s.deps.Stage.Crew(ctx, tx, applicationID)
}

// crewOf returns the crew that a lawyer belongs to.
func crewOf(l lawyer.Lawyer) matching.Crew { return matching.Crew(l.ApplicationID) }

// Recast moves a waiting consultation to another crew and starts a search. If a lawyer has it and it may come back, the
// new crew is searched then. If its call has begun, it stays as it is.
func (s *Service) Recast(ctx context.Context, tx postgres.Tx, consultationID string, crew matching.Crew) error {
	c, err := lock(ctx, tx, consultationID)
	if err != nil {
		return err
	}
	return s.recast(ctx, tx, crew, c)
}

// Disband moves everything that waits for a crew, or may come back to it, to the shared lawyers.
func (s *Service) Disband(ctx context.Context, tx postgres.Tx, crew matching.Crew) error {
	list, err := lockCrew(ctx, tx, crew)
	if err != nil {
		return err
	}
	return s.recast(ctx, tx, "", list...)
}

func (s *Service) recast(ctx context.Context, tx postgres.Tx, crew matching.Crew, list ...Consultation) error {
	list = slices.DeleteFunc(list, func(c Consultation) bool {
		return c.Crew == crew || c.Status != Matching && c.Status != PendingCallback && c.Status != Assigned
	})
	waiting := slices.DeleteFunc(slices.Clone(list), func(c Consultation) bool { return c.Status == Assigned })
	if len(waiting) > 0 {
		if err := s.revoke(ctx, tx, waiting...); err != nil {
			return err
		}
	}
	for _, c := range list {
		c.Crew = crew
		if err := s.save(ctx, tx, &c); err != nil {
			return err
		}
		if c.Status != Assigned {
			s.wakeSearch(tx, c.ID)
		}
	}
	return nil
}

// Reachable lists the statuses that a consultation can reach by steps of the state table, including its own, in the
// order of [Statuses].
func (c Consultation) Reachable(now time.Time) (list []Status) {
	seen := map[Status]bool{c.Status: true}
	for ways := []Status{c.Status}; len(ways) > 0; ways = ways[1:] {
		for _, st := range table[ways[0]] {
			if st.to == Matching && searchElapsed(c, now) { // X7 is possible only during the search, after that X8
				continue
			}
			if !seen[st.to] {
				seen[st.to] = true
				ways = append(ways, st.to)
			}
		}
	}
	return slices.DeleteFunc(Statuses(), func(s Status) bool { return !seen[s] })
}

// NextTimer returns when the next automatic step is due; nil if none is.
func (c Consultation) NextTimer() *time.Time { return nextTimer(c) }

// Callable returns when a client who may not be called now may be: at the hours for callbacks, or for the next attempt.
// It returns nil if the client may be called now.
func (c Consultation) Callable(now time.Time) *time.Time {
	switch {
	case c.NextDialAt != nil && c.NextDialAt.After(now):
		return c.NextDialAt
	case c.Status != PendingCallback || !outsideCallHours(c, now):
		return nil
	case now.Before(*c.CallableFrom):
		return c.CallableFrom
	default:
		return nextTimer(c)
	}
}
