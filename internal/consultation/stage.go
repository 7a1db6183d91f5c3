package consultation

import (
	"context"

	"partnerd/internal/lawyer"
	"partnerd/internal/matching"
	"partnerd/internal/postgres"
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

// Recast gives a consultation that waits to another crew, which is sought for at once. One that does not wait stays as it is.
func (s *Service) Recast(ctx context.Context, tx postgres.Tx, consultationID string, crew matching.Crew) error {
	c, err := lock(ctx, tx, consultationID)
	if err != nil || c.Status != Matching && c.Status != PendingCallback || c.Crew == crew {
		return err
	}
	if err := s.revoke(ctx, tx, c); err != nil {
		return err
	}
	c.Crew = crew
	if err := s.save(ctx, tx, &c); err != nil {
		return err
	}
	s.wakeSearch(tx, c.ID)
	return nil
}
