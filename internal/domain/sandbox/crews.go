package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// MaxLawyers is how many lawyers of its own an application may have.
const MaxLawyers = 20

const crewPhone = "+33199000099" // of the range that is kept for fiction

// Crews are the lawyers that applications of a sandbox have of their own: an application that has some is served by
// them alone, and they serve nobody else. They are played like the others.
type Crews struct {
	db      *postgres.DB
	engine  *consultation.Service
	lawyers *lawyer.Service
	catalog *catalog.Service
}

// NewCrews makes it.
func NewCrews(db *postgres.DB, engine *consultation.Service, l *lawyer.Service, c *catalog.Service) *Crews {
	return &Crews{db, engine, l, c}
}

// NewCrewLawyer is a lawyer of an application to be.
type NewCrewLawyer struct {
	Name string // 1 to 200 code points
	// codes of the catalog, at least one of each; he serves every competence in every language
	Competences, Languages []string
	Away                   bool // he does not come to work yet
}

// CrewLawyer is a lawyer of an application.
type CrewLawyer struct {
	ID, Name               string
	Competences, Languages []string `gorm:"-"`
	Available              bool     // he is at work, or comes back to it when what he has in hand is over
	CreatedAt              time.Time
}

// Create makes a lawyer. What the application begins from then on is served by its own lawyers alone; what waits
// already stays where it is. by is who does it, for the audit. Problems: VALIDATION_ERROR, LIMIT_REACHED.
func (s *Crews) Create(ctx context.Context, tx postgres.Tx, by, applicationID string,
	n NewCrewLawyer,
) (made CrewLawyer, err error) {
	if err := s.check(ctx, tx, n); err != nil {
		return made, err
	}
	if err := s.alone(ctx, tx, applicationID); err != nil {
		return made, err
	}
	there, err := countCrew(ctx, tx, applicationID)
	if err != nil {
		return made, err
	}
	if there >= MaxLawyers {
		return made, ErrLimit
	}
	l, err := s.lawyers.Create(ctx, tx,
		lawyer.NewLawyer{Email: strings.ToLower(rand.Text()[:12]) + "@lawyers.sandbox.example", Name: n.Name,
			Phone: crewPhone, Competences: n.Competences, Languages: n.Languages, Simulated: true,
			ApplicationID: applicationID})
	if err != nil {
		return made, problem.Invalid(err)
	}
	if err := insertCrew(ctx, tx, crewRow{LawyerID: l.ID, ApplicationID: applicationID, Away: n.Away,
		CreatedAt: tx.Now}); err != nil {
		return made, err
	}
	skills, err := s.lawyers.Skills(ctx, tx, l.ID)
	if err != nil {
		return made, err
	}
	made = CrewLawyer{ID: l.ID, Name: l.Name, Competences: skills.Competences, Languages: skills.Languages,
		Available: !n.Away, CreatedAt: tx.Now}
	return made, record(ctx, tx, by, "lawyer.create", l.ID, map[string]any{"name": l.Name,
		"competences": skills.Competences, "languages": skills.Languages})
}

var ruleCodes = problem.DeclareRule("codes", problem.IssueTooShort, "Must have at least one code of the catalog.")

func at(i problem.Issue, path string) problem.Issue {
	i.Path = path
	return i
}

// check names every code that the catalog has not.
func (s *Crews) check(ctx context.Context, tx postgres.Tx, n NewCrewLawyer) error {
	var issues []problem.Issue
	for i := range n.Competences {
		found, err := s.catalog.Unlisted(ctx, tx, &n.Competences[i], nil)
		if err != nil {
			return err
		}
		for _, f := range found {
			issues = append(issues, at(f, fmt.Sprintf("competences.%d", i)))
		}
	}
	for i := range n.Languages {
		found, err := s.catalog.Unlisted(ctx, tx, nil, &n.Languages[i])
		if err != nil {
			return err
		}
		for _, f := range found {
			issues = append(issues, at(f, fmt.Sprintf("languages.%d", i)))
		}
	}
	for name, codes := range map[string][]string{"competences": n.Competences, "languages": n.Languages} {
		if len(codes) == 0 {
			issues = append(issues, ruleCodes.At(name))
		}
	}
	if len(issues) > 0 {
		return problem.ErrValidation.With(issues...)
	}
	return nil
}

// alone keeps the lawyers of an application from being changed by two at a time.
func (s *Crews) alone(ctx context.Context, tx postgres.Tx, applicationID string) error {
	return tx.Lock(ctx, "sandbox lawyers of "+applicationID)
}

// List returns the lawyers of an application, the oldest first.
func (s *Crews) List(ctx context.Context, tx postgres.Tx, applicationID string) ([]CrewLawyer, error) {
	list, err := listCrew(ctx, tx, applicationID)
	for i := range list {
		skills, err := s.lawyers.Skills(ctx, tx, list[i].ID)
		if err != nil {
			return nil, err
		}
		list[i].Competences, list[i].Languages = skills.Competences, skills.Languages
	}
	return list, err
}

// SetAvailable sends a lawyer away, as soon as what he has in hand is over, or has him come back. Problem: NOT_FOUND.
func (s *Crews) SetAvailable(ctx context.Context, by, applicationID, lawyerID string, available bool) error {
	return s.db.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.alone(ctx, tx, applicationID); err != nil {
			return err
		}
		if err := setAway(ctx, tx, applicationID, lawyerID, !available); err != nil {
			return err
		}
		if !available {
			if err := s.rest(ctx, tx, lawyerID); err != nil {
				return err
			}
		}
		return record(ctx, tx, by, "lawyer.availability", lawyerID, map[string]any{"available": available})
	})
}

// Delete sends a lawyer away for good, as soon as what he has in hand is over. With the last one, everybody's lawyers
// serve the application again, also what waits. Problem: NOT_FOUND.
func (s *Crews) Delete(ctx context.Context, by, applicationID, lawyerID string) error {
	return s.db.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.alone(ctx, tx, applicationID); err != nil {
			return err
		}
		if err := deleteCrew(ctx, tx, applicationID, lawyerID); err != nil {
			return err
		}
		left, err := countCrew(ctx, tx, applicationID)
		if err != nil {
			return err
		}
		if left == 0 {
			if err := s.engine.Disband(ctx, tx, matching.Crew(applicationID)); err != nil {
				return err
			}
		}
		if err := s.rest(ctx, tx, lawyerID); err != nil {
			return err
		}
		return record(ctx, tx, by, "lawyer.delete", lawyerID, nil)
	})
}

// rest lets a lawyer go who is signed on.
func (s *Crews) rest(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	err := s.lawyers.Rest(ctx, tx, lawyerID)
	if errors.Is(err, lawyer.ErrState) { // he has not come yet
		return nil
	}
	return err
}

func record(ctx context.Context, tx postgres.Tx, by, action, lawyerID string, details map[string]any) error {
	return audit.Record(ctx, tx, audit.Entry{Actor: by, Action: action, Subject: lawyerID,
		Reason: "A lawyer of an application's own in a sandbox.", Details: details})
}
