package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"partnerd/gen/partner/models"
	"partnerd/gen/partner/server"
	"partnerd/internal/base/clock"
	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/infra/postgres"
)

// GetCoverage handles GET /api/v1/coverage.
func (s *Server) GetCoverage(ctx context.Context,
	r server.GetCoverageRequestObject,
) (server.GetCoverageResponseObject, error) {
	issues, err := s.deps.Catalog.Unlisted(ctx, s.deps.DB.Read(), &r.Params.Competence, &r.Params.Language)
	if err != nil {
		return nil, err
	}
	if len(issues) > 0 {
		return nil, problem.ErrMalformed.Because("The request has invalid parameters; see issues.").With(issues...)
	}
	of := requestOf(ctx).Principal
	c, err := s.deps.Consultations.TellCoverage(ctx, s.deps.DB.Read(), of.ApplicationID, of.ClientID,
		r.Params.Competence, r.Params.Language)
	if err != nil {
		return nil, err
	}
	return server.GetCoverage200JSONResponse{Body: models.Coverage{Available: c.Available,
		LawyersOnline: c.LawyersOnline, EstimatedWaitSeconds: c.EstimatedWaitSeconds}}, nil
}

// CreateConsultation handles POST /api/v1/consultations.
func (s *Server) CreateConsultation(ctx context.Context,
	r server.CreateConsultationRequestObject,
) (server.CreateConsultationResponseObject, error) {
	cmd := createCommand(requestOf(ctx), r.Body)
	answer, err := s.run(ctx, func(tx postgres.Tx) (int, any, error) {
		c, err := s.deps.Consultations.Create(ctx, tx, cmd)
		return http.StatusCreated, consultationView(c), err
	})
	if answer.Status == http.StatusCreated {
		var created struct{ ID string }
		// these bytes were written by us, for this request or for the one that is replayed
		_ = json.Unmarshal(answer.Body, &created)
		requestOf(ctx).consultation = created.ID
	}
	return answer, err
}

// run performs an effect under the idempotency key of the request. A top-up may have no key. Then no response is stored
// for a replay, and the effect runs once in its own transaction.
func (s *Server) run(ctx context.Context, effect func(tx postgres.Tx) (int, any, error)) (stored, error) {
	r := requestOf(ctx)
	if r.Idempotency.Key != "" {
		response, err := s.deps.Idempotency.Do(ctx, r.Idempotency, effect)
		return keep(r, response), err
	}
	response, err := s.deps.Idempotency.Once(ctx, effect)
	return keep(r, response), err
}

func createCommand(r *request, b *models.CreateConsultationRequest) consultation.CreateCommand {
	return consultation.CreateCommand{
		Request: consultation.Request{
			ApplicationID: r.Principal.ApplicationID, ClientID: r.Principal.ClientID, Competence: b.Competence,
			Language: text(b.Language), Subject: b.Subject, Description: text(b.Description),
			ExternalRef:      text(b.ExternalRef),
			RecordingConsent: b.RecordingConsent != nil && *b.RecordingConsent,
		},
		Evidence: consultation.Evidence{RequestID: r.ID, IdempotencyKey: r.Idempotency.Key, Address: r.Address,
			UserAgent: r.UserAgent, StatedVersion: text(b.WaiverTextVersion),
			StatedLanguage: text(b.WaiverTextLanguage)},
	}
}

// ListConsultations handles GET /api/v1/consultations, newest first.
func (s *Server) ListConsultations(ctx context.Context,
	r server.ListConsultationsRequestObject,
) (server.ListConsultationsResponseObject, error) {
	p := requestOf(ctx).Principal
	f := consultation.ListFilter{ExternalRef: text(r.Params.ExternalRef)}
	if r.Params.Status != nil {
		f.Status = consultation.Status(*r.Params.Status)
	}
	if r.Params.CreatedAfter != nil {
		f.CreatedAfter = time.Time(*r.Params.CreatedAfter)
	}
	if r.Params.CreatedBefore != nil {
		f.CreatedBefore = time.Time(*r.Params.CreatedBefore)
	}
	list := "consultations:" + p.ApplicationID + ":" + p.ClientID + ":" + string(f.Status)
	if f != (consultation.ListFilter{Status: f.Status}) { // older cursors have no other filters
		list += fmt.Sprintf(":%q:%v:%v", f.ExternalRef, f.CreatedAfter.UTC(), f.CreatedBefore.UTC())
	}
	var before consultation.Position
	if err := s.cursors.decode(list, r.Params.Cursor, &before); err != nil {
		return nil, err
	}
	items, more, err := s.deps.Consultations.List(ctx, s.deps.DB.Read(), p.ApplicationID, p.ClientID, f, before,
		*r.Params.Limit)
	if err != nil {
		return nil, err
	}
	page := models.ConsultationPage{Items: views(items, consultationView)}
	if more {
		last := items[len(items)-1]
		if page.NextCursor, err = s.cursors.encode(list,
			consultation.Position{CreatedAt: last.CreatedAt, ID: last.ID}); err != nil {
			return nil, err
		}
	}
	return server.ListConsultations200JSONResponse{Body: page}, nil
}

