package portal

import (
	"context"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
)

// SetWebhookURL sets the webhook URL of an application after the URL has answered a ping. With an empty URL, events are
// held. For a URL, the caller must have called [Service.Take]. It returns [ErrForbidden] or the problems of
// [webhook.Service.ProveURL].
func (s *Service) SetWebhookURL(ctx context.Context, by Caller, url string) error {
	if url != "" {
		mayAsk := func(tx postgres.Tx) error { _, err := s.allowed(ctx, tx, by, false); return err }
		if err := s.deps.DB.InTx(ctx, mayAsk); err != nil {
			return err
		}
		if err := s.deps.Webhooks.ProveURL(ctx, by.ApplicationID, url); err != nil {
			return err
		}
	}
	return s.act(ctx, by, "webhook.set_url", func(tx postgres.Tx, a application.Application) (any, error) {
		before, err := s.deps.Webhooks.Endpoint(ctx, tx, a.ID)
		if err != nil {
			return nil, err
		}
		if err := s.deps.Webhooks.SetURL(ctx, tx, a.ID, url); err != nil {
			return nil, err
		}
		details := map[string]any{"before": before.URL, "after": url}
		switch url {
		case before.URL: // the endpoint is enabled; no email, because some programs set their URL at each start
			return details, nil
		case "":
			return details, s.tell(ctx, tx, by, a, "url.removed")
		}
		return details, s.tell(ctx, tx, by, a, "url.set", url)
	})
}

// RotateWebhookSecret creates a new signing secret and returns the time at which the other secret stops signing. That
// is the current one, or the previous one if r keeps it. It returns [ErrForbidden] or the errors of
// [webhook.Service.RotateSecret].
func (s *Service) RotateWebhookSecret(ctx context.Context, tx postgres.Tx, by Caller,
	r webhook.Rotation,
) (secret string, until time.Time, err error) {
	err = s.actIn(ctx, tx, by, "webhook.rotate_secret", func(a application.Application) (any, error) {
		if secret, until, err = s.deps.Webhooks.RotateSecret(ctx, tx, a.ID, r); err != nil {
			return nil, err
		}
		what := "signing.rotated"
		if r.KeepPrevious {
			what = "signing.replaced"
		}
		return rotated{until, r.EndPrevious, r.KeepPrevious}, s.tell(ctx, tx, by, a, what)
	})
	return secret, until, err
}

// EnableWebhooks enables the endpoint, so held deliveries are sent. The caller must have called [Service.Take]. It
// returns [ErrForbidden] or NOT_FOUND.
func (s *Service) EnableWebhooks(ctx context.Context, by Caller) error {
	return s.act(ctx, by, "webhook.enable", func(tx postgres.Tx, a application.Application) (any, error) {
		return nil, s.deps.Webhooks.EnableEndpoint(ctx, tx, a.ID)
	})
}

// SetEnabledEvents sets which events about clients the application gets. It returns [ErrForbidden] or the problems of
// [webhook.Service.SetEnabledEvents].
func (s *Service) SetEnabledEvents(ctx context.Context, by Caller, types []webhook.Type) error {
	return s.act(ctx, by, "webhook.set_events", func(tx postgres.Tx, a application.Application) (any, error) {
		before, err := s.deps.Webhooks.Endpoint(ctx, tx, a.ID)
		if err != nil {
			return nil, err
		}
		return map[string]any{"before": before.EnabledEvents, "after": types},
			s.deps.Webhooks.SetEnabledEvents(ctx, tx, a.ID, types)
	})
}

// SendTest sends a test event. The caller must have called [Service.Take]. It returns [ErrForbidden] or the problems of
// [webhook.Service.SendTest].
func (s *Service) SendTest(ctx context.Context, tx postgres.Tx, by Caller,
	kind webhook.Type,
) (d webhook.Delivery, err error) {
	err = s.actIn(ctx, tx, by, "webhook.test", func(a application.Application) (any, error) {
		d, err = s.deps.Webhooks.SendTest(ctx, tx, a.ID, kind)
		return map[string]any{"delivery": d.ID, "type": kind}, err
	})
	return d, err
}

// Redeliver redelivers a delivery. The caller must have called [Service.Take]. It returns [ErrForbidden] or the
// problems of [webhook.Service.Redeliver].
func (s *Service) Redeliver(ctx context.Context, tx postgres.Tx, by Caller, deliveryID string,
	asNew bool,
) (d webhook.Delivery, err error) {
	err = s.actIn(ctx, tx, by, "webhook.redeliver", func(a application.Application) (any, error) {
		d, err = s.deps.Webhooks.Redeliver(ctx, tx, a.ID, deliveryID, asNew)
		return map[string]any{"delivery": deliveryID, "asNew": asNew}, err
	})
	return d, err
}

// RedeliverRange redelivers the deliveries of a time range and returns how many. next is set if some are left for
// another call. The caller must have called [Service.Take]. It returns [ErrForbidden] or the problems of
// [webhook.Service.RedeliverRange].
func (s *Service) RedeliverRange(ctx context.Context, tx postgres.Tx, by Caller,
	f webhook.RedeliveryFilter,
) (n int, next *webhook.Position, err error) {
	err = s.actIn(ctx, tx, by, "webhook.redeliver_range", func(a application.Application) (any, error) {
		n, next, err = s.deps.Webhooks.RedeliverRange(ctx, tx, a.ID, f)
		return map[string]any{"from": f.From, "to": f.To, "all": f.All, "asNew": f.AsNew, "count": n}, err
	})
	return n, next, err
}

// BeginExamination counts an endpoint check and records who asked for it, because it sends requests from our network to
// the URL. It returns the errors of [Service.Take].
func (s *Service) BeginExamination(ctx context.Context, by Caller) error {
	if err := s.Take(ctx, by, ratelimit.Examinations, ratelimit.ExaminationsPerMinute); err != nil {
		return err
	}
	return s.act(ctx, by, "webhook.examine", func(tx postgres.Tx, a application.Application) (any, error) {
		e, err := s.deps.Webhooks.Endpoint(ctx, tx, a.ID)
		return map[string]any{"url": e.URL}, err
	})
}

// Take counts an expensive action against its limit per minute. The caller must be a developer or the application
// itself. It returns [ErrForbidden], NOT_FOUND or RATE_LIMITED.
func (s *Service) Take(ctx context.Context, by Caller, p ratelimit.Purpose, perMinute int) error {
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		if _, err := s.allowed(ctx, tx, by, false); err != nil {
			return err
		}
		d, err := ratelimit.TakeFor(ctx, tx, p, by.ApplicationID, perMinute)
		if err == nil && !d.Allowed {
			err = problem.ErrRateLimited.Because("Too many requests for this operation; see Retry-After.").
				After(d.RetryAfter)
		}
		return err
	})
}
