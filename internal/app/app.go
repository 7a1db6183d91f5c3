// Package app wires the program: configuration, services, server and workers. It is the only place where they all meet.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/app/config"
	"partnerd/internal/app/doctor"
	"partnerd/internal/base/seal"
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
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/access"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/infra/requestlog"
	"partnerd/internal/infra/reseal"
	"partnerd/internal/infra/sms"
	"partnerd/internal/server/httpapi"
)

const (
	queueConns = 4 // two searches after a commit and two steps of a sweep; call commands run between them
)

// App is the program: every service, on one database.
type App struct {
	Config   config.Config
	Logger   *slog.Logger
	DB       *postgres.DB
	queries  *postgres.DB // for searches and sweeps
	database config.Database

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
	Calls         telephony.Provider // nil in a sandbox, and without a provider
	Consultations *consultation.Service
	Books         *books.Service
	Status        *status.Service
	Operator      *operator.Service
	Desk          *desk.Service

	Inbox             *sandbox.Inbox // nil in a live deployment, like the next six
	TestClients       *sandbox.Clients
	Crews             *sandbox.Crews
	SimulatedPayments *sandbox.Payments
	SimulatedLawyers  *sandbox.Lawyers
	SimulatedClock    *sandbox.Clock
	SimulatedCalls    *sandbox.Calls

	telemetry *telemetry.Telemetry // nil if nothing is exported
	limiter   *ratelimit.Limiter
	witness   *restore.Witness
	ending    atomic.Bool // this process was told to stop

	certificate doctor.Certificate

	cursor   []byte // signs page cursors
	box      *seal.Box
	requests *httpapi.Metrics
}

// Open connects to the database and starts the private cluster if none is configured. It ensures that the database
// belongs to this deployment, migrates it to the newest schema and creates the services. Nothing runs in the background
// before [App.Run].
func Open(ctx context.Context, cfg config.Config, log *slog.Logger) (*App, error) {
	return open(ctx, cfg, log, nil)
}

// open is [Open]. If move is set, the configured base URL becomes that of the deployment.
func open(ctx context.Context, cfg config.Config, log *slog.Logger, move *operator.Act) (*App, error) {
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
	var err error
	if a.database, err = a.Config.OpenDatabase(ctx, a.Logger); err != nil {
		return err
	}
	if err := a.observe(ctx); err != nil {
		return err
	}
	claim := a.Config.Claim(move != nil)
	k, err := a.prepare(ctx, claim)
	if err != nil {
		return err
	}
	a.DB, err = postgres.Open(ctx, a.database.Program, postgres.Options{MaxConns: a.Config.DatabaseConns,
		Pooler: a.Config.DatabasePoolerURL, Test: a.Config.Sandbox(),
		Tracer: a.Config.Tracer, Spans: a.telemetry.Tracer(), Clock: a.Config.Clock, Machine: a.Config.Machine,
		Log: a.Logger})
	if err != nil {
		return err
	}
	if err := a.Config.CheckSame(ctx, "PARTNERD_DATABASE_POOLER_URL", a.Config.DatabasePoolerURL); err != nil {
		return err
	}
	if err := a.record(ctx, claim, move); err != nil {
		return err
	}
	if err := reseal.Check(ctx, a.DB.Read(), k.Box, SealedColumns()); err != nil {
		return err
	}
	if err := k.Keep(ctx, a.DB.Read()); errors.Is(err, seal.ErrOpen) {
		return a.Config.MasterKeyFault(fmt.Errorf("it is not the key of this database: %w", err))
	} else if err != nil {
		return err
	}
	a.box, a.cursor = k.Box, k.Cursor
	return a.wire(ctx, k)
}

// prepare does what precedes the program's own connections, as the owner of the tables. It ensures that the database
// belongs to this deployment, then updates the schema and the program's privileges. It sets the base URL.
func (a *App) prepare(ctx context.Context, claim deployment.Claim) (k config.Keys, err error) {
	if a.Config.BaseURL, err = a.database.BaseURL(ctx, claim); err != nil {
		return k, err
	}
	if a.Config.Serving {
		if err := a.Config.CheckServing(); err != nil {
			return k, err
		}
	}
	if k, err = a.Config.Keys(); err != nil {
		return k, err
	}
	found, err := postgres.Migrations{URL: a.database.Owner, Log: a.Logger}.Up(ctx)
	if postgres.IsForbidden(err) {
		err = fmt.Errorf("%w: the role of PARTNERD_DATABASE_URL may not migrate the schema; run partnerd "+
			"migrations up with PARTNERD_DATABASE_OWNER_URL", err)
	}
	if err != nil {
		return k, err
	}
	if found.Newer() { // its grants are the newer program's responsibility
		a.Logger.Warn("a newer version has migrated the database; this version keeps running", "schema", found.Version,
			"known", found.Known)
		return k, nil
	}
	return k, postgres.Grant(ctx, a.database.Owner, a.database.Program)
}

// sayWhatIsMissing logs what this deployment refuses because a provider is missing.
func (a *App) sayWhatIsMissing() {
	if !a.Telephony.Available() {
		a.Logger.Warn("no telephony provider is set: consultations are refused with 503, and coverage reports that "+
			"no lawyer is available", "set", "PARTNERD_TELEPHONY")
	}
	if found, unset, _ := a.Config.StandIn(); found != "" {
		a.Logger.Warn(found, "unset", unset)
	}
	if !a.Payments.Available() {
		a.Logger.Warn("no payment provider is set: top-ups are refused with 503", "set", "PARTNERD_STRIPE_SECRET_KEY")
	}
	if !a.Config.Sandbox() && (a.Config.Contact == "" || a.Config.LegalDir == "") {
		a.Logger.Warn("the contact, or the legal notice, terms and privacy pages are missing, which the "+
			"law requires of a service for consumers", "set", "PARTNERD_CONTACT, PARTNERD_LEGAL_DIR")
	}
}

// sayWhatIsTooMuch warns if the program of a live deployment could change the ledger.
func (a *App) sayWhatIsTooMuch(ctx context.Context) error {
	if a.Config.Sandbox() {
		return nil
	}
	owns, err := a.DB.OwnsTables(ctx)
	if owns {
		a.Logger.Warn("the role of PARTNERD_DATABASE_URL owns the tables or is a superuser: it can change the ledger "+
			"and the audit log, and read encrypted notes. Give partnerd its own role",
			"set", "PARTNERD_DATABASE_OWNER_URL")
	}
	return err
}

// Quotas describes for the log where requests are currently counted.
func (a *App) Quotas() string {
	switch {
	case a.Config.ValkeyURL == "":
		return "by each process on its own"
	case a.limiter.Shared():
		return "by all processes together"
	}
	return "by this process on its own until the shared server responds"
}

// Close closes the connections, and stops the private cluster unless another process uses it.
func (a *App) Close() {
	a.endTelemetry()
	for _, db := range []*postgres.DB{a.queries, a.DB} {
		if db != nil {
			db.Close()
		}
	}
	a.database.Close(a.Logger)
}
