package app

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"partnerd/internal/app/config"
	"partnerd/internal/app/doctor"
	"partnerd/internal/base/telemetry"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/conformance"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/desk"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/privacy"
	"partnerd/internal/domain/restore"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/status"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/access"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/infra/requestlog"
	"partnerd/internal/server/httpapi"
)

// wire creates the services, each after those that it uses.
func (a *App) wire(ctx context.Context, k config.Keys) error {
	if err := a.wireFoundations(k); err != nil {
		return err
	}
	if err := a.wireEvents(k); err != nil {
		return err
	}
	if err := a.wireApplications(ctx, k); err != nil {
		return err
	}
	if err := a.wireConsultations(ctx, k); err != nil {
		return err
	}
	if err := a.wireOversight(ctx); err != nil {
		return err
	}
	if a.Config.Sandbox() {
		a.wireSandbox(k)
	}
	return nil
}

// wireFoundations creates what the domains depend on: the queue, email, accounts, staff, and the logs.
func (a *App) wireFoundations(k config.Keys) (err error) {
	cfg := &a.Config
	a.requests = httpapi.NewMetrics(a.Metrics)
	if a.Queue, err = queue.New(a.DB, a.Logger); err != nil {
		return err
	}
	a.Queue.Tracer = a.telemetry.Tracer()
	sender, err := a.sender()
	if err != nil {
		return err
	}
	a.Accounts = account.New(k.Box)
	if cfg.Sandbox() {
		a.Inbox = sandbox.NewInbox(a.DB, k.Box, a.Accounts)
		a.purgeEvery("messages to test clients", time.Hour, a.Inbox.Purge)
		sender = a.Inbox.Mail(sender, cfg.MailLeaves())
	}
	a.Mail = mail.New(a.Queue, k.Box, sender)
	a.Mail.Service = cfg.ServiceName
	a.Applications = application.New()
	a.Applications.Reserve(cfg.ServiceName)
	a.Catalog = catalog.New()
	a.Wallet = wallet.New()
	if err = a.selfService(k); err != nil {
		return err
	}
	if a.Staff, err = staff.New(staff.Deps{DB: a.DB, Box: k.Box, Queue: a.Queue, Mail: a.Mail,
		BaseURL: cfg.BaseURL}); err != nil {
		return err
	}
	a.purgeEvery("links and sessions of the people who work here", time.Hour, a.Staff.Purge)
	a.Access = access.New(a.DB)
	a.purgeEvery("the log of uses", 24*time.Hour, a.Access.Purge)
	a.Requests = requestlog.New(a.DB, a.Metrics)
	a.purgeEvery("the log of requests", time.Hour, a.Requests.Purge)
	a.Metrics.MustRegister(doctor.Collectors(a.DB, cfg)...)
	a.Metrics.MustRegister(copies{a.DB}, &a.certificate)
	a.witness = restore.NewWitness(a.DB, cfg.Path("marks"), a.Logger)
	a.Metrics.MustRegister(a.witness, clockAhead(a.DB))
	a.Idempotency = idempotency.New(a.DB, k.Box)
	a.purgeEvery("full rate buckets", time.Hour,
		func(ctx context.Context) (int, error) { return ratelimit.Purge(ctx, a.DB.Read()) })
	a.purgeEvery("idempotency keys", time.Hour, a.Idempotency.Purge)
	return nil
}

// wireEvents creates payments and webhooks.
func (a *App) wireEvents(k config.Keys) (err error) {
	a.Payments = a.payments(k.Payment)
	a.Metrics.MustRegister(a.Payments.Collector())
	a.Queue.Every("refunds of top-ups", payment.RefundEvery, func(ctx context.Context) error {
		_, err := a.Payments.SendRefunds(ctx)
		return err
	})
	if a.Webhooks, err = a.webhooks(k.Box); err != nil {
		return err
	}
	a.purgeEvery("webhook events", time.Hour, a.Webhooks.Purge)
	a.Conformance = conformance.New(a.DB, a.Webhooks, a.Applications, a.Requests)
	return nil
}

// wireApplications creates what partners use: their portal, the authorization server, and the rate limits.
func (a *App) wireApplications(ctx context.Context, k config.Keys) (err error) {
	cfg := &a.Config
	a.limiter = ratelimit.New()
	if cfg.ValkeyURL != "" {
		if a.limiter, err = ratelimit.NewShared(cfg.ValkeyURL, k.Buckets, a.Logger, a.telemetry.Tracer()); err != nil {
			return err
		}
	}
	a.Metrics.MustRegister(a.limiter.Collectors()...)
	a.Portal, err = portal.New(portal.Deps{DB: a.DB, Box: k.Box, Queue: a.Queue, Mail: a.Mail, Staff: a.Staff,
		Applications: a.Applications, Webhooks: a.Webhooks, Limiter: a.limiter, BaseURL: cfg.BaseURL,
		Sandbox: cfg.Sandbox(), ApplicationPerMinute: cfg.RateApplication, ClientPerMinute: cfg.RateClient})
	if err != nil {
		return err
	}
	a.purgeEvery("links to the portal", time.Hour, a.Portal.Purge)
	a.OAuth, err = oauth.New(ctx, a.DB, k.Box, a.Accounts, a.Applications, oauth.Config{Issuer: cfg.BaseURL,
		Audience: cfg.BaseURL + "/api/v1", Logger: a.Logger, Webhooks: a.Webhooks})
	if err != nil {
		return err
	}
	a.purgeEvery("ended grants", oauth.PurgeEvery, a.OAuth.Purge)
	a.purgeEvery("token answers", time.Minute, a.OAuth.PurgeAnswers)
	return nil
}

