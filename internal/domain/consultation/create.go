package consultation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/telemetry"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/vault"
)

// CreateCommand is the input of [Service.Create]; an empty language means FR. The texts must be trimmed and in NFC, and
// the waiver acknowledged.
type CreateCommand struct {
	Request
	Evidence Evidence
}

// Create starts a consultation: it reserves the price and begins the search (specification section 3, X1 and X2). If no
// call can be made, it fails before reserving money. After a problem tx must be rolled back. Problems:
// VALIDATION_ERROR, UNAVAILABLE, PHONE_REQUIRED, INSUFFICIENT_FUNDS.
func (s *Service) Create(ctx context.Context, tx postgres.Tx, cmd CreateCommand) (Consultation, error) {
	if cmd.Language == "" {
		cmd.Language = catalog.DefaultLanguage
	}
	if err := s.check(ctx, tx, cmd); err != nil {
		return Consultation{}, err
	}
	if !s.deps.Telephony.Available() {
		return Consultation{}, problem.ErrUnavailable.Because("This deployment has no telephony, so no " +
			"lawyer could call.").After(retryUnserved)
	}
	phone, ok, key, err := s.deps.Accounts.PhoneToKeep(ctx, tx, cmd.ClientID)
	if err != nil {
		return Consultation{}, fmt.Errorf("read the client's phone: %w", err)
	}
	if !ok {
		return Consultation{}, ErrPhoneRequired
	}
	begun := Consultation{ID: tx.NewID(id.Consultation), Request: cmd.Request, Price: Price}
	if s.deps.Stage != nil {
		if begun.Crew, err = s.deps.Stage.Cast(ctx, tx, begun); err != nil {
			return Consultation{}, err
		}
	}
	begun.TraceParent = telemetry.Carry(ctx)
	created, x1, err := advance(begun, onCreate, tx.Now)
	if err != nil {
		return Consultation{}, err
	}
	c, x2, err := advance(created, onAuthorize, tx.Now)
	if err != nil {
		return Consultation{}, err
	}
	events := append(eventsOf(created, x1), eventsOf(c, x2)...)
	c.EventSeq = int64(len(events))
	if err := s.insert(ctx, tx, c, key, phone, cmd.Evidence); err != nil {
		return Consultation{}, err
	}
	if err := s.deps.Webhooks.Emit(ctx, tx, subjectOf(c), 1, events...); err != nil {
		return Consultation{}, err
	}
	// last, because concurrent creations queue on the wallet's row
	if err := s.moveMoney(ctx, tx, c, x2.money); err != nil {
		return Consultation{}, err
	}
	s.report(ctx, tx, c, none, onCreate, "requestId", cmd.Evidence.RequestID)
	s.wakeSearch(tx, c.ID)
	return c, nil
}

var ruleWaiverVersion = problem.DeclareRule("waiver.version", problem.IssueInvalidValue,
	`"%s" is not a published version of the waiver text. Published versions: %s.`)

// check repeats checks of the HTTP layer, because this package owns the rules.
func (s *Service) check(ctx context.Context, tx postgres.Tx, cmd CreateCommand) error {
	issues := checkTexts(cmd.Subject, cmd.Description, cmd.ExternalRef)
	unlisted, err := s.deps.Catalog.Unlisted(ctx, tx, &cmd.Competence, &cmd.Language)
	if err != nil {
		return err
	}
	issues = append(issues, unlisted...)
	if v := cmd.Evidence.StatedVersion; v != "" && !slices.Contains(WaiverVersions, v) {
		issues = append(issues, ruleWaiverVersion.At("waiverTextVersion", problem.Shown(v),
			strings.Join(WaiverVersions, ", ")))
	}
	if len(issues) > 0 {
		return problem.ErrValidation.With(issues...)
	}
	return nil
}

// insert seals what must not be readable in a copy of the database, and writes record and evidence in one statement.
func (s *Service) insert(ctx context.Context, tx postgres.Tx, c Consultation, key vault.Key, phone string,
	e Evidence,
) error {
	r := toRow(c)
	var err error
	if r.SubjectSealed, err = key.Seal(subjectPlace(c.ID), []byte(c.Subject)); err != nil {
		return err
	}
	if c.Description != "" {
		if r.DescriptionSealed, err = key.Seal(descriptionPlace(c.ID), []byte(c.Description)); err != nil {
			return err
		}
	}
	if r.PhoneSealed, err = key.Seal(phonePlace(c.ID), []byte(phone)); err != nil {
		return err
	}
	kept, err := e.row()
	if err != nil {
		return err
	}
	return insertWithEvidence(ctx, tx, r, kept)
}

func subjectPlace(consultationID string) string { return "consultation.subject:" + consultationID }
func descriptionPlace(consultationID string) string {
	return "consultation.description:" + consultationID
}
func phonePlace(consultationID string) string { return "consultation.phone:" + consultationID }