// GetConsultation handles GET /api/v1/consultations/{id}.
func (s *Server) GetConsultation(ctx context.Context,
	r server.GetConsultationRequestObject,
) (server.GetConsultationResponseObject, error) {
	p := requestOf(ctx).Principal
	c, err := s.deps.Consultations.Get(ctx, s.deps.DB.Read(), p.ApplicationID, p.ClientID, r.ID)
	if err != nil {
		return nil, err
	}
	return server.GetConsultation200JSONResponse{Body: consultationView(c)}, nil
}

// CancelConsultation handles POST /api/v1/consultations/{id}/cancel.
func (s *Server) CancelConsultation(ctx context.Context,
	r server.CancelConsultationRequestObject,
) (server.CancelConsultationResponseObject, error) {
	p := requestOf(ctx).Principal
	var c consultation.Consultation
	err := s.deps.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		c, err = s.deps.Consultations.Cancel(ctx, tx, p.ApplicationID, p.ClientID, r.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return server.CancelConsultation200JSONResponse{Body: consultationView(c)}, nil
}

// GetConsultationNote handles GET /api/v1/consultations/{id}/note. Only the preview is ever shared (specification
// section 1).
func (s *Server) GetConsultationNote(ctx context.Context,
	r server.GetConsultationNoteRequestObject,
) (server.GetConsultationNoteResponseObject, error) {
	p := requestOf(ctx).Principal
	n, err := s.deps.Consultations.Note(ctx, s.deps.DB.Read(), p.ApplicationID, p.ClientID, r.ID)
	if err != nil {
		return nil, err
	}
	return server.GetConsultationNote200JSONResponse{Body: models.NotePreview{ConsultationID: n.ConsultationID,
		Preview: n.Text, SubmittedAt: clock.Stamp(n.SubmittedAt)}}, nil
}

// consultationView is the record of decision H4: it contains no lawyer and no phone number.
func consultationView(c consultation.Consultation) models.Consultation {
	v := models.Consultation{
		ID: c.ID, Status: models.ConsultationStatus(c.Status), Competence: c.Competence, Language: c.Language,
		Subject: c.Subject, Description: optional(c.Description), RecordingConsent: c.RecordingConsent,
		WithdrawalWaiverAcknowledged: c.WaiverAcknowledged(), ExternalRef: optional(c.ExternalRef),
		PriceCents: int64(c.Price), Currency: money.Currency, CreatedAt: clock.Stamp(c.CreatedAt),
		UpdatedAt: clock.Stamp(c.UpdatedAt), AssignedAt: (*clock.Stamp)(c.AssignedAt),
		CallStartedAt: (*clock.Stamp)(c.CallStartedAt), CallEndedAt: (*clock.Stamp)(c.CallEndedAt),
		DurationSec: c.DurationSec, CompletedAt: (*clock.Stamp)(c.CompletedAt),
		CancelledAt: (*clock.Stamp)(c.CancelledAt), ExpiredAt: (*clock.Stamp)(c.ExpiredAt),
		CallbackDueAt: (*clock.Stamp)(c.CallbackDueAt),
		RefundedAt:    (*clock.Stamp)(c.RefundedAt),
		NoteAvailable: c.NoteAvailable(),
	}
	if c.EndReason != "" {
		reason := models.EndReason(c.EndReason.Code())
		v.EndReason = &reason
	}
	if c.RefundedAt != nil {
		cents := int64(c.Refunded)
		v.RefundedCents = &cents
	}
	return v
}

func text[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
