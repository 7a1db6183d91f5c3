package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"partnerd/gen/platform/models"
	"partnerd/gen/platform/server"
	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
)

// feedPosition is the content of a cursor of the event list.
type feedPosition struct {
	Position int64 `json:"p"`
}

// ListEvents handles GET /api/platform/v1/events.
func (p platform) ListEvents(ctx context.Context,
	r server.ListEventsRequestObject,
) (server.ListEventsResponseObject, error) {
	app := requestOf(ctx).Principal.ApplicationID
	list := "events:" + app
	var after feedPosition
	otherwise := problem.Issue{Path: "after",
		Message: "Pass the cursor of a page of this list, or omit it to start with the oldest event."}
	if err := p.cursors.read(list, r.Params.After, &after, otherwise); err != nil {
		return nil, err
	}
	page, err := p.deps.Webhooks.Events(ctx, app, after.Position, *r.Params.Limit)
	if err != nil {
		return nil, err
	}
	cursor, err := p.cursors.encode(list, feedPosition{page.Last})
	if err != nil {
		return nil, err
	}
	v := models.EventPage{Items: make([]models.Event, len(page.Items)), Cursor: *cursor, HasMore: page.More,
		Gap: page.Gap}
	for i, e := range page.Items {
		if v.Items[i], err = eventView(e); err != nil {
			return nil, err
		}
	}
	return server.ListEvents200JSONResponse{Body: v}, nil
}

// GetEvent handles GET /api/platform/v1/events/{id}.
func (p platform) GetEvent(ctx context.Context, r server.GetEventRequestObject) (server.GetEventResponseObject, error) {
	e, err := p.deps.Webhooks.Event(ctx, p.deps.DB.Read(), requestOf(ctx).Principal.ApplicationID, r.ID)
	if err != nil {
		return nil, err
	}
	v, err := eventView(e)
	if err != nil {
		return nil, err
	}
	return server.GetEvent200JSONResponse{Body: v}, nil
}

// ListDeliveries handles GET /api/platform/v1/deliveries, newest first.
func (p platform) ListDeliveries(ctx context.Context,
	r server.ListDeliveriesRequestObject,
) (server.ListDeliveriesResponseObject, error) {
	app := requestOf(ctx).Principal.ApplicationID
	f := webhook.DeliveryFilter{ConsultationID: text(r.Params.ConsultationID), EventID: text(r.Params.EventID),
		Limit: *r.Params.Limit}
	if r.Params.State != nil {
		f.State = webhook.State(*r.Params.State)
	}
	if r.Params.From != nil {
		f.From = time.Time(*r.Params.From)
	}
	if r.Params.To != nil {
		f.To = time.Time(*r.Params.To)
	}
	list := fmt.Sprintf("deliveries:%s:%q:%q:%q:%v:%v", app, f.State, f.ConsultationID, f.EventID, f.From.UTC(),
		f.To.UTC())
	if err := p.cursors.decode(list, r.Params.Cursor, &f.Before); err != nil {
		return nil, err
	}
	items, more, err := p.deps.Webhooks.Deliveries(ctx, p.deps.DB.Read(), app, f)
	if err != nil {
		return nil, err
	}
	page := models.DeliveryPage{Items: views(items, deliveryView)}
	if more {
		if page.NextCursor, err = p.cursors.encode(list, items[len(items)-1].Position()); err != nil {
			return nil, err
		}
	}
	return server.ListDeliveries200JSONResponse{Body: page}, nil
}