// wireConsultations creates what consultations need, from lawyers to calls, and the desk.
func (a *App) wireConsultations(ctx context.Context, k config.Keys) (err error) {
	cfg := &a.Config
	a.Lawyers = lawyer.New(k.Box)
	if !cfg.Sandbox() {
		a.Lawyers.OnlyChecked()
	}
	a.Matching = matching.New(a.Lawyers)
	people := &people{db: a.DB, lawyers: a.Lawyers, staff: a.Staff, applications: a.Applications}
	provider, err := a.telephony()
	if err != nil {
		return err
	}
	a.Telephony = telephony.New(a.DB, provider, people, a.Logger)
	a.Telephony.Tracer = a.telemetry.Tracer()
	a.Metrics.MustRegister(a.Telephony.Collector())
	if a.queries, err = a.DB.ByIndex(ctx, queueConns); err != nil {
		return err
	}
	a.Telephony.Queue = a.queries
	if a.SimulatedCalls != nil {
		a.SimulatedCalls.Queue = a.queries
	}
	a.Notes = note.New(k.Box, k.Drop)
	a.purgeEvery("copies of notes", time.Hour,
		func(ctx context.Context) (int, error) { return a.Notes.DropCopies(ctx, a.DB.Read()) })
	a.purgeEvery("drafts of notes", 24*time.Hour,
		func(ctx context.Context) (int, error) { return a.Notes.PurgeDrafts(ctx, a.DB.Read()) })
	var stage consultation.Stage
	if cfg.Sandbox() {
		stage = sandbox.Stage{}
	}
	a.Consultations = consultation.New(consultation.Deps{
		DB: a.DB, Searches: a.queries, Box: k.Box, Accounts: a.Accounts, Applications: a.Applications,
		Catalog: a.Catalog, Wallet: a.Wallet, Matching: a.Matching, Lawyers: a.Lawyers, Webhooks: a.Webhooks,
		Notes: a.Notes, Telephony: a.Telephony, Mail: a.Mail, SMS: a.SMS, Staff: a.Staff, Tracer: a.telemetry.Tracer(),
		Logger: a.Logger, Stage: stage,
	})
	a.purgeEvery("answers about waits", 10*time.Minute, a.Consultations.PurgeEstimates)
	a.purgeEvery("shifts of lawyers", 24*time.Hour,
		func(ctx context.Context) (int, error) { return a.Lawyers.PurgeShifts(ctx, a.DB.Read()) })
	a.Metrics.MustRegister(a.Consultations.Collector())
	a.Queue.Every("chain of the evidence", consultation.ChainEvery, a.Consultations.ChainEvidence)
	people.consultations = a.Consultations
	a.Desk = desk.New(desk.Deps{DB: a.DB, Staff: a.Staff, Lawyers: a.Lawyers, Consultations: a.Consultations,
		Notes: a.Notes, Logger: a.Logger})
	a.Metrics.MustRegister(a.Desk.Collector())
	return nil
}

// wireOversight creates what oversees them: the service status, the ledger checks, operator actions and privacy.
func (a *App) wireOversight(ctx context.Context) (err error) {
	cfg := &a.Config
	a.Status = &status.Service{DB: a.DB, CanCall: a.Consultations.Served, CanPay: a.Payments.Available}
	a.Queue.Every("minute of the state", status.Every, a.Status.Count)
	a.Queue.Every("days of the state", status.SumEvery, a.Status.Sum)
	a.Books = books.New(a.DB, a.Logger)
	a.Metrics.MustRegister(a.Books.Collector())
	a.Queue.Every("examination of the books", books.CheckEvery, a.Books.ExamineIfDue)
	a.Metrics.MustRegister(a.Queue.Collectors()...)
	a.sayWhatIsMissing()
	a.Operator = &operator.Service{DB: a.DB, Sandbox: cfg.Sandbox(), Accounts: a.Accounts, SelfService: a.SelfService,
		Applications: a.Applications, OAuth: a.OAuth, Wallet: a.Wallet,
		Payments: a.Payments, Webhooks: a.Webhooks, Lawyers: a.Lawyers, Consultations: a.Consultations,
		Matching: a.Matching, Telephony: a.Telephony, Staff: a.Staff, Portal: a.Portal, Mail: a.Mail}
	if err := a.sayWhatIsTooMuch(ctx); err != nil {
		return err
	}
	a.Privacy, err = privacy.New(privacy.Deps{Accounts: a.Accounts, SelfService: a.SelfService, Access: a.Access,
		OAuth: a.OAuth, Wallet: a.Wallet, Payments: a.Payments, Consultations: a.Consultations,
		Idempotency: a.Idempotency, Proposals: a.Operator, Mail: a.Mail})
	if err != nil {
		return err
	}
	return nil
}

