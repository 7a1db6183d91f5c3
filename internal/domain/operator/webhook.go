package operator

import (
	"context"
	"time"

	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
)

// SetWebhookURL sets an application's webhook URL; with an empty URL, events are held. If ping is set, the URL must
// first respond to a ping. See [webhook.Service.ProveURL] and [webhook.Service.SetURL] for errors.
func (s *Service) SetWebhookURL(ctx context.Context, by Act, applicationID, url string, ping bool) error {
	if ping && url != "" {
		if err := s.Webhooks.ProveURL(ctx, applicationID, url); err != nil {
			return err
		}
	}
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		before, err := s.Webhooks.Endpoint(ctx, tx, applicationID)
		if err != nil {
			return err
		}
		if err := s.Webhooks.SetURL(ctx, tx, applicationID, url); err != nil {
			return err
		}
		what, args := "url.set", []any{url}
		if url == "" {
			what, args = "url.removed", nil
		}
		if err := s.tellPartner(ctx, tx, applicationID, what, args...); err != nil {
			return err
		}
		return by.Record(ctx, tx, "webhook.set_url", applicationID, map[string]any{"before": before.URL, "after": url,
			"pinged": ping && url != ""})
	})
}

// RotateWebhookSecret creates a new signing secret and returns the time at which the previous one stops signing. See
// [webhook.Service.RotateSecret] for errors.
func (s *Service) RotateWebhookSecret(ctx context.Context, by Act, applicationID string,
	r webhook.Rotation,
) (secret string, until time.Time, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if secret, until, err = s.Webhooks.RotateSecret(ctx, tx, applicationID, r); err != nil {
			return err
		}
		what := "signing"
		if r.KeepPrevious {
			what = "signing.replaced"
		}
		if err := s.tellPartner(ctx, tx, applicationID, what, until.Format("2006-01-02 15:04 UTC")); err != nil {
			return err
		}
		return by.Record(ctx, tx, "webhook.rotate_secret", applicationID,
			rotated{until, r.EndPrevious, r.KeepPrevious}, secret)
	})
	return secret, until, err
}

// EnableWebhooks enables the endpoint of an application, so that held deliveries are sent. It returns NOT_FOUND.
func (s *Service) EnableWebhooks(ctx context.Context, by Act, applicationID string) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.Webhooks.EnableEndpoint(ctx, tx, applicationID); err != nil {
			return err
		}
		return by.Record(ctx, tx, "webhook.enable", applicationID, nil)
	})
}

// Redeliver redelivers a delivery. See [webhook.Service.Redeliver] for errors.
func (s *Service) Redeliver(ctx context.Context, by Act, applicationID, deliveryID string,
	asNew bool,
) (d webhook.Delivery, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if d, err = s.Webhooks.Redeliver(ctx, tx, applicationID, deliveryID, asNew); err != nil {
			return err
		}
		return by.Record(ctx, tx, "webhook.redeliver", applicationID,
			map[string]any{"delivery": deliveryID, "asNew": asNew})
	})
	return d, err
}

// RedeliverRange redelivers the deliveries of a time range, one batch per call. next is where to continue, nil at the
// end. Each batch has its audit entry. See [webhook.Service.RedeliverRange] for errors.
func (s *Service) RedeliverRange(ctx context.Context, by Act, applicationID string,
	f webhook.RedeliveryFilter,
) (n int, next *webhook.Position, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if n, next, err = s.Webhooks.RedeliverRange(ctx, tx, applicationID, f); err != nil {
			return err
		}
		return by.Record(ctx, tx, "webhook.redeliver_range", applicationID, map[string]any{"from": f.From, "to": f.To,
			"all": f.All, "asNew": f.AsNew, "count": n})
	})
	return n, next, err
}

// SendTestEvent sends a test event. See [webhook.Service.SendTest] for errors.
func (s *Service) SendTestEvent(ctx context.Context, by Act, applicationID string,
	kind webhook.Type,
) (d webhook.Delivery, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if d, err = s.Webhooks.SendTest(ctx, tx, applicationID, kind); err != nil {
			return err
		}
		return by.Record(ctx, tx, "webhook.test", applicationID, map[string]any{"delivery": d.ID, "type": kind})
	})
	return d, err
}