// GetDelivery handles GET /api/platform/v1/deliveries/{id}.
func (p platform) GetDelivery(ctx context.Context,
	r server.GetDeliveryRequestObject,
) (server.GetDeliveryResponseObject, error) {
	app := requestOf(ctx).Principal.ApplicationID
	d, err := p.deps.Webhooks.Delivery(ctx, p.deps.DB.Read(), app, r.ID)
	if err != nil {
		return nil, err
	}
	attempts, err := p.deps.Webhooks.Attempts(ctx, p.deps.DB.Read(), app, r.ID)
	if err != nil {
		return nil, err
	}
	v := deliveryView(d)
	return server.GetDelivery200JSONResponse{Body: models.DeliveryDetail{
		ID: v.ID, EventID: v.EventID, EventType: v.EventType, ConsultationID: v.ConsultationID, Sequence: v.Sequence,
		State: v.State, Attempts: v.Attempts, NextAttemptAt: v.NextAttemptAt, CreatedAt: v.CreatedAt,
		EndedAt:    v.EndedAt,
		AttemptLog: views(attempts, attemptView),
	}}, nil
}

// Redeliver handles POST /api/platform/v1/deliveries/{id}/redeliver.
func (p platform) Redeliver(ctx context.Context,
	r server.RedeliverRequestObject,
) (server.RedeliverResponseObject, error) {
	if err := p.limitPosts(ctx, ratelimit.Redeliveries); err != nil {
		return nil, err
	}
	return p.run(ctx, func(tx postgres.Tx) (int, any, error) {
		d, err := p.deps.Portal.Redeliver(ctx, tx, itself(ctx), r.ID, *r.Params.AsNew)
		return http.StatusAccepted, deliveryView(d), err
	})
}

// CreateRedelivery handles POST /api/platform/v1/redeliveries.
func (p platform) CreateRedelivery(ctx context.Context,
	r server.CreateRedeliveryRequestObject,
) (server.CreateRedeliveryResponseObject, error) {
	app, b := requestOf(ctx).Principal.ApplicationID, r.Body
	f := webhook.RedeliveryFilter{From: time.Time(b.From), To: time.Time(b.To),
		All: b.Select == models.CreateRedeliveryRequestSelectALL, AsNew: b.AsNew != nil && *b.AsNew}
	list := fmt.Sprintf("redeliveries:%s:%v:%v:%v:%v", app, f.From.Format(time.RFC3339Nano),
		f.To.Format(time.RFC3339Nano), f.All, f.AsNew)
	if err := p.cursors.decode(list, b.Cursor, &f.After); err != nil {
		return nil, err
	}
	if err := p.limitPosts(ctx, ratelimit.Redeliveries); err != nil {
		return nil, err
	}
	return p.run(ctx, func(tx postgres.Tx) (int, any, error) {
		n, next, err := p.deps.Portal.RedeliverRange(ctx, tx, itself(ctx), f)
		v := models.Redelivery{Count: n}
		if err == nil && next != nil {
			v.NextCursor, err = p.cursors.encode(list, *next)
		}
		return http.StatusAccepted, v, err
	})
}

func eventView(e webhook.StoredEvent) (models.Event, error) {
	v := models.Event{
		ID: e.ID, Type: models.EventType(e.Type), CreatedAt: clock.Stamp(e.CreatedAt),
		ConsultationID: optional(e.ConsultationID), Sequence: e.Sequence, Test: e.Test(),
	}
	if err := json.Unmarshal(e.Body, &v.Payload); err != nil {
		return v, fmt.Errorf("read body of event %s: %w", e.ID, err)
	}
	return v, nil
}

func deliveryView(d webhook.Delivery) models.Delivery {
	return models.Delivery{
		ID: d.ID, EventID: d.EventID, EventType: models.EventType(d.Type), ConsultationID: optional(d.ConsultationID),
		Sequence: d.Sequence, State: models.DeliveryState(d.State), Attempts: d.Attempts,
		NextAttemptAt: (*clock.Stamp)(d.NextAt), CreatedAt: clock.Stamp(d.CreatedAt),
		EndedAt: (*clock.Stamp)(d.EndedAt),
	}
}

func attemptView(a webhook.Attempt) models.Attempt {
	v := models.Attempt{Number: a.Number, StartedAt: clock.Stamp(a.StartedAt), DurationMs: a.Duration.Milliseconds(),
		Error: optional(a.Error), ResponseBody: a.ResponseBody}
	if a.StatusCode != 0 {
		v.StatusCode = &a.StatusCode
	}
	return v
}