// wireSandbox creates the simulated people and providers.
func (a *App) wireSandbox(k config.Keys) {
	a.TestClients = sandbox.NewClients(sandbox.ClientsDeps{DB: a.DB, Accounts: a.Accounts, Applications: a.Applications,
		Wallet: a.Wallet, OAuth: a.OAuth})
	a.Crews = sandbox.NewCrews(a.DB, a.Consultations, a.Lawyers, a.Catalog)
	a.SimulatedLawyers = sandbox.NewLawyers(a.DB, a.Consultations, a.Lawyers, a.Logger)
	a.SimulatedLawyers.Queue = a.queries
	a.SimulatedClock = sandbox.NewClock(a.DB, a.Consultations, a.Logger)
	a.SimulatedPayments = sandbox.NewPayments(a.DB, a.Payments, a.noticeURL(), k.Payment, a.Logger)
}

// purgeEvery runs a purge at an interval, and logs what it deleted.
func (a *App) purgeEvery(what string, interval time.Duration, purge func(context.Context) (int, error)) {
	a.Queue.Every("purge "+what, interval, func(ctx context.Context) error {
		n, err := purge(ctx)
		if n > 0 {
			a.Logger.Info("purged", "what", what, "count", n)
		}
		return err
	})
}

// sender returns the configured sender of email.
func (a *App) sender() (mail.Sender, error) {
	if a.Config.MailServer != "" {
		return mail.NewSMTP(a.Config.MailServer, mail.From(a.Config.MailFrom, a.Config.ServiceName),
			a.telemetry.Tracer())
	}
	if a.Config.Sandbox() {
		if a.Config.KeepsMailFromPeople() {
			a.Logger.Warn(config.MailKept, "set", "PARTNERD_MAIL_SERVER, PARTNERD_MAIL_FROM")
		}
		return mail.Folder{Dir: a.Config.Path("mail"), Logger: a.Logger}, nil
	}
	a.Logger.Warn("no mail server is set: email waits in the queue", "set", "PARTNERD_MAIL_SERVER")
	return noMail{}, nil
}

// noticeURL is where the simulated payment provider sends its webhooks: this machine.
func (a *App) noticeURL() string {
	host, port, _ := net.SplitHostPort(a.Config.Addr)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/payments/notices/" + payment.SandboxProvider
}

// people looks up the people to call, at the time of the call.
type people struct {
	db            *postgres.DB
	lawyers       *lawyer.Service
	staff         *staff.Service
	applications  *application.Service
	consultations *consultation.Service // set later: it needs telephony, which needs this
}

// ClientNumber implements telephony.People.
func (p *people) ClientNumber(ctx context.Context, consultationID string) (string, error) {
	return p.consultations.ClientNumber(ctx, consultationID)
}

// LawyerNumber implements telephony.People.
func (p *people) LawyerNumber(ctx context.Context, lawyerID string) (string, error) {
	return p.lawyers.Phone(ctx, p.db.Read(), lawyerID)
}

// LawyerLanguage implements telephony.People. A simulated lawyer has no account.
func (p *people) LawyerLanguage(ctx context.Context, lawyerID string) (string, error) {
	who, err := p.staff.OfLawyer(ctx, p.db.Read(), lawyerID)
	if errors.Is(err, staff.ErrNotFound) {
		return "", nil
	}
	return strings.ToUpper(who.Language), err // the catalog uses the pages' language codes in uppercase
}

// Application implements telephony.People.
func (p *people) Application(ctx context.Context, consultationID string) (string, error) {
	applicationID, err := p.consultations.ApplicationOf(ctx, consultationID)
	if err != nil {
		return "", err
	}
	app, err := p.applications.Get(ctx, p.db.Read(), applicationID)
	return app.Name, err
}

// noMail keeps email in the queue until a server is set.
type noMail struct{}

// Send implements mail.Sender.
func (noMail) Send(context.Context, mail.Message) error {
	return telemetry.WithClass(errors.New("PARTNERD_MAIL_SERVER is not set"), "not_set")
}

// payments returns the service with the configured provider.
func (a *App) payments(noticeSecret string) *payment.Service {
	c := payment.Config{BaseURL: a.Config.BaseURL, Sandbox: a.Config.Sandbox(), NoticeSecret: noticeSecret,
		ToppedUp: func(ctx context.Context, tx postgres.Tx, clientID string) error {
			return a.OAuth.ToppedUp(ctx, tx, clientID)
		}} // created later
	if a.Config.StripeSecretKey != "" {
		c.Provider = payment.NewStripe(payment.StripeConfig{SecretKey: a.Config.StripeSecretKey,
			WebhookSecret: a.Config.StripeWebhookSecret, Tracer: a.telemetry.Tracer()})
	}
	return payment.New(a.DB, a.Logger, a.Wallet, c)
}

// given returns a setting's value, or the zero value if it was not given.
func given[T any](setting *T) (value T) {
	if setting != nil {
		value = *setting
	}
	return value
}
