package httpapi

import (
	"context"
	"time"

	"partnerd/gen/desk/models"
	"partnerd/gen/desk/server"
	"partnerd/internal/base/clock"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/note"
)

// GoOnDuty handles POST /api/desk/v1/duty/on.
func (s lawyerDesk) GoOnDuty(ctx context.Context,
	_ server.GoOnDutyRequestObject,
) (server.GoOnDutyResponseObject, error) {
	session, err := s.deps.Desk.GoOnDuty(ctx, sessionOf(ctx))
	v, err := s.after(ctx, session, err)
	return server.GoOnDuty200JSONResponse{Body: v}, err
}

// Pause handles POST /api/desk/v1/duty/pause.
func (s lawyerDesk) Pause(ctx context.Context, _ server.PauseRequestObject) (server.PauseResponseObject, error) {
	session := sessionOf(ctx)
	v, err := s.after(ctx, session, s.deps.Desk.Pause(ctx, session))
	return server.Pause200JSONResponse{Body: v}, err
}

// GoOffDuty handles POST /api/desk/v1/duty/off.
func (s lawyerDesk) GoOffDuty(ctx context.Context,
	_ server.GoOffDutyRequestObject,
) (server.GoOffDutyResponseObject, error) {
	session, err := s.deps.Desk.GoOffDuty(ctx, sessionOf(ctx))
	v, err := s.after(ctx, session, err)
	return server.GoOffDuty200JSONResponse{Body: v}, err
}

// Beat handles POST /api/desk/v1/heartbeat.
func (s lawyerDesk) Beat(ctx context.Context, _ server.BeatRequestObject) (server.BeatResponseObject, error) {
	session := sessionOf(ctx)
	v, err := s.after(ctx, session, s.deps.Desk.Beat(ctx, session))
	return server.Beat200JSONResponse{Body: v}, err
}

// AcceptOffer handles POST /api/desk/v1/offers/{id}/accept.
func (s lawyerDesk) AcceptOffer(ctx context.Context,
	r server.AcceptOfferRequestObject,
) (server.AcceptOfferResponseObject, error) {
	session := sessionOf(ctx)
	v, err := s.after(ctx, session, s.deps.Desk.Accept(ctx, session, r.ID))
	return server.AcceptOffer200JSONResponse{Body: v}, err
}

// DeclineOffer handles POST /api/desk/v1/offers/{id}/decline.
func (s lawyerDesk) DeclineOffer(ctx context.Context,
	r server.DeclineOfferRequestObject,
) (server.DeclineOfferResponseObject, error) {
	session := sessionOf(ctx)
	v, err := s.after(ctx, session, s.deps.Desk.Decline(ctx, session, r.ID, string(r.Body.Reason)))
	return server.DeclineOffer200JSONResponse{Body: v}, err
}

// ClaimCallback handles POST /api/desk/v1/callbacks/{id}/claim.
func (s lawyerDesk) ClaimCallback(ctx context.Context,
	r server.ClaimCallbackRequestObject,
) (server.ClaimCallbackResponseObject, error) {
	session := sessionOf(ctx)
	v, err := s.after(ctx, session, s.deps.Desk.Claim(ctx, session, r.ID))
	return server.ClaimCallback200JSONResponse{Body: v}, err
}

// StartCall handles POST /api/desk/v1/consultations/{id}/call.
func (s lawyerDesk) StartCall(ctx context.Context,
	r server.StartCallRequestObject,
) (server.StartCallResponseObject, error) {
	session := sessionOf(ctx)
	v, err := s.after(ctx, session, s.deps.Desk.StartCall(ctx, session, r.ID))
	return server.StartCall200JSONResponse{Body: v}, err
}

