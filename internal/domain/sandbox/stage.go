package sandbox

import (
	"context"
	"fmt"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

// Stage is the [consultation.Stage] of a sandbox: partners choose how their consultations go, and may have their own
// lawyers.
type Stage struct{}

var _ consultation.Stage = Stage{}

// Cast stores the scenario of a consultation: the one named in its externalRef, otherwise the one chosen for the
// client. It returns VALIDATION_ERROR for an unknown scenario.
func (s Stage) Cast(ctx context.Context, tx postgres.Tx, c consultation.Consultation) (matching.Crew, error) {
	crew, name, err := castOf(ctx, tx, c.ApplicationID, c.ClientID)
	if err != nil {
		return "", err
	}
	if named := chosen(c.ExternalRef); named != "" {
		name = named
	}
	if name == "" || name == Completed {
		return crew, nil
	}
	way, ok := scenarioOf(name)
	if !ok {
		return "", problem.ErrValidation.With(problem.Issue{Path: "externalRef", Code: problem.IssueInvalidValue,
			Message: fmt.Sprintf("This sandbox has no scenario %q.", name)})
	}
	if way.nobody {
		crew = matching.Nobody
	}
	return crew, insertPlay(ctx, tx, playRow{ConsultationID: c.ID, Scenario: way.name, Act: way.act})
}

// Crew implements [consultation.Stage]. An application is served by its own lawyers if it has any.
func (s Stage) Crew(ctx context.Context, tx postgres.Tx, applicationID string) (matching.Crew, error) {
	return ofApplication(ctx, tx, applicationID)
}
