package app

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/app/config"
	"partnerd/internal/base/telemetry"
	"partnerd/internal/domain/account"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/sms"
)

// selfService creates the client self-service and the text messages that it needs.
func (a *App) selfService(k config.Keys) error {
	box := k.Box
	sender, err := a.smsSender()
	if err != nil {
		return err
	}
	var kept func(ctx context.Context, tx postgres.Tx, clientID string) (bool, error)
	if a.Inbox != nil {
		kept = a.Inbox.Keeps
		sender = a.Inbox.SMS(sender, a.Config.SMSServer != "")
	}
	a.SMS = sms.New(a.DB, a.Queue, box, sender, a.Logger)
	a.SMS.Service = a.Config.ServiceName
	a.purgeEvery("text messages", time.Hour, a.SMS.Purge)
	a.SelfService, err = account.NewSelfService(account.SelfServiceDeps{DB: a.DB, Accounts: a.Accounts, Box: box,
		Queue: a.Queue, Mail: a.Mail, SMS: a.SMS, Kept: kept, BaseURL: a.Config.BaseURL, Contact: a.Config.Contact,
		Numbers: account.Numbers{Countries: a.Config.PhoneCountries, PerDay: given(a.Config.PhoneCodes), Key: k.Phone},
		Opened: func(ctx context.Context, tx postgres.Tx, clientID string) error {
			return a.Wallet.Open(ctx, tx, clientID)
		}})
	if err != nil {
		return err
	}
	a.purgeEvery("links, codes and browser sessions", time.Hour, a.SelfService.Purge)
	return nil
}

// smsSender returns the configured sender of text messages.
func (a *App) smsSender() (sms.Sender, error) {
	if a.Config.SMSServer != "" {
		s, err := sms.NewHTTP(a.Config.SMSServer, a.Config.SMSFrom, a.telemetry.Tracer())
		if err != nil {
			return nil, fmt.Errorf("PARTNERD_SMS_SERVER: %w", err)
		}
		return s, nil
	}
	if a.Config.Sandbox() {
		return sms.Folder{Dir: a.Config.Path("sms"), Logger: a.Logger}, nil
	}
	a.Logger.Warn("no text message provider is set: phone numbers cannot be verified", "set", "PARTNERD_SMS_SERVER")
	return noSMS{}, nil
}

// noSMS sends nothing; a message that waited too long is dropped.
type noSMS struct{}

func (noSMS) Send(context.Context, sms.Message) error {
	return telemetry.WithClass(fmt.Errorf("%w: no provider is set", sms.ErrNotSent), "not_set")
}
