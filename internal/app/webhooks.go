package app

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/application"
	"partnerd/internal/mail"
	"partnerd/internal/postgres"
	"partnerd/internal/seal"
	"partnerd/internal/webhook"
)

func (a *App) webhooks(box *seal.Box) (*webhook.Service, error) {
	c := webhook.Config{
		Sandbox: a.Config.Sandbox(), AllowLoopback: a.Config.Sandbox() && a.Config.WebhookLoopback,
		Retention: a.Config.WebhookRetention, Notifier: webhookMail{a}, Registerer: a.Metrics, Logger: a.Logger,
	}
	if a.Config.WebhookProxy != "" {
		var err error
		if c.Proxy, err = webhook.ParseProxy(a.Config.WebhookProxy); err != nil {
			return nil, err
		}
	}
	return webhook.New(a.DB, box, c), nil
}

// webhookMail tells the contact of an application about its endpoint.
type webhookMail struct{ app *App }

// Notify implements webhook.Notifier.
func (w webhookMail) Notify(ctx context.Context, tx postgres.Tx, applicationID string, kind webhook.NoticeKind, since time.Time) error {
	to, err := w.app.Applications.Get(ctx, tx, applicationID)
	if err != nil {
		return err
	}
	w.app.Logger.Warn("webhook endpoint needs its owner", "application", applicationID, "notice", kind, "since", since, "mailed", to.ContactEmail != "")
	if to.ContactEmail == "" {
		return nil
	}
	return w.app.Mail.Send(ctx, tx, webhookNotice(to, kind, since, w.app.Config.BaseURL))
}

func webhookNotice(to application.Application, kind webhook.NoticeKind, since time.Time, base string) mail.Message {
	subject := fmt.Sprintf("Webhooks of %s are failing", to.Name)
	text := fmt.Sprintf("Since %s no webhook to %s (%s) has succeeded. We keep trying; nothing is lost.\n"+
		"Without a success for five days the endpoint is disabled and its deliveries are held.\n", since.UTC().Format("2 January 2006 15:04 UTC"), to.Name, to.ID)
	if kind == webhook.NoticeDisabled {
		subject = fmt.Sprintf("Webhooks of %s are held", to.Name)
		text = fmt.Sprintf("On %s the webhook endpoint of %s (%s) was disabled: it failed for five days, or answered 410.\n"+
			"Deliveries are held and none is dropped. They go on when you enable the endpoint or set another URL.\n", since.UTC().Format("2 January 2006 15:04 UTC"), to.Name, to.ID)
	}
	return mail.Message{To: to.ContactEmail, Subject: subject, Text: text + "\n" +
		"What was answered:  GET  " + base + "/api/platform/v1/deliveries\n" +
		"Enable it again:    POST " + base + "/api/platform/v1/endpoint/enable\n" +
		"Send all again:     POST " + base + "/api/platform/v1/redeliveries\n"}
}
