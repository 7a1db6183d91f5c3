package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/webhook"
)

// webhookCmd does for operators what the Platform API does for applications.
type webhookCmd struct {
	Endpoint   webhookEndpointCmd   `cmd:"" help:"Show or set an application's webhook endpoint."`
	Rotate     webhookRotateCmd     `cmd:"" help:"Replace the signing secret and print the new one once."`
	Enable     webhookEnableCmd     `cmd:"" help:"Enable a disabled endpoint and send its held deliveries."`
	Events     webhookEventsCmd     `cmd:"" help:"List events, oldest first."`
	Deliveries webhookDeliveriesCmd `cmd:"" help:"List deliveries, newest first, or show one with its attempts."`
	Redeliver  webhookRedeliverCmd  `cmd:"" help:"Redeliver one delivery, or those of a time range."`
	Test       webhookTestCmd       `cmd:"" help:"Send a test event."`
}

type ofApplication struct {
	output
	Application string `arg:"" help:"client_id of the application."`
}

type endpointView struct {
	URL                 string       `json:"url"`
	PreviousSecretUntil *clock.Stamp `json:"previousSecretUntil"`
	DisabledAt          *clock.Stamp `json:"disabledAt"`
	DisabledReason      string       `json:"disabledReason"`
	FailingSince        *clock.Stamp `json:"failingSince"`
	UpdatedAt           clock.Stamp  `json:"updatedAt"`
}

type webhookEndpointCmd struct {
	ofApplication
	URL    string `help:"URL to set. It must respond to a signed ping with 2xx."`
	NoPing bool   `help:"Set the URL without sending a ping."`
	NoURL  bool   `name:"no-url" help:"Remove the URL. Events are held."`
	Reason string `default:"Asked for by the partner." help:"Reason, kept in the audit log."`
	By     string `env:"PARTNERD_OPERATOR" help:"Who is acting. Default: the local user account."`
}

func (c *webhookEndpointCmd) Run(ctx context.Context, cfg *config.Config) error {
	if c.NoURL && c.URL != "" || c.NoPing && c.URL == "" {
		return errors.New("use --no-url without --url, and --no-ping only with --url")
	}
	return with(ctx, cfg, func(a *app.App) error {
		var err error
		if c.URL != "" || c.NoURL {
			err = a.Operator.SetWebhookURL(ctx, act{By: c.By, Reason: c.Reason}.by(), c.Application, c.URL, !c.NoPing)
		}
		if p, ok := problem.As(err); ok && len(p.Issues) > 0 {
			return errors.New("--url: " + p.Issues[0].Message)
		}
		if err != nil {
			return err
		}
		return c.show(ctx, a)
	})
}

func (c *ofApplication) show(ctx context.Context, a *app.App) error {
	e, err := a.Webhooks.Endpoint(ctx, a.DB.Read(), c.Application)
	if err != nil {
		return err
	}
	lines := []string{"URL            " + cmp.Or(e.URL, "none; events are held")}
	for _, l := range []struct {
		name string
		at   *time.Time
	}{{"failing since ", e.FailingSince}, {"disabled since", e.DisabledAt},
		{"old secret ends", e.PreviousSecretUntil}} {
		if l.at != nil {
			lines = append(lines, l.name+" "+l.at.Format(time.RFC3339))
		}
	}
	return c.print(endpointView{e.URL, (*clock.Stamp)(e.PreviousSecretUntil), (*clock.Stamp)(e.DisabledAt),
		e.DisabledReason, (*clock.Stamp)(e.FailingSince), clock.Stamp(e.UpdatedAt)}, lines...)
}

type webhookRotateCmd struct {
	ofApplication
	endPrevious
	Reason string `default:"Asked for by the partner." help:"Reason, kept in the audit log."`
	By     string `env:"PARTNERD_OPERATOR" help:"Who is acting. Default: the local user account."`
}