// RestartCall handles POST /api/desk/v1/consultations/{id}/restart-call.
func (s lawyerDesk) RestartCall(ctx context.Context,
	r server.RestartCallRequestObject,
) (server.RestartCallResponseObject, error) {
	session := sessionOf(ctx)
	v, err := s.after(ctx, session, s.deps.Desk.RestartCall(ctx, session, r.ID))
	return server.RestartCall200JSONResponse{Body: v}, err
}

// EndCall handles POST /api/desk/v1/consultations/{id}/end-call.
func (s lawyerDesk) EndCall(ctx context.Context, r server.EndCallRequestObject) (server.EndCallResponseObject, error) {
	session := sessionOf(ctx)
	v, err := s.after(ctx, session, s.deps.Desk.EndCall(ctx, session, r.ID))
	return server.EndCall200JSONResponse{Body: v}, err
}

// ChooseRedial handles POST /api/desk/v1/consultations/{id}/choice.
func (s lawyerDesk) ChooseRedial(ctx context.Context,
	r server.ChooseRedialRequestObject,
) (server.ChooseRedialResponseObject, error) {
	session := sessionOf(ctx)
	v, err := s.after(ctx, session, s.deps.Desk.ChooseRedial(ctx, session, r.ID, r.Body.Wait))
	return server.ChooseRedial200JSONResponse{Body: v}, err
}

// Withdraw handles POST /api/desk/v1/consultations/{id}/withdraw.
func (s lawyerDesk) Withdraw(ctx context.Context,
	r server.WithdrawRequestObject,
) (server.WithdrawResponseObject, error) {
	session := sessionOf(ctx)
	v, err := s.after(ctx, session, s.deps.Desk.Withdraw(ctx, session, r.ID, string(r.Body.Reason)))
	return server.Withdraw200JSONResponse{Body: v}, err
}

// CloseUseless handles POST /api/desk/v1/consultations/{id}/useless.
func (s lawyerDesk) CloseUseless(ctx context.Context,
	r server.CloseUselessRequestObject,
) (server.CloseUselessResponseObject, error) {
	session := sessionOf(ctx)
	v, err := s.after(ctx, session, s.deps.Desk.Useless(ctx, session, r.ID, string(r.Body.Reason)))
	return server.CloseUseless200JSONResponse{Body: v}, err
}

// SubmitNote handles POST /api/desk/v1/consultations/{id}/note.
func (s lawyerDesk) SubmitNote(ctx context.Context,
	r server.SubmitNoteRequestObject,
) (server.SubmitNoteResponseObject, error) {
	session := sessionOf(ctx)
	v, err := s.after(ctx, session, s.deps.Desk.SubmitNote(ctx, session, r.ID,
		note.Draft{Note: r.Body.Note, Preview: r.Body.Preview}, text(r.Body.DraftVersion),
		r.Body.ContainsNothingSecret))
	return server.SubmitNote200JSONResponse{Body: v}, err
}

// GetDraft handles GET /api/desk/v1/consultations/{id}/draft.
func (s lawyerDesk) GetDraft(ctx context.Context,
	r server.GetDraftRequestObject,
) (server.GetDraftResponseObject, error) {
	d, err := s.deps.Desk.Draft(ctx, s.deps.DB.Read(), sessionOf(ctx), r.ID)
	return server.GetDraft200JSONResponse{Body: draftView(d)}, err
}

// SaveDraft handles PUT /api/desk/v1/consultations/{id}/draft.
func (s lawyerDesk) SaveDraft(ctx context.Context,
	r server.SaveDraftRequestObject,
) (server.SaveDraftResponseObject, error) {
	if err := s.deps.Desk.SaveDraft(ctx, sessionOf(ctx), r.ID, note.Draft{Note: r.Body.Note, Preview: r.Body.Preview},
		text(r.Body.Version)); err != nil {
		return nil, err
	}
	d, err := s.deps.Desk.Draft(ctx, s.deps.DB.Read(), sessionOf(ctx), r.ID)
	return server.SaveDraft200JSONResponse{Body: draftView(d)}, err
}

