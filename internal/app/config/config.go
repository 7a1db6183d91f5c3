package config

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/shell"
)

// Config contains every setting, from flags or the environment. The defaults suit a laptop.
type Config struct {
	Env         string        `env:"PARTNERD_ENV" enum:",sandbox,live" default:"" help:"sandbox (simulated lawyers, calls and payments) or live. Required with PARTNERD_DATABASE_URL. Default: sandbox."`
	Addr        string        `env:"PARTNERD_ADDR" default:"127.0.0.1:8080" help:"Listen address."`
	DrainDelay  time.Duration `env:"PARTNERD_DRAIN_DELAY" default:"0s" help:"Keep serving this long after SIGTERM while /readyz returns 503 (max 5m)."`
	BaseURL     string        `env:"PARTNERD_BASE_URL" help:"Public URL, without a path. Default: the one stored in the database; in a local sandbox, http://localhost with the port of --addr."`
	DataDir     string        `env:"PARTNERD_DATA_DIR" default:".data" type:"path" help:"Folder for keys, demo credentials and the private database."`
	DatabaseURL string        `env:"PARTNERD_DATABASE_URL" help:"URL of the Postgres database. Default: a private cluster in the data folder."`

	DatabasePoolerURL string `env:"PARTNERD_DATABASE_POOLER_URL" help:"Same database and role through PgBouncer in transaction mode. A few connections still use PARTNERD_DATABASE_URL. Default: no pooler."`

	DatabaseOwnerURL string `env:"PARTNERD_DATABASE_OWNER_URL" help:"Same database, but connecting as the role that owns the tables. Used only at startup, to migrate and to grant privileges. Default: one role for both."`

	DatabaseConns int `env:"PARTNERD_DATABASE_CONNS" default:"16" help:"Size of the database connection pool of each process."`

	MasterKey     string `env:"PARTNERD_MASTER_KEY" help:"Key that encrypts data at rest. Default: generated in the data folder (sandbox or private cluster only)."`
	NotePublicKey string `env:"PARTNERD_NOTE_PUBLIC_KEY" help:"Public key that encrypts notes. Required in live mode. Default: a sandbox generates a key pair in the data folder."`

	RateApplication   int      `env:"PARTNERD_RATE_APPLICATION" default:"3000" help:"Requests per minute for one application, all its clients together."`
	RateClient        int      `env:"PARTNERD_RATE_CLIENT" default:"600" help:"Requests per minute for one client with one application."`
	RateUnauthorized  int      `env:"PARTNERD_RATE_UNAUTHORIZED" default:"600" help:"Rejected tokens, and separately visits to the authorize page, per minute and IP address."`
	RateTokenFailures int      `env:"PARTNERD_RATE_TOKEN_FAILURES" default:"60" help:"Rejected application credentials per minute and IP address."`
	ValkeyURL         string   `env:"PARTNERD_VALKEY_URL" help:"Valkey or Redis server that counts requests for all processes, like valkeys://user:password@host:6379. Default: each process counts on its own."`
	TrustedProxies    []string `env:"PARTNERD_TRUSTED_PROXIES" help:"Networks (CIDR) of proxies whose X-Forwarded-For header is trusted, or \"none\". Required in live mode if the base URL is https."`

	WebhookLoopback  *bool          `env:"PARTNERD_WEBHOOK_LOOPBACK" negatable:"" help:"Allow webhooks to this machine over HTTP (sandbox only). Default: true if the base URL is local."`
	WebhookProxy     string         `env:"PARTNERD_WEBHOOK_PROXY" help:"HTTP proxy for webhooks, like http://user:password@host:3128. Standard proxy variables are ignored. Default: none."`
	WebhookRetention *time.Duration `env:"PARTNERD_WEBHOOK_RETENTION" default:"720h" help:"How long delivered events can be listed and redelivered (72h to 87600h)."`
	MetricsAddr      string         `env:"PARTNERD_METRICS_ADDR" help:"Listen address for Prometheus metrics at /metrics. Default: not served."`
	MetricsToken     string         `env:"PARTNERD_METRICS_TOKEN" help:"Bearer token for /metrics, which shows wallet totals. Required unless the address is local."`

	OTLPEndpoint        string `name:"otlp-endpoint" env:"OTEL_EXPORTER_OTLP_ENDPOINT" help:"OpenTelemetry collector for traces and metrics (OTLP over HTTP), like http://127.0.0.1:4318. Default: none."`
	OTLPTracesEndpoint  string `name:"otlp-traces-endpoint" env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" help:"Full URL for traces. Default: v1/traces at the collector."`
	OTLPMetricsEndpoint string `name:"otlp-metrics-endpoint" env:"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT" help:"Full URL for metrics. Default: v1/metrics at the collector."`
	OTLPHeaders         string `name:"otlp-headers" env:"OTEL_EXPORTER_OTLP_HEADERS" help:"Headers for the collector, like authorization=Bearer%20token (secret)."`
	OTLPTracesHeaders   string `name:"otlp-traces-headers" env:"OTEL_EXPORTER_OTLP_TRACES_HEADERS" help:"Headers for traces only (secret). Default: those of --otlp-headers."`
	OTLPMetricsHeaders  string `name:"otlp-metrics-headers" env:"OTEL_EXPORTER_OTLP_METRICS_HEADERS" help:"Headers for metrics only (secret). Default: those of --otlp-headers."`
	OTLPProtocol        string `name:"otlp-protocol" env:"OTEL_EXPORTER_OTLP_PROTOCOL" help:"OTLP protocol. Only http/protobuf is supported."`
	TracesSampler       string `name:"otel-traces-sampler" env:"OTEL_TRACES_SAMPLER" help:"Trace sampler: always_on, always_off or traceidratio, also with the prefix parentbased_. Default: parentbased_always_on."`
	TracesSamplerArg    string `name:"otel-traces-sampler-arg" env:"OTEL_TRACES_SAMPLER_ARG" help:"Share of traces a ratio sampler records, from 0 to 1. Default: 1."`
	OTELDisabled        bool   `name:"otel-sdk-disabled" env:"OTEL_SDK_DISABLED" help:"Send no traces or metrics, whatever the endpoints."`

	MailServer string `env:"PARTNERD_MAIL_SERVER" help:"Mail server, like smtp://user:password@host:587. Default: a sandbox keeps email in the data folder."`
	MailFrom   string `env:"PARTNERD_MAIL_FROM" default:"no-reply@localhost" help:"Sender address of emails."`

	StripeSecretKey     string `env:"PARTNERD_STRIPE_SECRET_KEY" help:"Stripe secret key for Checkout; a test key in a sandbox. Default: a sandbox simulates payments; a live deployment refuses top-ups."`
	StripeWebhookSecret string `env:"PARTNERD_STRIPE_WEBHOOK_SECRET" help:"Signing secret of the Stripe webhook endpoint that posts to /payments/notices/stripe."`

	SMSServer string `env:"PARTNERD_SMS_SERVER" help:"Text message provider with Twilio's API, like https://account:token@api.twilio.com. Default: a sandbox keeps text messages in the data folder."`
	SMSFrom   string `env:"PARTNERD_SMS_FROM" help:"Sender of text messages: a number, a name or the ID of a messaging service."`

	Telephony        string `env:"PARTNERD_TELEPHONY" enum:",twilio" default:"" help:"Phone call provider in live mode: twilio. Default: a live deployment makes no calls and refuses consultations."`
	TwilioAccountSID string `name:"twilio-account-sid" env:"PARTNERD_TWILIO_ACCOUNT_SID" help:"Twilio account SID."`
	TwilioAuthToken  string `env:"PARTNERD_TWILIO_AUTH_TOKEN" help:"Auth token of the account, in its region. Verifies Twilio's status callbacks."`
	TwilioAPIKey     string `name:"twilio-api-key" env:"PARTNERD_TWILIO_API_KEY" help:"API key for requests to Twilio. Default: the auth token is used instead."`
	TwilioAPISecret  string `name:"twilio-api-secret" env:"PARTNERD_TWILIO_API_SECRET" help:"Secret of the API key."`
	TwilioCallerID   string `name:"twilio-caller-id" env:"PARTNERD_TWILIO_CALLER_ID" help:"Caller ID shown on calls, like +33123456789. The number must belong to the account."`
	TwilioRegion     string `env:"PARTNERD_TWILIO_REGION" help:"Edge and region where calls are processed and stored, like dublin.ie1. Default: the United States."`
	TwilioURL        string `name:"twilio-url" env:"PARTNERD_TWILIO_URL" help:"Base URL of another provider with Twilio's API for calls, like https://host; http only on this machine. Default: Twilio."`

	PhoneCountries []string `env:"PARTNERD_PHONE_COUNTRIES" help:"Countries (ISO 3166 codes) whose phone numbers clients may verify. Default: the European Economic Area."`
	PhoneCodes     *int     `env:"PARTNERD_PHONE_CODES" default:"5000" help:"Verification codes texted per day for all clients together (1 to 10000000). Limits the cost of abuse."`

	ServiceName string `env:"PARTNERD_SERVICE_NAME" default:"partnerd" help:"Name of the service on pages, in emails, text messages and phone calls."`
	LogoFile    string `name:"service-logo" env:"PARTNERD_SERVICE_LOGO" type:"path" help:"Logo shown beside the service name: PNG or SVG, at most 64 KiB. Default: none."`
	Contact     string `name:"service-contact" env:"PARTNERD_CONTACT" help:"Contact for partners and clients, like mailto:help@partners.example or https://…; shown on every page and in the contracts. Default: none."`
	LegalDir    string `env:"PARTNERD_LEGAL_DIR" type:"path" help:"Folder of legal pages: notice, terms and privacy, each as <page>.en.md and <page>.fr.md. Default: none."`

	DownloadsDir string `env:"PARTNERD_DOWNLOADS_DIR" type:"path" help:"Folder of SDK packages and partnerctl for partners, with SHA256SUMS; make release writes bin/release/partners. Default: none."`

	SecurityContact string `env:"PARTNERD_SECURITY_CONTACT" help:"Contact for vulnerability reports in /.well-known/security.txt, like mailto:security@partners.example. Default: no such page."`

	LogLevel  slog.Level `env:"PARTNERD_LOG_LEVEL" default:"info" help:"Log level: debug, info, warn or error."`
	LogFormat string     `env:"PARTNERD_LOG_FORMAT" enum:"text,json" default:"text" help:"Log format: text or json."`

	Unread []Unread `kong:"-"` // environment variables that look like settings but are not
	// the program serves requests at the base URL, so in a local sandbox it determines that URL
	Serving bool            `kong:"-"`
	Tracer  postgres.Tracer `kong:"-"` // sees every statement; for tests and benchmarks
	Clock   clock.Clock     `kong:"-"` // nil means the database's clock; for tests and benchmarks

	// the clock of another machine; nil means this machine's; for tests and benchmarks
	Machine func() time.Time `kong:"-"`
}