func (c *webhookRotateCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		secret, until, err := a.Operator.RotateWebhookSecret(ctx, act{By: c.By, Reason: c.Reason}.by(), c.Application,
			webhook.Rotation{EndPrevious: c.EndPrevious, KeepPrevious: c.KeepPrevious})
		if err != nil {
			return c.told(err)
		}
		return c.print(map[string]any{"secret": secret, "previousSecretUntil": clock.Stamp(until)}, secret)
	})
}

type webhookEnableCmd struct {
	ofApplication
	Reason string `default:"Asked for by the partner." help:"Reason, kept in the audit log."`
	By     string `env:"PARTNERD_OPERATOR" help:"Who is acting. Default: the local user account."`
}

func (c *webhookEnableCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		if err := a.Operator.EnableWebhooks(ctx, act{By: c.By, Reason: c.Reason}.by(), c.Application); err != nil {
			return err
		}
		return c.show(ctx, a)
	})
}

type webhookEventsCmd struct {
	ofApplication
	After int64 `help:"Position of the last event you have seen."`
	Limit int   `default:"20" help:"Number of items (1 to 100)."`
}

func (c *webhookEventsCmd) Run(ctx context.Context, cfg *config.Config) error {
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	return with(ctx, cfg, func(a *app.App) error {
		page, err := a.Webhooks.Events(ctx, c.Application, c.After, c.Limit)
		if err != nil {
			return err
		}
		items, lines := []map[string]any{}, []string{}
		for _, e := range page.Items {
			items = append(items, map[string]any{"position": e.Position, "id": e.ID, "type": e.Type,
				"createdAt": clock.Stamp(e.CreatedAt), "consultationId": e.ConsultationID, "sequence": e.Sequence,
				"payload": json.RawMessage(e.Body)})
			lines = append(lines, fmt.Sprintf("%8d  %s  %s  %s  %s %d", e.Position, e.CreatedAt.Format(time.RFC3339),
				e.ID, e.Type, cmp.Or(e.ConsultationID, "test"), e.Sequence))
		}
		if page.More {
			lines = append(lines, fmt.Sprintf("more: --after %d", page.Last))
		}
		return c.print(map[string]any{"items": items, "last": page.Last, "hasMore": page.More, "gap": page.Gap},
			lines...)
	})
}

func checkLimit(n int) error {
	if n < 1 || n > 100 {
		return fmt.Errorf("--limit must be 1 to 100, not %d", n)
	}
	return nil
}

type webhookDeliveriesCmd struct {
	ofApplication
	ID    string `help:"ID of one delivery to show with its attempts."`
	State string `enum:",PENDING,DELIVERED,FAILED" default:"" help:"Show only PENDING, DELIVERED or FAILED deliveries."`
	Limit int    `default:"20" help:"Number of items (1 to 100)."`
}

func (c *webhookDeliveriesCmd) Run(ctx context.Context, cfg *config.Config) error {
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	return with(ctx, cfg, func(a *app.App) error {
		if c.ID != "" {
			return c.detail(ctx, a)
		}
		items, more, err := a.Webhooks.Deliveries(ctx, a.DB.Read(), c.Application,
			webhook.DeliveryFilter{State: webhook.State(c.State), Limit: c.Limit})
		if err != nil {
			return err
		}
		views, lines := []map[string]any{}, []string{}
		for _, d := range items {
			views, lines = append(views, deliveryView(d)), append(lines, deliveryLine(d))
		}
		return c.print(map[string]any{"items": views, "hasMore": more}, lines...)
	})
}

func (c *webhookDeliveriesCmd) detail(ctx context.Context, a *app.App) error {
	d, err := a.Webhooks.Delivery(ctx, a.DB.Read(), c.Application, c.ID)
	if err != nil {
		return err
	}
	attempts, err := a.Webhooks.Attempts(ctx, a.DB.Read(), c.Application, c.ID)
	if err != nil {
		return err
	}
	view, lines := deliveryView(d), []string{deliveryLine(d)}
	var log []map[string]any
	for _, t := range attempts {
		log = append(log, map[string]any{"number": t.Number, "startedAt": clock.Stamp(t.StartedAt),
			"durationMs": t.Duration.Milliseconds(), "statusCode": t.StatusCode, "error": t.Error,
			"responseBody": t.ResponseBody})
		lines = append(lines, fmt.Sprintf("  %2d  %s  %6d ms  %s  %s  %.60q",
			t.Number, t.StartedAt.Format(time.RFC3339), t.Duration.Milliseconds(),
			status(t.StatusCode), cmp.Or(t.Error, "ok"), t.ResponseBody))
	}
	view["attemptLog"] = log
	return c.print(view, lines...)
}