// DropDraft handles DELETE /api/desk/v1/consultations/{id}/draft.
func (s lawyerDesk) DropDraft(ctx context.Context,
	r server.DropDraftRequestObject,
) (server.DropDraftResponseObject, error) {
	err := s.deps.Desk.DropDraft(ctx, sessionOf(ctx), r.ID)
	return server.DropDraft200JSONResponse{Body: draftView(note.Draft{})}, err
}

func draftView(d note.Draft) models.Draft {
	v := models.Draft{Note: d.Note, Preview: d.Preview, Version: d.Version()}
	if !d.SavedAt.IsZero() {
		v.SavedAt = (*clock.Stamp)(&d.SavedAt)
	}
	return v
}

// ListCallbacks handles GET /api/desk/v1/callbacks.
func (s lawyerDesk) ListCallbacks(ctx context.Context,
	_ server.ListCallbacksRequestObject,
) (server.ListCallbacksResponseObject, error) {
	list, err := s.deps.Desk.Callbacks(ctx, s.deps.DB.Read(), sessionOf(ctx))
	v := models.CallbackList{Items: make([]models.Callback, len(list))}
	for i, c := range list {
		v.Items[i] = models.Callback{ConsultationID: c.ConsultationID, Competence: c.Pair.Competence,
			Language: c.Pair.Language, SearchedSince: clock.Stamp(c.SearchedSince), DueAt: clock.Stamp(c.DueAt),
			From: stampUnlessZero(c.From), Until: stampUnlessZero(c.Until), Claimable: c.Now}
	}
	return server.ListCallbacks200JSONResponse{Body: v}, err
}

func stampUnlessZero(t time.Time) *clock.Stamp {
	if t.IsZero() {
		return nil
	}
	return (*clock.Stamp)(&t)
}

// ListHistory handles GET /api/desk/v1/history.
func (s lawyerDesk) ListHistory(ctx context.Context,
	r server.ListHistoryRequestObject,
) (server.ListHistoryResponseObject, error) {
	list, session := "history:"+sessionOf(ctx).Person.ID, sessionOf(ctx)
	var before consultation.Position
	if err := s.cursors.decode(list, r.Params.Cursor, &before); err != nil {
		return nil, err
	}
	items, more, err := s.deps.Desk.History(ctx, s.deps.DB.Read(), session, before, *r.Params.Limit)
	if err != nil {
		return nil, err
	}
	v := models.HistoryPage{Items: make([]models.Served, len(items))}
	for i, c := range items {
		v.Items[i] = models.Served{ConsultationID: c.ConsultationID, Status: models.ServedStatus(c.Status),
			Reason: optional(string(c.Reason)), Competence: c.Pair.Competence, Language: c.Pair.Language,
			CreatedAt: clock.Stamp(c.CreatedAt), DurationSec: c.DurationSec,
			CompletedAt: (*clock.Stamp)(c.CompletedAt), FeeCents: int64(c.Fee)}
	}
	if more {
		last := items[len(items)-1]
		if v.NextCursor, err = s.cursors.encode(list, consultation.Position{CreatedAt: last.CreatedAt,
			ID: last.ConsultationID}); err != nil {
			return nil, err
		}
	}
	return server.ListHistory200JSONResponse{Body: v}, nil
}

// ListEarnings handles GET /api/desk/v1/earnings.
func (s lawyerDesk) ListEarnings(ctx context.Context,
	_ server.ListEarningsRequestObject,
) (server.ListEarningsResponseObject, error) {
	months, err := s.deps.Desk.Earnings(ctx, s.deps.DB.Read(), sessionOf(ctx))
	v := models.EarningList{Months: make([]models.Earning, len(months))}
	for i, m := range months {
		v.Months[i] = models.Earning{Month: m.Month.Format("2006-01"), Consultations: m.Consultations,
			FeeCents: int64(m.Fees)}
	}
	return server.ListEarnings200JSONResponse{Body: v}, err
}
