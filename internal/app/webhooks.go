package app

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/base/seal"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
)

func (a *App) webhooks(box *seal.Box) (*webhook.Service, error) {
	c := webhook.Config{
		Sandbox:   a.Config.Sandbox(),
		Retention: given(a.Config.WebhookRetention), Notifier: webhookMail{a}, Registerer: a.Metrics,
		Tracer: a.telemetry.Tracer(), Logger: a.Logger, Now: a.DB.Clock().Now,
	}
	c.AllowLoopback, c.HideLoopback = a.Config.Loopback()
	if a.Config.WebhookProxy != "" {
		var err error
		if c.Proxy, err = webhook.ParseProxy(a.Config.WebhookProxy); err != nil {
			return nil, err
		}
	}
	return webhook.New(a.DB, box, c), nil
}

// webhookMail emails the contact of an application about its endpoint.
type webhookMail struct{ app *App }

// Notify implements webhook.Notifier.
func (w webhookMail) Notify(ctx context.Context, tx postgres.Tx, applicationID string, kind webhook.NoticeKind,
	since time.Time,
) error {
	to, err := w.app.Applications.Get(ctx, tx, applicationID)
	if err != nil {
		return err
	}
	called, mailed, err := w.app.Portal.Contact(ctx, tx, to)
	if err != nil {
		return err
	}
	w.app.Logger.Warn("webhook endpoint needs attention from its owner", "application", applicationID, "notice", kind,
		"since", since, "mailed", mailed)
	if !mailed {
		return nil
	}
	return w.app.Mail.Send(ctx, tx, webhookNotice(to, called, kind, since, w.app.Config.BaseURL))
}

// webhookNotice states only what is true for its kind. A delivery fails about 71 hours after its first attempt, so
// after three days the first ones of an outage have failed. Only a disabled endpoint can be enabled.
func webhookNotice(to application.Application, called string, kind webhook.NoticeKind, since time.Time,
	base string,
) mail.Message {
	const platform = "/api/platform/v1"
	const day = 24 * time.Hour
	at := since.UTC().Format("2 January 2006 15:04 UTC")
	subject := fmt.Sprintf("Webhooks of %s are failing", called)
	text := fmt.Sprintf("No webhook to %s (%s) has succeeded since %s.\n", called, to.ID, at)
	const disabling = "After five days without a success, the endpoint is disabled and its deliveries are held.\n"
	from, enable := since.Add(-3*day), ""
	switch kind {
	case webhook.NoticeFailing72h:
		text += "Each delivery is retried for about 71 hours. Older deliveries have failed and are no longer retried:\n" +
			"redeliver them when your endpoint works again. Newer deliveries are still being retried.\n" +
			disabling
	case webhook.NoticeDisabled:
		subject = fmt.Sprintf("Webhooks of %s are held", called)
		text = fmt.Sprintf("On %s the webhook endpoint of %s (%s) was disabled, because it failed for five days or "+
			"returned 410.\n", at, called, to.ID) +
			"Pending deliveries are held and none is dropped. They are sent when you enable the endpoint or set\n" +
			"another URL. Deliveries that had been retried for about 71 hours have failed: redeliver them then.\n"
		from, enable = since.Add(-webhook.DisableAfter-3*day), "Enable it again:    POST "+base+platform+
			"/endpoint/enable\n"
	default:
		text += "Each delivery is retried for about 71 hours and then fails. You can redeliver it from the\n" +
			"delivery log.\n" + disabling
	}
	return mail.Message{To: to.ContactEmail, Subject: subject, Text: text + "\n" +
		"See the responses:  GET  " + base + platform + "/deliveries\n" + enable +
		"Redeliver failures: POST " + base + platform + "/redeliveries\n" +
		fmt.Sprintf("                    {\"from\": %q, \"to\": \"<now>\", \"select\": \"FAILED\"}\n",
			from.UTC().Format(time.RFC3339))}
}
