package catalog

import (
	"context"
	"sync"
	"time"

	"golang.org/x/text/language"

	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// DefaultLanguage is the language of a consultation that does not name one (specification section 2.7).
const DefaultLanguage = "FR"

// freshFor is how long a list is cached.
const freshFor = time.Second

// Entry is one item of a list as a caller sees it.
type Entry struct {
	Code  string // value accepted when a consultation is created
	Label string // for people, in the requested language
}

// Service reads the lists and caches them for a second. Safe for concurrent use.
type Service struct {
	mu     sync.Mutex
	readAt time.Time
	lists  lists
}

type lists struct{ competences, languages []item }

type item struct{ code, labelEN, labelFR string }

// New creates the service.
func New() *Service { return &Service{} }

// Competences lists the practice areas in their published order. Labels are in French if lang is French, otherwise in
// English.
func (s *Service) Competences(ctx context.Context, tx postgres.Tx, lang language.Tag) ([]Entry, error) {
	l, err := s.read(ctx, tx)
	return entries(l.competences, lang), err
}

// Languages lists the languages of consultations; see [Service.Competences].
func (s *Service) Languages(ctx context.Context, tx postgres.Tx, lang language.Tag) ([]Entry, error) {
	l, err := s.read(ctx, tx)
	return entries(l.languages, lang), err
}

// Unlisted returns an issue for each code that a new consultation may not use. Nil codes are not checked.
func (s *Service) Unlisted(ctx context.Context, tx postgres.Tx, competence, language *string) ([]problem.Issue, error) {
	if competence == nil && language == nil {
		return nil, nil
	}
	l, err := s.read(ctx, tx)
	if err != nil {
		return nil, err
	}
	var issues []problem.Issue
	for _, field := range []struct {
		name   string
		code   *string
		listed []item
	}{{"competence", competence, l.competences}, {"language", language, l.languages}} {
		if field.code != nil && !has(field.listed, *field.code) {
			issues = append(issues, problem.RuleCatalog.At(field.name, problem.Shown(*field.code)))
		}
	}
	return issues, nil
}

func (s *Service) read(ctx context.Context, tx postgres.Tx) (lists, error) {
	s.mu.Lock()
	l, at := s.lists, s.readAt
	s.mu.Unlock()
	if age := tx.Now.Sub(at); !at.IsZero() && age >= 0 && age < freshFor {
		return l, nil
	}
	l, err := load(ctx, tx)
	if err != nil {
		return lists{}, err
	}
	s.mu.Lock()
	s.lists, s.readAt = l, tx.Now
	s.mu.Unlock()
	return l, nil
}
