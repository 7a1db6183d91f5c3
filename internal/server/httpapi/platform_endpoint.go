package httpapi

import (
	"context"
	"net/http"

	"partnerd/gen/platform/models"
	"partnerd/gen/platform/server"
	"partnerd/internal/base/clock"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
)

// GetEndpoint handles GET /api/platform/v1/endpoint.
func (p platform) GetEndpoint(ctx context.Context,
	_ server.GetEndpointRequestObject,
) (server.GetEndpointResponseObject, error) {
	e, err := p.deps.Webhooks.Endpoint(ctx, p.deps.DB.Read(), requestOf(ctx).Principal.ApplicationID)
	if err != nil {
		return nil, err
	}
	return server.GetEndpoint200JSONResponse{Body: p.endpointView(e)}, nil
}

// SetEndpoint handles PUT /api/platform/v1/endpoint.
func (p platform) SetEndpoint(ctx context.Context,
	r server.SetEndpointRequestObject,
) (server.SetEndpointResponseObject, error) {
	if r.Body.URL != nil {
		if err := p.limitPosts(ctx, ratelimit.Endpoints); err != nil {
			return nil, err
		}
	}
	if err := p.deps.Portal.SetWebhookURL(ctx, itself(ctx), text(r.Body.URL)); err != nil {
		return nil, err
	}
	e, err := p.deps.Webhooks.Endpoint(ctx, p.deps.DB.Read(), requestOf(ctx).Principal.ApplicationID)
	if err != nil {
		return nil, err
	}
	return server.SetEndpoint200JSONResponse{Body: p.endpointView(e)}, nil
}

// RotateSecret handles POST /api/platform/v1/endpoint/rotate-secret.
func (p platform) RotateSecret(ctx context.Context,
	r server.RotateSecretRequestObject,
) (server.RotateSecretResponseObject, error) {
	return p.run(ctx, func(tx postgres.Tx) (int, any, error) {
		how := webhook.Rotation{EndPrevious: *r.Params.EndPrevious, KeepPrevious: *r.Params.KeepPrevious}
		secret, until, err := p.deps.Portal.RotateWebhookSecret(ctx, tx, itself(ctx), how)
		return http.StatusOK, models.RotatedSecret{Secret: secret, PreviousSecretUntil: clock.Stamp(until)}, err
	})
}

// EnableEndpoint handles POST /api/platform/v1/endpoint/enable.
func (p platform) EnableEndpoint(ctx context.Context,
	_ server.EnableEndpointRequestObject,
) (server.EnableEndpointResponseObject, error) {
	if err := p.limitPosts(ctx, ratelimit.Endpoints); err != nil {
		return nil, err
	}
	if err := p.deps.Portal.EnableWebhooks(ctx, itself(ctx)); err != nil {
		return nil, err
	}
	e, err := p.deps.Webhooks.Endpoint(ctx, p.deps.DB.Read(), requestOf(ctx).Principal.ApplicationID)
	if err != nil {
		return nil, err
	}
	return server.EnableEndpoint200JSONResponse{Body: p.endpointView(e)}, nil
}

// SetEnabledEvents handles PUT /api/platform/v1/endpoint/events.
func (p platform) SetEnabledEvents(ctx context.Context,
	r server.SetEnabledEventsRequestObject,
) (server.SetEnabledEventsResponseObject, error) {
	types := make([]webhook.Type, len(r.Body.EnabledEvents))
	for i, t := range r.Body.EnabledEvents {
		types[i] = webhook.Type(t)
	}
	if err := p.deps.Portal.SetEnabledEvents(ctx, itself(ctx), types); err != nil {
		return nil, err
	}
	e, err := p.deps.Webhooks.Endpoint(ctx, p.deps.DB.Read(), requestOf(ctx).Principal.ApplicationID)
	if err != nil {
		return nil, err
	}
	return server.SetEnabledEvents200JSONResponse{Body: p.endpointView(e)}, nil
}

// SendTestEvent handles POST /api/platform/v1/endpoint/test.
func (p platform) SendTestEvent(ctx context.Context,
	r server.SendTestEventRequestObject,
) (server.SendTestEventResponseObject, error) {
	if err := p.limitPosts(ctx, ratelimit.TestEvents); err != nil {
		return nil, err
	}
	return p.run(ctx, func(tx postgres.Tx) (int, any, error) {
		d, err := p.deps.Portal.SendTest(ctx, tx, itself(ctx), webhook.Type(r.Body.Type))
		return http.StatusAccepted, deliveryView(d), err
	})
}

func (p platform) endpointView(e webhook.Endpoint) models.Endpoint {
	v := models.Endpoint{
		URL: optional(e.URL), PreviousSecretUntil: (*clock.Stamp)(e.PreviousSecretUntil),
		DisabledAt: (*clock.Stamp)(e.DisabledAt), DisabledReason: optional(e.DisabledReason),
		FailingSince: (*clock.Stamp)(e.FailingSince), EnabledEvents: make([]models.ClientEventType,
			len(e.EnabledEvents)),
		CreatedAt: clock.Stamp(e.CreatedAt), UpdatedAt: clock.Stamp(e.UpdatedAt),
	}
	delivered := []models.EventType{}
	for _, t := range webhook.Types {
		delivered = append(delivered, models.EventType(t))
	}
	for i, t := range e.EnabledEvents {
		v.EnabledEvents[i] = models.ClientEventType(t)
		delivered = append(delivered, models.EventType(t))
	}
	v.DeliveredEvents = delivered
	if now := p.deps.DB.Clock().Now(); v.PreviousSecretUntil != nil && !now.Before(*e.PreviousSecretUntil) {
		v.PreviousSecretUntil = nil
	}
	return v
}
