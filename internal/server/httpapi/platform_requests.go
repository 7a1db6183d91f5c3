package httpapi

import (
	"context"
	"fmt"
	"time"

	"partnerd/gen/platform/models"
	"partnerd/gen/platform/server"
	"partnerd/internal/base/clock"
	"partnerd/internal/infra/requestlog"
)

// ListRequests handles GET /api/platform/v1/requests, newest first.
func (p platform) ListRequests(ctx context.Context,
	r server.ListRequestsRequestObject,
) (server.ListRequestsResponseObject, error) {
	app := requestOf(ctx).Principal.ApplicationID
	f := requestlog.Filter{Refused: *r.Params.Refused, Limit: *r.Params.Limit}
	if r.Params.From != nil {
		f.From = time.Time(*r.Params.From)
	}
	if r.Params.To != nil {
		f.To = time.Time(*r.Params.To)
	}
	list := fmt.Sprintf("requests:%s:%v:%v:%v", app, f.Refused, f.From.UTC(), f.To.UTC())
	if err := p.cursors.decode(list, r.Params.Cursor, &f.Before); err != nil {
		return nil, err
	}
	items, more, err := p.deps.Requests.List(ctx, p.deps.DB.Read(), app, f)
	if err != nil {
		return nil, err
	}
	page := models.RequestPage{Items: views(items, requestView)}
	if more {
		if page.NextCursor, err = p.cursors.encode(list, items[len(items)-1].ID); err != nil {
			return nil, err
		}
	}
	return server.ListRequests200JSONResponse{Body: page}, nil
}

// GetRequest handles GET /api/platform/v1/requests/{id}.
func (p platform) GetRequest(ctx context.Context,
	r server.GetRequestRequestObject,
) (server.GetRequestResponseObject, error) {
	e, err := p.deps.Requests.Get(ctx, p.deps.DB.Read(), requestOf(ctx).Principal.ApplicationID, r.ID)
	if err != nil {
		return nil, err
	}
	v := requestView(e)
	detail := models.RequestDetail{ID: v.ID, At: v.At, Method: v.Method, Path: v.Path, Status: v.Status, Code: v.Code,
		DurationMs: v.DurationMs, IdempotencyKey: v.IdempotencyKey, Replayed: v.Replayed, Issues: []models.Issue{},
		Body: e.Body}
	for _, x := range e.Issues {
		detail.Issues = append(detail.Issues, models.Issue{Path: x.Path, Code: models.IssueCode(x.Code),
			Message: x.Message})
	}
	return server.GetRequest200JSONResponse{Body: detail}, nil
}

func requestView(e requestlog.Entry) models.Request {
	return models.Request{ID: e.ID, At: clock.Stamp(e.At), Method: e.Method, Path: e.Path, Status: e.Status,
		Code: optional(e.Code), DurationMs: e.Duration.Milliseconds(), IdempotencyKey: e.Keyed, Replayed: e.Replayed}
}