// Unread is a variable named like a setting that this program does not have: it is misspelt, or belongs to another
// version.
type Unread struct {
	Name  string
	Meant string // setting with the most similar name; empty if none is similar
}

// Sandbox reports whether lawyers, calls and payments are simulated.
func (c *Config) Sandbox() bool { return c.Env != deployment.Live }

// MailLeaves reports whether the mail server is on another machine, and so may send email to the outside. A server on
// this machine catches a sandbox's email, or decides itself what it cannot deliver.
func (c *Config) MailLeaves() bool { return c.MailServer != "" && !deployment.IsLocal(c.MailServer) }

// MailKept is the message of the log and the doctor if [Config.KeepsMailFromPeople].
const MailKept = "no mail server is set, so this sandbox sends no email: " +
	"people cannot confirm an account or reset a password"

// KeepsMailFromPeople reports whether a sandbox is used from elsewhere while its emails stay in its data folder.
func (c *Config) KeepsMailFromPeople() bool {
	return c.Sandbox() && c.MailServer == "" && c.BaseURL != "" && !deployment.IsLocal(c.BaseURL)
}

// Proxies returns the networks of trusted proxies.
func (c *Config) Proxies() ([]netip.Prefix, error) {
	if slices.Equal(c.TrustedProxies, []string{noProxies}) {
		return nil, nil
	}
	var all []netip.Prefix
	for _, p := range c.TrustedProxies {
		prefix, err := netip.ParsePrefix(p)
		if err != nil {
			return nil, fmt.Errorf("%q must be a network like 10.0.0.0/8, or 10.0.0.1/32 for one address", p)
		}
		all = append(all, prefix)
	}
	return all, nil
}

// noProxies means that there is no proxy.
const noProxies = "none"

// Loopback returns whether webhooks may be sent to this machine, and whether the responses are hidden. They are hidden
// unless the base URL is local: otherwise partners could read responses of unrelated services on this machine.
func (c *Config) Loopback() (allow, hide bool) {
	local := deployment.IsLocal(c.BaseURL)
	allow = local
	if c.WebhookLoopback != nil {
		allow = *c.WebhookLoopback
	}
	return allow && c.Sandbox(), !local
}

// Logo reads the operator's logo. Without a file it returns an empty logo.
func (c *Config) Logo() (shell.Logo, error) {
	if c.LogoFile == "" {
		return shell.Logo{}, nil
	}
	f, err := os.Open(c.LogoFile)
	if err != nil {
		return shell.Logo{}, err
	}
	defer f.Close()
	return shell.ReadLogo(f)
}

// Path returns the path of a file or folder in the data folder. name is separated by slashes.
func (c *Config) Path(name string) string { return filepath.Join(c.DataDir, filepath.FromSlash(name)) }