type webhookRedeliverCmd struct {
	ofApplication
	ID     string     `help:"ID of the delivery to redeliver."`
	From   *time.Time `help:"Start of the time range, like 2026-06-01T08:00:00Z."`
	To     *time.Time `help:"End of the time range."`
	All    bool       `help:"Include delivered events of the time range."`
	AsNew  bool       `help:"Use new delivery IDs, for a handler that lost data."`
	Reason string     `default:"Asked for by the partner." help:"Reason, kept in the audit log."`
	By     string     `env:"PARTNERD_OPERATOR" help:"Who is acting. Default: the local user account."`
}

func (c *webhookRedeliverCmd) Run(ctx context.Context, cfg *config.Config) error {
	if (c.ID == "") == (c.From == nil) || (c.From == nil) != (c.To == nil) {
		return errors.New("give --id, or --from and --to")
	}
	return with(ctx, cfg, func(a *app.App) error {
		if c.ID == "" {
			return c.sendRange(ctx, a)
		}
		d, err := a.Operator.Redeliver(ctx, act{By: c.By, Reason: c.Reason}.by(), c.Application, c.ID, c.AsNew)
		if err != nil {
			return err
		}
		return c.print(deliveryView(d), deliveryLine(d))
	})
}

func (c *webhookRedeliverCmd) sendRange(ctx context.Context, a *app.App) error {
	f := webhook.RedeliveryFilter{From: *c.From, To: *c.To, All: c.All, AsNew: c.AsNew}
	total := 0
	for {
		n, next, err := a.Operator.RedeliverRange(ctx, act{By: c.By, Reason: c.Reason}.by(), c.Application, f)
		if errors.Is(err, problem.ErrRateLimited) && total > 0 {
			return fmt.Errorf("deliveries queued: %d; for the rest, continue later with --from %s: %w",
				total, f.After.CreatedAt.Format(time.RFC3339Nano), err)
		}
		if err != nil {
			return err
		}
		if total += n; next == nil {
			return c.print(map[string]any{"count": total}, "deliveries queued: "+strconv.Itoa(total))
		}
		f.After = *next
	}
}

type webhookTestCmd struct {
	ofApplication
	Type   string `default:"consultation.created" help:"Type of the event."`
	Reason string `default:"Asked for by the partner." help:"Reason, kept in the audit log."`
	By     string `env:"PARTNERD_OPERATOR" help:"Who is acting. Default: the local user account."`
}

func (c *webhookTestCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		d, err := a.Operator.SendTestEvent(ctx, act{By: c.By, Reason: c.Reason}.by(), c.Application,
			webhook.Type(c.Type))
		if err != nil {
			return err
		}
		return c.print(deliveryView(d), d.ID)
	})
}

func deliveryView(d webhook.Delivery) map[string]any {
	return map[string]any{"id": d.ID, "eventId": d.EventID, "eventType": d.Type, "consultationId": d.ConsultationID,
		"sequence": d.Sequence, "state": d.State, "attempts": d.Attempts, "nextAttemptAt": (*clock.Stamp)(d.NextAt),
		"createdAt": clock.Stamp(d.CreatedAt), "endedAt": (*clock.Stamp)(d.EndedAt)}
}

func deliveryLine(d webhook.Delivery) string {
	return fmt.Sprintf("%s  %s  %-9s %2d  %s  %s %d", d.CreatedAt.Format(time.RFC3339), d.ID, d.State, d.Attempts,
		d.Type, cmp.Or(d.ConsultationID, "test"), d.Sequence)
}

func status(code int) string {
	if code == 0 {
		return "---"
	}
	return strconv.Itoa(code)
}
