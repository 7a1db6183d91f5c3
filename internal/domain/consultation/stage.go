package consultation

import (
	"context"
	"slices"
	"time"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

// Stage says in a sandbox who serves whom.
type Stage interface {
	// Cast says whose lawyers serve a consultation that is about to begin. A problem refuses it.
	Cast(ctx context.Context, tx postgres.Tx, c Consultation) (matching.Crew, error)

	// Crew says whose lawyers serve an application, if nothing else is said.
	Crew(ctx context.Context, tx postgres.Tx, applicationID string) (matching.Crew, error)
}

func (s *Service) crew(ctx context.Context, tx postgres.Tx, applicationID string) (matching.Crew, error) {
	if s.deps.Stage == nil {
		return "", nil
	}
	return s.deps.Stage.Crew(ctx, tx, applicationID)
}

// crewOf is whose consultations a lawyer serves.
func crewOf(l lawyer.Lawyer) matching.Crew { return matching.Crew(l.ApplicationID) }

// Recast gives a consultation that waits to another crew, which is sought for at once. One that a lawyer has and that
// may come back is sought for by that crew then. One whose call has begun stays as it is.
func (s *Service) Recast(ctx context.Context, tx postgres.Tx, consultationID string, crew matching.Crew) error {
	c, err := lock(ctx, tx, consultationID)
	if err != nil {
		return err
	}
	return s.recast(ctx, tx, crew, c)
}

// Disband gives everything that waits for a crew, or may come back to it, to everybody's lawyers.
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

// Reachable lists what a consultation can come to by steps of the state table, its own status among them, in the order
// of [Statuses].
func (c Consultation) Reachable(now time.Time) (list []Status) {
	seen := map[Status]bool{c.Status: true}
	for ways := []Status{c.Status}; len(ways) > 0; ways = ways[1:] {
		for _, st := range table[ways[0]] {
			if st.to == Matching && searchElapsed(c, now) { // X7 comes before X8 only
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

// NextTimer is when something happens to a consultation of itself; nil when nothing does.
func (c Consultation) NextTimer() *time.Time { return nextTimer(c) }

// Callable is when a client may be called who may not be now: on a day for callbacks, or for the next attempt; nil when
// he may.
func (c Consultation) Callable(now time.Time) *time.Time {
	switch {
	case c.NextDialAt != nil && c.NextDialAt.After(now):
		return c.NextDialAt
	case c.Status != PendingCallback || !quiet(c, now):
		return nil
	case now.Before(*c.CallableFrom):
		return c.CallableFrom
	default:
		return nextTimer(c)
	}
}
