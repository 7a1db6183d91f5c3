// Package app wires the program: configuration, services, server and workers. It is the only place where the parts
// meet, and the only one that reads the environment.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/access"
	"partnerd/internal/account"
	"partnerd/internal/application"
	"partnerd/internal/books"
	"partnerd/internal/catalog"
	"partnerd/internal/cluster"
	"partnerd/internal/conformance"
	"partnerd/internal/consultation"
	"partnerd/internal/deployment"
	"partnerd/internal/desk"
	"partnerd/internal/edge"
	"partnerd/internal/httpapi"
	"partnerd/internal/idempotency"
	"partnerd/internal/lawyer"
	"partnerd/internal/mail"
	"partnerd/internal/matching"
	"partnerd/internal/note"
	"partnerd/internal/oauth"
	"partnerd/internal/operator"
	"partnerd/internal/payment"
	"partnerd/internal/portal"
	"partnerd/internal/postgres"
	"partnerd/internal/privacy"
	"partnerd/internal/queue"
	"partnerd/internal/ratelimit"
	"partnerd/internal/requestlog"
	"partnerd/internal/reseal"
	"partnerd/internal/sandbox"
	"partnerd/internal/seal"
	"partnerd/internal/sms"
	"partnerd/internal/staff"
	"partnerd/internal/status"
	"partnerd/internal/telemetry"
	"partnerd/internal/telephony"
	"partnerd/internal/telephony/twilio"
	"partnerd/internal/wallet"
	"partnerd/internal/web"
	"partnerd/internal/webhook"
	"partnerd/openapi"
)

const (
	database   = "partnerd" // in the private cluster
	queueConns = 4          // two searches after commit, two steps of a sweep, and between them the commands of calls
)

// App is the program: every service, on one database.
type App struct {
	Config  Config
	Logger  *slog.Logger
	DB      *postgres.DB
	queries *postgres.DB     // of searches and sweeps
	cluster *cluster.Cluster // nil when the database is somebody else's

	Queue         *queue.Queue
	Mail          *mail.Service
	SMS           *sms.Service
	Accounts      *account.Service
	SelfService   *account.SelfService
	Staff         *staff.Service
	Access        *access.Log
	Requests      *requestlog.Log
	Conformance   *conformance.Service
	Privacy       *privacy.Service
	Applications  *application.Service
	OAuth         *oauth.Service
	Catalog       *catalog.Service
	Wallet        *wallet.Service
	Payments      *payment.Service
	Webhooks      *webhook.Service
	Portal        *portal.Service
	Metrics       *prometheus.Registry
	Idempotency   *idempotency.Service
	Lawyers       *lawyer.Service
	Matching      *matching.Service
	Telephony     *telephony.Service
	Notes         *note.Service
	Twilio        *twilio.Driver // nil without that provider
	Consultations *consultation.Service
	Books         *books.Service
	Status        *status.Service
	Operator      *operator.Service
	Desk          *desk.Service

	Inbox             *sandbox.Inbox // nil in live, like the next five
	TestClients       *sandbox.Clients
	Crews             *sandbox.Crews
	SimulatedPayments *sandbox.Payments
	SimulatedLawyers  *sandbox.Lawyers
	SimulatedClock    *sandbox.Clock
	SimulatedCalls    *sandbox.Calls

	telemetry *telemetry.Telemetry // nil when nothing is sent
	limiter   *ratelimit.Limiter
	ending    atomic.Bool // this process was told to end
	cursor    []byte      // signs page cursors
	box       *seal.Box
	requests  *httpapi.Metrics
}

// Open connects to the database (starting the private cluster when none is configured), makes sure that it belongs to
// this deployment, brings it to the newest schema and makes the services. Nothing happens of itself until [App.Run].
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*App, error) {
	return open(ctx, cfg, log, nil)
}

