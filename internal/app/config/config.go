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

// Config is everything that can be set, from flags or the environment. The defaults work on a laptop.
type Config struct {
	Env         string        `env:"PARTNERD_ENV" enum:",sandbox,live" default:"" help:"sandbox (simulated lawyers, calls and payments) or live. Default: sandbox; with PARTNERD_DATABASE_URL, none."`
	Addr        string        `env:"PARTNERD_ADDR" default:"127.0.0.1:8080" help:"Address to listen on."`
	DrainDelay  time.Duration `env:"PARTNERD_DRAIN_DELAY" default:"0s" help:"How long a process that is told to end goes on serving while /readyz says 503, so that a balancer stops sending to it first. At most 5m."`
	BaseURL     string        `env:"PARTNERD_BASE_URL" help:"Public address, without a path. Default: the one that the database knows; in a sandbox on this machine, http://localhost with the port of the listen address."`
	DataDir     string        `env:"PARTNERD_DATA_DIR" default:".data" type:"path" help:"Folder of keys, demo credentials and the private database cluster."`
	DatabaseURL string        `env:"PARTNERD_DATABASE_URL" help:"Postgres to use. Empty: a private cluster in the data folder."`

	DatabasePoolerURL string `env:"PARTNERD_DATABASE_POOLER_URL" help:"The same database and role through a pooler in transaction mode (PgBouncer): all statements and transactions go there, and a few connections to PARTNERD_DATABASE_URL for what needs a session. Empty: everything goes to PARTNERD_DATABASE_URL."`

	DatabaseOwnerURL string `env:"PARTNERD_DATABASE_OWNER_URL" help:"The same database, as the role that owns the tables: used at the start only, to migrate and to grant the role of PARTNERD_DATABASE_URL what it needs. Empty: one role does both."`

	DatabaseConns int `env:"PARTNERD_DATABASE_CONNS" default:"16" help:"Connections to the database."`

	MasterKey     string `env:"PARTNERD_MASTER_KEY" help:"Key that encrypts data at rest. Empty: made in the data folder (sandbox or private cluster only)."`
	NotePublicKey string `env:"PARTNERD_NOTE_PUBLIC_KEY" help:"Public key that notes are encrypted with. Required in live; a sandbox makes a pair in the data folder."`

	RateApplication   int      `env:"PARTNERD_RATE_APPLICATION" default:"3000" help:"Requests a minute of an application, all its clients together."`
	RateClient        int      `env:"PARTNERD_RATE_CLIENT" default:"600" help:"Requests a minute of one client with one application."`
	RateUnauthorized  int      `env:"PARTNERD_RATE_UNAUTHORIZED" default:"600" help:"Requests a minute with refused tokens, and visits of the authorize page, by address."`
	RateTokenFailures int      `env:"PARTNERD_RATE_TOKEN_FAILURES" default:"60" help:"Refused application credentials a minute, by address."`
	ValkeyURL         string   `env:"PARTNERD_VALKEY_URL" help:"Valkey or Redis server where all processes count requests together, like valkeys://user:password@host:6379. Empty: each process counts for itself."`
	TrustedProxies    []string `env:"PARTNERD_TRUSTED_PROXIES" help:"Networks (CIDR) of proxies whose X-Forwarded-For is believed, or none. Required to serve in live at an https base URL."`

	WebhookLoopback  *bool          `env:"PARTNERD_WEBHOOK_LOOPBACK" negatable:"" help:"Let webhooks go to this machine over http. Sandbox only. Default: when the base URL is of this machine."`
	WebhookProxy     string         `env:"PARTNERD_WEBHOOK_PROXY" help:"HTTP proxy that webhooks go through, like http://user:password@host:3128. Empty: none; proxies of the environment are never used."`
	WebhookRetention *time.Duration `env:"PARTNERD_WEBHOOK_RETENTION" default:"720h" help:"How long delivered events can be listed and sent again. From 72h to 87600h."`
	MetricsAddr      string         `env:"PARTNERD_METRICS_ADDR" help:"Address to serve Prometheus metrics on, at /metrics. Empty: not served."`
	MetricsToken     string         `env:"PARTNERD_METRICS_TOKEN" help:"Bearer token that readers of the metrics show; the totals of the wallets are among them. Required unless the address is of this machine."`

	OTLPEndpoint        string `name:"otlp-endpoint" env:"OTEL_EXPORTER_OTLP_ENDPOINT" help:"Collector that traces and metrics are sent to by OTLP over HTTP, like http://127.0.0.1:4318. Empty: they are not, unless the next two say where."`
	OTLPTracesEndpoint  string `name:"otlp-traces-endpoint" env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" help:"Whole URL that traces are posted to. Empty: v1/traces of the collector."`
	OTLPMetricsEndpoint string `name:"otlp-metrics-endpoint" env:"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT" help:"Whole URL that metrics are posted to. Empty: v1/metrics of the collector."`
	OTLPHeaders         string `name:"otlp-headers" env:"OTEL_EXPORTER_OTLP_HEADERS" help:"Headers that the collector asks for, like authorization=Bearer%20token; a secret."`
	OTLPTracesHeaders   string `name:"otlp-traces-headers" env:"OTEL_EXPORTER_OTLP_TRACES_HEADERS" help:"The same for traces alone."`
	OTLPMetricsHeaders  string `name:"otlp-metrics-headers" env:"OTEL_EXPORTER_OTLP_METRICS_HEADERS" help:"The same for metrics alone."`
	OTLPProtocol        string `name:"otlp-protocol" env:"OTEL_EXPORTER_OTLP_PROTOCOL" help:"http/protobuf, the only one."`
	TracesSampler       string `name:"otel-traces-sampler" env:"OTEL_TRACES_SAMPLER" help:"Which traces are recorded: always_on, always_off, traceidratio, or parentbased_always_on, parentbased_always_off, parentbased_traceidratio, which follow what caused a step. Empty: parentbased_always_on."`
	TracesSamplerArg    string `name:"otel-traces-sampler-arg" env:"OTEL_TRACES_SAMPLER_ARG" help:"The share of traces that a ratio records, from 0 to 1. Empty: 1."`
	OTELDisabled        bool   `name:"otel-sdk-disabled" env:"OTEL_SDK_DISABLED" help:"Send no traces and no metrics, whatever the endpoints."`

	MailServer string `env:"PARTNERD_MAIL_SERVER" help:"Mail server, like smtp://user:password@host:587. Empty: a sandbox keeps mail in the data folder."`
	MailFrom   string `env:"PARTNERD_MAIL_FROM" default:"no-reply@localhost" help:"Sender of mail."`

	StripeSecretKey     string `env:"PARTNERD_STRIPE_SECRET_KEY" help:"Secret key at Stripe, whose Checkout takes the money then; a test key in a sandbox. Empty: the sandbox simulates payments, live takes none."`
	StripeWebhookSecret string `env:"PARTNERD_STRIPE_WEBHOOK_SECRET" help:"Signing secret of the webhook endpoint at Stripe that posts to /payments/notices/stripe."`

	SMSServer string `env:"PARTNERD_SMS_SERVER" help:"Provider of text messages with Twilio's interface, like https://account:token@api.twilio.com. Empty: a sandbox keeps text messages in the data folder."`
	SMSFrom   string `env:"PARTNERD_SMS_FROM" help:"Sender of text messages: a number, a name, or the identifier of a messaging service."`

	Telephony        string `env:"PARTNERD_TELEPHONY" enum:",twilio" default:"" help:"Provider of phone calls in live: twilio. Empty: live makes no calls and takes no consultations."`
	TwilioAccountSID string `name:"twilio-account-sid" env:"PARTNERD_TWILIO_ACCOUNT_SID" help:"Account at Twilio."`
	TwilioAuthToken  string `env:"PARTNERD_TWILIO_AUTH_TOKEN" help:"Auth token of the account, in its region. It proves that notices are Twilio's."`
	TwilioAPIKey     string `name:"twilio-api-key" env:"PARTNERD_TWILIO_API_KEY" help:"API key that commands are given with. Empty: they are given with the auth token."`
	TwilioAPISecret  string `name:"twilio-api-secret" env:"PARTNERD_TWILIO_API_SECRET" help:"Secret of the API key."`
	TwilioCallerID   string `name:"twilio-caller-id" env:"PARTNERD_TWILIO_CALLER_ID" help:"Number that people see when they are called, like +33123456789. It must be the account's."`
	TwilioRegion     string `env:"PARTNERD_TWILIO_REGION" help:"Where calls are kept and mixed, as edge and region, like dublin.ie1. Empty: the United States."`
	TwilioURL        string `name:"twilio-url" env:"PARTNERD_TWILIO_URL" help:"Address of another provider with Twilio's interface for calls, like https://host; http on this machine only. Empty: Twilio."`

	PhoneCountries []string `env:"PARTNERD_PHONE_COUNTRIES" help:"Countries (ISO 3166 codes) whose phone numbers clients may verify. Default: the European Economic Area."`
	PhoneCodes     *int     `env:"PARTNERD_PHONE_CODES" default:"5000" help:"Codes texted to phones a day, all clients together, from 1 to 10000000; a bound on what strangers can make text messages cost."`

	ServiceName string `env:"PARTNERD_SERVICE_NAME" default:"partnerd" help:"What the service is called on every page, in emails, text messages and phone calls."`
	LogoFile    string `name:"service-logo" env:"PARTNERD_SERVICE_LOGO" type:"path" help:"Picture beside that name, a PNG or SVG of at most 64 KiB. Empty: none."`
	Contact     string `name:"service-contact" env:"PARTNERD_CONTACT" help:"Whom partners and clients write to, like mailto:help@partners.example or https://…; on every page and in the contracts. Empty: nobody is named."`
	LegalDir    string `env:"PARTNERD_LEGAL_DIR" type:"path" help:"Folder of the operator's legal pages: notice, terms and privacy, each as <page>.en.md and <page>.fr.md. Empty: there are none."`

	SecurityContact string `env:"PARTNERD_SECURITY_CONTACT" help:"Where to report a weakness, like mailto:security@partners.example; told by /.well-known/security.txt. Empty: there is no such page."`

	LogLevel  slog.Level `env:"PARTNERD_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
	LogFormat string     `env:"PARTNERD_LOG_FORMAT" enum:"text,json" default:"text" help:"text or json."`

	Unread []Unread `kong:"-"` // what the environment sets beside the settings
	// the program answers at the base URL, so of a sandbox on this machine it says which
	Serving bool            `kong:"-"`
	Tracer  postgres.Tracer `kong:"-"` // sees every statement; for tests and measurements
	Clock   clock.Clock     `kong:"-"` // nil means the database's; for tests and measurements

	// the clock of a machine that runs elsewhere; nil means this one's; for tests and measurements
	Machine func() time.Time `kong:"-"`
}

// Unread is a variable that is named like a setting, and is none of this program's: misspelt, or of another version.
type Unread struct {
	Name  string
	Meant string // the setting whose name is nearest; empty when none is near
}

// Sandbox tells whether lawyers, calls and payments are simulated.
func (c *Config) Sandbox() bool { return c.Env != deployment.Live }

// MailLeaves tells whether the mail server is another machine's, and so may send into the world; one on this machine
// catches what a sandbox sends, or knows itself what it cannot deliver.
func (c *Config) MailLeaves() bool { return c.MailServer != "" && !deployment.IsLocal(c.MailServer) }

// MailKept is what the log and the doctor say where [Config.KeepsMailFromPeople].
const MailKept = "no mail server is set, so no email leaves this sandbox: " +
	"people elsewhere cannot confirm an account or reset a password"

// KeepsMailFromPeople tells whether a sandbox is used from elsewhere while its emails stay in its data folder.
func (c *Config) KeepsMailFromPeople() bool {
	return c.Sandbox() && c.MailServer == "" && c.BaseURL != "" && !deployment.IsLocal(c.BaseURL)
}

// Proxies are the networks of trusted proxies.
func (c *Config) Proxies() ([]netip.Prefix, error) {
	if slices.Equal(c.TrustedProxies, []string{noProxies}) {
		return nil, nil
	}
	var all []netip.Prefix
	for _, p := range c.TrustedProxies {
		prefix, err := netip.ParsePrefix(p)
		if err != nil {
			return nil, fmt.Errorf("%q is not a network like 10.0.0.0/8, or 10.0.0.1/32 for one address", p)
		}
		all = append(all, prefix)
	}
	return all, nil
}

// noProxies says that there is none.
const noProxies = "none"

// Loopback tells whether webhooks may go to this machine, and whether what it answers is hidden: where the program
// itself is not on the machine of those who use it, its neighbours are not theirs.
func (c *Config) Loopback() (allow, hide bool) {
	local := deployment.IsLocal(c.BaseURL)
	allow = local
	if c.WebhookLoopback != nil {
		allow = *c.WebhookLoopback
	}
	return allow && c.Sandbox(), !local
}

// Logo reads the operator's picture; none when there is no file.
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

// Path is where a file or folder of the data folder lies; its name has slashes.
func (c *Config) Path(name string) string { return filepath.Join(c.DataDir, filepath.FromSlash(name)) }
