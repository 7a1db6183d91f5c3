package httpapi

import (
	"context"

	"partnerd/gen/desk/models"
	"partnerd/gen/desk/server"
	"partnerd/internal/base/clock"
	"partnerd/internal/domain/note"
)

// GetKey handles GET /api/desk/v1/key.
func (s lawyerDesk) GetKey(ctx context.Context, _ server.GetKeyRequestObject) (server.GetKeyResponseObject, error) {
	key, _, err := s.deps.Desk.Key(ctx, s.deps.DB.Read(), sessionOf(ctx))
	return server.GetKey200JSONResponse{Body: keyView(key)}, err
}

// SetKey handles PUT /api/desk/v1/key.
func (s lawyerDesk) SetKey(ctx context.Context, r server.SetKeyRequestObject) (server.SetKeyResponseObject, error) {
	if err := s.deps.Desk.SetKey(ctx, sessionOf(ctx), r.Body.Recipient); err != nil {
		return nil, err
	}
	key, _, err := s.deps.Desk.Key(ctx, s.deps.DB.Read(), sessionOf(ctx))
	return server.SetKey200JSONResponse{Body: keyView(key)}, err
}

// RemoveKey handles DELETE /api/desk/v1/key.
func (s lawyerDesk) RemoveKey(ctx context.Context,
	_ server.RemoveKeyRequestObject,
) (server.RemoveKeyResponseObject, error) {
	err := s.deps.Desk.RemoveKey(ctx, sessionOf(ctx))
	return server.RemoveKey200JSONResponse{}, err
}

func keyView(key note.Recipient) models.NoteKey {
	return models.NoteKey{Recipient: optional(key.Key), SetAt: stampUnlessZero(key.SetAt)}
}

// ListCopies handles GET /api/desk/v1/copies.
func (s lawyerDesk) ListCopies(ctx context.Context,
	_ server.ListCopiesRequestObject,
) (server.ListCopiesResponseObject, error) {
	tx := s.deps.DB.Read()
	key, _, err := s.deps.Desk.Key(ctx, tx, sessionOf(ctx))
	if err != nil {
		return nil, err
	}
	list, err := s.deps.Desk.Copies(ctx, tx, sessionOf(ctx))
	v := models.NoteCopyList{Items: make([]models.NoteCopyItem, len(list))}
	for i, c := range list {
		v.Items[i] = models.NoteCopyItem{ConsultationID: c.ConsultationID, WrittenAt: clock.Stamp(c.WrittenAt),
			TakenAt: (*clock.Stamp)(c.TakenAt), GoneAt: clock.Stamp(c.GoneAt()), EarlierKey: c.ForEarlierKey(key)}
	}
	return server.ListCopies200JSONResponse{Body: v}, err
}

// TakeCopy handles POST /api/desk/v1/copies/{id}/take.
func (s lawyerDesk) TakeCopy(ctx context.Context,
	r server.TakeCopyRequestObject,
) (server.TakeCopyResponseObject, error) {
	sealed, err := s.deps.Desk.TakeCopy(ctx, sessionOf(ctx), r.ID)
	return server.TakeCopy200JSONResponse{Body: models.NoteCopy{FileName: note.FileName(r.ID),
		Content: string(sealed)}}, err
}