// open is [Open]; with move, the base URL becomes the one of the deployment.
func open(ctx context.Context, cfg Config, log *slog.Logger, move *operator.Act) (*App, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.Env == "" {
		cfg.Env = deployment.Sandbox
	}
	a := &App{Config: cfg, Logger: log}
	if err := a.open(ctx, move); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

func (a *App) open(ctx context.Context, move *operator.Act) error {
	owner, program, err := a.databaseURLs(ctx)
	if err != nil {
		return err
	}
	if err := a.observe(ctx); err != nil {
		return err
	}
	claim := a.Config.claim(move != nil)
	k, err := a.prepare(ctx, owner, program, claim)
	if err != nil {
		return err
	}
	a.DB, err = postgres.Open(ctx, program, postgres.Options{MaxConns: a.Config.DatabaseConns, Pooler: a.Config.DatabasePoolerURL, Test: a.Config.Sandbox(), Tracer: a.Config.Tracer, Spans: a.telemetry.Tracer(), Clock: a.Config.Clock, Machine: a.Config.Machine})
	if err != nil {
		return err
	}
	if err := a.Config.checkSame(ctx, "PARTNERD_DATABASE_POOLER_URL", a.Config.DatabasePoolerURL); err != nil {
		return err
	}
	if err := a.record(ctx, claim, move); err != nil {
		return err
	}
	if err := reseal.Check(ctx, a.DB.Read(), k.box, sealedColumns()); err != nil {
		return err
	}
	if err := k.keep(ctx, a.DB.Read()); err != nil {
		return err
	}
	a.box, a.cursor = k.box, k.cursor
	return a.wire(ctx, k)
}

// prepare does, as the owner of the tables, what comes before the program's own connections: it makes sure that the
// database is this deployment's, and brings the schema and the privileges of the program to their newest. It sets the base URL.
func (a *App) prepare(ctx context.Context, owner, program string, claim deployment.Claim) (k keys, err error) {
	if a.Config.BaseURL, err = baseURL(ctx, owner, claim); err != nil {
		return k, err
	}
	if a.Config.Serving {
		if err := a.Config.checkServing(); err != nil {
			return k, err
		}
	}
	if k, err = a.Config.keys(); err != nil {
		return k, err
	}
	found, err := postgres.Migrations{URL: owner}.Up(ctx)
	if postgres.IsForbidden(err) {
		err = fmt.Errorf("%w: the schema is to change, and the role of PARTNERD_DATABASE_URL may not; run partnerd migrations up with PARTNERD_DATABASE_OWNER_URL", err)
	}
	if err != nil {
		return k, err
	}
	if found.Newer() { // what it grants is the newer program's to say
		a.Logger.Warn("a newer program has migrated the database; this one goes on beside it", "schema", found.Version, "known", found.Known)
		return k, nil
	}
	return k, postgres.Grant(ctx, owner, program)
}

func baseURL(ctx context.Context, url string, claim deployment.Claim) (string, error) {
	db, err := postgres.Open(ctx, url, postgres.Options{MaxConns: 2})
	if err != nil {
		return "", err
	}
	defer db.Close()
	return deployment.Check(ctx, db.Read(), claim)
}

// databaseURLs are the addresses of the database for the owner of its tables and for the program.
func (a *App) databaseURLs(ctx context.Context) (owner, program string, err error) {
	if a.Config.DatabaseURL != "" {
		return cmp.Or(a.Config.DatabaseOwnerURL, a.Config.DatabaseURL), a.Config.DatabaseURL, a.Config.checkSame(ctx, "PARTNERD_DATABASE_OWNER_URL", a.Config.DatabaseOwnerURL)
	}
	if a.cluster, err = cluster.Start(ctx, cluster.Options{Dir: filepath.Join(a.Config.DataDir, "postgres"), Logger: a.Logger}); err != nil {
		return "", "", err
	}
	return a.cluster.EnsureDatabase(ctx, database)
}

// checkSame refuses an address that leads elsewhere than the program's: what is somebody else's would be migrated, or read and written.
func (c *Config) checkSame(ctx context.Context, setting, address string) error {
	if address == "" {
		return nil
	}
	same, err := postgres.SameDatabase(ctx, c.DatabaseURL, address)
	if err == nil && !same {
		err = fmt.Errorf("%s leads to another database than PARTNERD_DATABASE_URL; nothing was changed", setting)
	}
	return err
}

// wire makes the services in the order of their imports.
func (a *App) wire(ctx context.Context, k keys) (err error) {
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
	a.Accounts = account.New(k.box)
	if cfg.Sandbox() {
		a.Inbox = sandbox.NewInbox(a.DB, k.box, a.Accounts)
		a.purgeEvery("messages to test clients", time.Hour, a.Inbox.Purge)
		sender = a.Inbox.Mail(sender, cfg.MailLeaves())
	}
	a.Mail = mail.New(a.Queue, k.box, sender)
	a.Applications = application.New()
	a.Catalog = catalog.New()
	a.Wallet = wallet.New()
	if err = a.selfService(k); err != nil {
		return err
	}
	if a.Staff, err = staff.New(staff.Deps{DB: a.DB, Box: k.box, Queue: a.Queue, Mail: a.Mail, BaseURL: cfg.BaseURL}); err != nil {
		return err
	}
	a.purgeEvery("links and sessions of the people who work here", time.Hour, a.Staff.Purge)
	a.Access = access.New(a.DB)
	a.purgeEvery("the log of uses", 24*time.Hour, a.Access.Purge)
	a.Requests = requestlog.New(a.DB, a.Metrics)
	a.purgeEvery("the log of requests", time.Hour, a.Requests.Purge)
	a.Metrics.MustRegister(partitions{a.DB}, late{a.DB})
	a.Idempotency = idempotency.New(a.DB, k.box)
	a.purgeEvery("full rate buckets", time.Hour, func(ctx context.Context) (int, error) { return ratelimit.Purge(ctx, a.DB.Read()) })
	a.purgeEvery("idempotency keys", time.Hour, a.Idempotency.Purge)
	a.Payments = a.payments(k.payment)
	a.Metrics.MustRegister(a.Payments.Collector())
	a.Queue.Every("refunds of top-ups", payment.RefundEvery, func(ctx context.Context) error {
		_, err := a.Payments.SendRefunds(ctx)
		return err
	})
	if a.Webhooks, err = a.webhooks(k.box); err != nil {
		return err
	}
	a.purgeEvery("webhook events", time.Hour, a.Webhooks.Purge)
	a.Conformance = conformance.New(a.DB, a.Webhooks, a.Applications, a.Requests)
	a.limiter = ratelimit.New()
	if cfg.ValkeyURL != "" {
		if a.limiter, err = ratelimit.NewShared(cfg.ValkeyURL, k.buckets, a.Logger, a.telemetry.Tracer()); err != nil {
			return err
		}
	}
	a.Metrics.MustRegister(a.limiter.Collectors()...)
	a.Portal, err = portal.New(portal.Deps{DB: a.DB, Box: k.box, Queue: a.Queue, Mail: a.Mail, Staff: a.Staff, Applications: a.Applications, Webhooks: a.Webhooks, Limiter: a.limiter,
		BaseURL: cfg.BaseURL, Sandbox: cfg.Sandbox(), ApplicationPerMinute: cfg.RateApplication, ClientPerMinute: cfg.RateClient})
	if err != nil {
		return err
	}
	a.purgeEvery("links to the portal", time.Hour, a.Portal.Purge)
	a.OAuth, err = oauth.New(ctx, a.DB, k.box, a.Accounts, a.Applications, oauth.Config{Issuer: cfg.BaseURL, Audience: cfg.BaseURL + "/api/v1", Logger: a.Logger, Webhooks: a.Webhooks})
	if err != nil {
		return err
	}
	a.purgeEvery("ended grants", oauth.PurgeEvery, a.OAuth.Purge)
	a.purgeEvery("token answers", time.Minute, a.OAuth.PurgeAnswers)
	a.Lawyers = lawyer.New(k.box)
	if !cfg.Sandbox() {
		a.Lawyers.OnlyChecked()
	}
	a.Matching = matching.New(a.Lawyers)
	people := &people{db: a.DB, lawyers: a.Lawyers, staff: a.Staff}
	provider, err := a.telephony()
	if err != nil {
		return err
	}
	a.Telephony = telephony.New(a.DB, provider, people, a.Logger)
	a.Telephony.Tracer = a.telemetry.Tracer()
	if a.queries, err = a.DB.ByIndex(ctx, queueConns); err != nil {
		return err
	}
	a.Telephony.Queue = a.queries
	if a.SimulatedCalls != nil {
		a.SimulatedCalls.Queue = a.queries
	}
	a.Notes = note.New(k.box, k.drop)
	a.purgeEvery("copies of notes", time.Hour, func(ctx context.Context) (int, error) { return a.Notes.DropCopies(ctx, a.DB.Read()) })
	a.purgeEvery("drafts of notes", 24*time.Hour, func(ctx context.Context) (int, error) { return a.Notes.PurgeDrafts(ctx, a.DB.Read()) })
	var stage consultation.Stage
	if cfg.Sandbox() {
		stage = sandbox.Stage{}
	}
	a.Consultations = consultation.New(consultation.Deps{
		DB: a.DB, Searches: a.queries, Box: k.box, Accounts: a.Accounts, Applications: a.Applications, Catalog: a.Catalog, Wallet: a.Wallet, Matching: a.Matching,
		Lawyers: a.Lawyers, Webhooks: a.Webhooks, Notes: a.Notes, Telephony: a.Telephony, Mail: a.Mail, SMS: a.SMS, Staff: a.Staff, Tracer: a.telemetry.Tracer(), Logger: a.Logger, Stage: stage,
	})
	a.purgeEvery("answers about waits", 10*time.Minute, a.Consultations.PurgeEstimates)
	a.purgeEvery("shifts of lawyers", 24*time.Hour, func(ctx context.Context) (int, error) { return a.Lawyers.PurgeShifts(ctx, a.DB.Read()) })
	a.Metrics.MustRegister(a.Consultations.Collector())
	a.Queue.Every("chain of the evidence", consultation.ChainEvery, a.Consultations.ChainEvidence)
	people.consultations = a.Consultations
	if a.Twilio != nil {
		a.Twilio.Deliver = a.Consultations.HandleCallEvent
	}
	a.Desk = desk.New(desk.Deps{DB: a.DB, Staff: a.Staff, Lawyers: a.Lawyers, Consultations: a.Consultations, Notes: a.Notes, Logger: a.Logger})
	a.Metrics.MustRegister(a.Desk.Collector())
	a.Status = &status.Service{DB: a.DB, CanCall: a.Consultations.Served, CanPay: a.Payments.Available}
	a.Queue.Every("minute of the state", status.Every, a.Status.Count)
	a.Queue.Every("days of the state", status.SumEvery, a.Status.Sum)
	a.Books = books.New(a.DB, a.Logger)
	a.Metrics.MustRegister(a.Books.Collector())
	a.Queue.Every("examination of the books", books.CheckEvery, a.Books.ExamineIfDue)
	a.sayWhatIsMissing()
	a.Operator = &operator.Service{DB: a.DB, Sandbox: cfg.Sandbox(), Accounts: a.Accounts, Applications: a.Applications, OAuth: a.OAuth, Wallet: a.Wallet,
		Payments: a.Payments, Webhooks: a.Webhooks, Lawyers: a.Lawyers, Consultations: a.Consultations,
		Matching: a.Matching, Telephony: a.Telephony, Staff: a.Staff, Portal: a.Portal, Mail: a.Mail}
	if err := a.sayWhatIsTooMuch(ctx); err != nil {
		return err
	}
	a.Privacy, err = privacy.New(privacy.Deps{Accounts: a.Accounts, SelfService: a.SelfService, Access: a.Access, OAuth: a.OAuth, Wallet: a.Wallet, Payments: a.Payments,
		Consultations: a.Consultations, Idempotency: a.Idempotency, Mail: a.Mail})
	if err != nil {
		return err
	}
	if cfg.Sandbox() {
		a.TestClients = sandbox.NewClients(sandbox.ClientsDeps{DB: a.DB, Accounts: a.Accounts, Applications: a.Applications, Wallet: a.Wallet, OAuth: a.OAuth})
		a.Crews = sandbox.NewCrews(a.DB, a.Consultations, a.Lawyers, a.Catalog)
		a.SimulatedLawyers = sandbox.NewLawyers(a.DB, a.Consultations, a.Lawyers, a.Logger)
		a.SimulatedLawyers.Queue = a.queries
		a.SimulatedClock = sandbox.NewClock(a.DB, a.Consultations, a.Logger)
		a.SimulatedPayments = sandbox.NewPayments(a.DB, a.Payments, a.noticeURL(), k.payment, a.Logger)
	}
	return nil
}

// sayWhatIsMissing names what this deployment refuses because a provider is not there.
func (a *App) sayWhatIsMissing() {
	if !a.Telephony.Available() {
		a.Logger.Warn("no telephony provider is set: consultations are refused with 503, and coverage says that nobody is available", "set", "PARTNERD_TELEPHONY")
	}
	if !a.Payments.Available() {
		a.Logger.Warn("no payment provider is set: top-ups are refused with 503", "set", "PARTNERD_STRIPE_SECRET_KEY")
	}
	if !a.Config.Sandbox() && (a.Config.Contact == "" || a.Config.LegalDir == "") {
		a.Logger.Warn("clients and partners find no contact, or no legal notice, terms and privacy page, which the law wants of a service for consumers", "set", "PARTNERD_CONTACT, PARTNERD_LEGAL_DIR")
	}
}

// sayWhatIsTooMuch warns a live deployment whose program could change the books.
func (a *App) sayWhatIsTooMuch(ctx context.Context) error {
	if a.Config.Sandbox() {
		return nil
	}
	owns, err := a.DB.OwnsTables(ctx)
	if owns {
		a.Logger.Warn("the role of PARTNERD_DATABASE_URL owns the tables or is a superuser: it can change the ledger and the audit, and read sealed notes. "+
			"Give the program a role of its own", "set", "PARTNERD_DATABASE_OWNER_URL")
	}
	return err
}

// purgeEvery lets a purge run at an interval, and logs what it deleted.
func (a *App) purgeEvery(what string, interval time.Duration, purge func(context.Context) (int, error)) {
	a.Queue.Every("purge "+what, interval, func(ctx context.Context) error {
		n, err := purge(ctx)
		if n > 0 {
			a.Logger.Info("purged", "what", what, "count", n)
		}
		return err
	})
}

// MailLeaves tells whether the mail server is another machine's, and so may send into the world; one on this machine catches what a sandbox
// sends, or knows itself what it cannot deliver.
func (c *Config) MailLeaves() bool { return c.MailServer != "" && !deployment.IsLocal(c.MailServer) }

// sender is how mail leaves.
func (a *App) sender() (mail.Sender, error) {
	if a.Config.MailServer != "" {
		return mail.NewSMTP(a.Config.MailServer, a.Config.MailFrom, a.telemetry.Tracer())
	}
	if a.Config.Sandbox() {
		return mail.Folder{Dir: a.Config.path("mail"), Logger: a.Logger}, nil
	}
	a.Logger.Warn("no mail server is set: mail waits in the queue", "set", "PARTNERD_MAIL_SERVER")
	return noMail{}, nil
}

// Quotas tells who counts requests at this moment, for the log.
func (a *App) Quotas() string {
	switch {
	case a.Config.ValkeyURL == "":
		return "each process for itself"
	case a.limiter.Shared():
		return "all processes together"
	}
	return "this process for itself until its server answers"
}

// Close ends the connections, and the private cluster when nobody else uses it.
func (a *App) Close() {
	a.endTelemetry()
	for _, db := range []*postgres.DB{a.queries, a.DB} {
		if db != nil {
			db.Close()
		}
	}
	if a.cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := a.cluster.Stop(ctx); err != nil {
		a.Logger.Warn("the private cluster was not stopped", "error", err)
	}
}

// noticeURL is where the simulated payment provider reports: this very machine.
func (a *App) noticeURL() string {
	host, port, _ := net.SplitHostPort(a.Config.Addr)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/payments/notices/" + payment.SandboxProvider
}

// Handler makes the HTTP side.
func (a *App) Handler() (http.Handler, error) {
	e, err := a.routes()
	if err != nil {
		return nil, err
	}
	return edge.Handler(e, "/api/v1/", "/api/platform/v1/", "/api/desk/v1/"), nil
}

func (a *App) routes() (*echo.Echo, error) {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = a.addressOf()
	d := web.Deps{
		SecurityContact: a.Config.SecurityContact,
		DB:              a.DB, Accounts: a.Accounts, Applications: a.Applications, OAuth: a.OAuth, Wallet: a.Wallet, Payments: a.Payments, Books: a.Books,
		SelfService: a.SelfService, Staff: a.Staff, Operator: a.Operator, Lawyers: a.Lawyers, Webhooks: a.Webhooks, Portal: a.Portal, Requests: a.Requests, Conformance: a.Conformance, Clock: a.SimulatedClock, Access: a.Access, Privacy: a.Privacy, Consultations: a.Consultations, Desk: a.Desk, Catalog: a.Catalog,
		Limiter: a.limiter, Logger: a.Logger, BaseURL: a.Config.BaseURL, Sandbox: a.Config.Sandbox(),
		Contract: openapi.Published(openapi.Partner, a.Config.BaseURL), Platform: openapi.Published(openapi.Platform, a.Config.BaseURL),
		Name: a.Config.ServiceName, Contact: a.Config.Contact,
	}
	if a.TestClients != nil {
		d.Playground = &web.Playground{Clients: a.TestClients, Inbox: a.Inbox, Crews: a.Crews}
	}
	logo, err := a.Config.logo()
	if err != nil {
		return nil, err
	}
	d.Logo = logo
	if a.Config.LegalDir != "" {
		legal, err := web.ReadLegal(os.DirFS(a.Config.LegalDir))
		if err != nil {
			return nil, err
		}
		d.Legal = legal
	}
	if base, err := url.Parse(a.Config.BaseURL); err == nil && a.Config.Sandbox() && a.Config.MailServer == "" && (base.Hostname() == "localhost" || base.Hostname() == "127.0.0.1") {
		d.MailFolder = a.Config.path("mail")
	}
	if a.SimulatedPayments != nil {
		d.SandboxPayments, d.Player = a.SimulatedPayments, openapi.Published(openapi.Sandbox, a.Config.BaseURL)
	}
	pages, err := web.New(d)
	if err != nil {
		return nil, err
	}
	api, err := httpapi.New(httpapi.Deps{
		DB: a.DB, Logger: a.Logger, Ending: a.ending.Load, Metrics: a.requests, Tracer: a.telemetry.Tracer(), Twilio: a.Twilio, Accounts: a.Accounts, Access: a.Access, Requests: a.Requests, Conformance: a.Conformance, OAuth: a.OAuth, Catalog: a.Catalog, Wallet: a.Wallet, Payments: a.Payments,
		Consultations: a.Consultations, Staff: a.Staff, Desk: a.Desk, Idempotency: a.Idempotency, Limiter: a.limiter, Applications: a.Applications, Portal: a.Portal, Webhooks: a.Webhooks,
		Quotas: httpapi.Quotas{ApplicationPerMinute: a.Config.RateApplication, ClientPerMinute: a.Config.RateClient,
			UnauthorizedPerMinute: a.Config.RateUnauthorized, TokenFailurePerMinute: a.Config.RateTokenFailures},
		BaseURL: a.Config.BaseURL, Contact: a.Config.Contact, CursorKey: a.cursor, Test: a.Config.Sandbox(), Clock: a.SimulatedClock, TestClients: a.TestClients, Crews: a.Crews, Inbox: a.Inbox, Authorize: pages.Authorize, ErrorPage: pages.Error,
		Status: a.Status, StatusPage: pages.StatusPage,
	})
	if err != nil {
		return nil, err
	}
	api.Register(e)
	pages.Register(e)
	return e, nil
}

// addressOf reads the caller's address: from the connection, or behind trusted proxies from X-Forwarded-For.
func (a *App) addressOf() echo.IPExtractor {
	proxies, err := a.Config.proxies()
	if err != nil || len(proxies) == 0 { // Config.Check has refused a fault
		return echo.ExtractIPDirect()
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range proxies {
		options = append(options, echo.TrustIPRange(&net.IPNet{IP: p.Masked().Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}

// people looks up who is called, at the moment of it.
type people struct {
	db            *postgres.DB
	lawyers       *lawyer.Service
	staff         *staff.Service
	consultations *consultation.Service // set once it exists: it needs telephony, which needs this
}

// ClientNumber implements telephony.People.
func (p *people) ClientNumber(ctx context.Context, consultationID string) (string, error) {
	return p.consultations.ClientNumber(ctx, consultationID)
}

// LawyerNumber implements telephony.People.
func (p *people) LawyerNumber(ctx context.Context, lawyerID string) (string, error) {
	return p.lawyers.Phone(ctx, p.db.Read(), lawyerID)
}

// LawyerLanguage implements telephony.People. A simulated lawyer is nobody who signs in.
func (p *people) LawyerLanguage(ctx context.Context, lawyerID string) (string, error) {
	who, err := p.staff.OfLawyer(ctx, p.db.Read(), lawyerID)
	if errors.Is(err, staff.ErrNotFound) {
		return "", nil
	}
	return strings.ToUpper(who.Language), err // the catalog's code is that of the pages, in capitals
}

// noMail keeps mail in the queue until a server is set.
type noMail struct{}

// Send implements mail.Sender.
func (noMail) Send(context.Context, mail.Message) error {
	return errors.New("PARTNERD_MAIL_SERVER is not set")
}

// payments makes the service with the provider that is configured.
func (a *App) payments(noticeSecret string) *payment.Service {
	c := payment.Config{BaseURL: a.Config.BaseURL, Sandbox: a.Config.Sandbox(), NoticeSecret: noticeSecret,
		ToppedUp: func(ctx context.Context, tx postgres.Tx, clientID string) error {
			return a.OAuth.ToppedUp(ctx, tx, clientID)
		}} // made later
	if a.Config.StripeSecretKey != "" {
		c.Provider = payment.NewStripe(payment.StripeConfig{SecretKey: a.Config.StripeSecretKey, WebhookSecret: a.Config.StripeWebhookSecret, Tracer: a.telemetry.Tracer()})
	}
	return payment.New(a.DB, a.Logger, a.Wallet, c)
}
