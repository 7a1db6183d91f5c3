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

const crewPhone = "+33199000099" // reserved for fiction

// Crews manages sandbox applications' own lawyers. An application that has such lawyers is served only by them, and
// they serve no other application. They are simulated, like all other lawyers in a sandbox.
type Crews struct {
	db      *postgres.DB
	engine  *consultation.Service
	lawyers *lawyer.Service
	catalog *catalog.Service
}

// NewCrews creates the service.
func NewCrews(db *postgres.DB, engine *consultation.Service, l *lawyer.Service, c *catalog.Service) *Crews {
	return &Crews{db, engine, l, c}
}

// NewCrewLawyer is the input of [Crews.Create].
type NewCrewLawyer struct {
	Name string // 1 to 200 code points
	// catalog codes, at least one of each; the lawyer serves every practice area in every language
	Competences, Languages []string
	Away                   bool // not at work yet
}

// CrewLawyer is a lawyer of an application.
type CrewLawyer struct {
	ID, Name               string
	Competences, Languages []string `gorm:"-"`
	Available              bool     // at work, or returning to work after the current case
	CreatedAt              time.Time
}

// Create adds a lawyer. From then on, only the application's own lawyers serve its new consultations. Those already
// waiting stay with the shared lawyers. by is the actor in the audit log. It returns VALIDATION_ERROR or LIMIT_REACHED.
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

var ruleCodes = problem.DeclareRule("codes", problem.IssueTooShort, "Must have at least one code from the catalogue.")

func at(i problem.Issue, path string) problem.Issue {
	i.Path = path
	return i
}

// check returns an issue for every code that is not in the catalog.
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

// alone serialises changes of an application's lawyers.
func (s *Crews) alone(ctx context.Context, tx postgres.Tx, applicationID string) error {
	return tx.Lock(ctx, "sandbox lawyers of "+applicationID)
}

// List returns the lawyers of an application, oldest first.
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

// SetAvailable sends a lawyer away, once their current case is done, or brings them back to work. It returns NOT_FOUND.
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

// Delete removes a lawyer, once their current case is done. After the last one is removed, the shared lawyers serve the
// application again, including what is waiting. It returns NOT_FOUND.
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

// rest takes a lawyer off duty.
func (s *Crews) rest(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	err := s.lawyers.Rest(ctx, tx, lawyerID)
	if errors.Is(err, lawyer.ErrState) { // not on duty yet
		return nil
	}
	return err
}

func record(ctx context.Context, tx postgres.Tx, by, action, lawyerID string, details map[string]any) error {
	return audit.Record(ctx, tx, audit.Entry{Actor: by, Action: action, Subject: lawyerID,
		Reason: "A lawyer of an application's own in a sandbox.", Details: details})
}
