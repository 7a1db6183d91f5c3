package app

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/seal"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/infra/sms"
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

// Check reports everything that is wrong, all at once.
func (c *Config) Check() error {
	var errs []error
	for _, r := range c.refusals() {
		errs = append(errs, r)
	}
	return errors.Join(errs...)
}

// refusal is a setting that the program does not start with, and does not act on either.
type refusal struct {
	setting string // its name in the environment
	err     error
}

// Error implements error.
func (r refusal) Error() string { return r.setting + ": " + r.err.Error() }

// Unwrap gives the cause to [errors.Is].
func (r refusal) Unwrap() error { return r.err }

type refusals []refusal

// add notes what is wrong with a setting; nil is nothing.
func (r *refusals) add(setting string, err error) {
	if err != nil {
		*r = append(*r, refusal{setting, err})
	}
}

// want notes that a setting is wrong unless it is right.
func (r *refusals) want(right bool, setting, wrong string) {
	if !right {
		r.add(setting, errors.New(wrong))
	}
}

// within is the range of a setting that is a number or a duration. It holds for every value that was given; nil is one
// that was not, and has its default. Flags and environment give all; a [Config] that Go makes leaves out what it does
// not care about.
func within[T int | time.Duration](r *refusals, setting string, given *T, least, most T) {
	if given != nil && (*given < least || *given > most) {
		r.add(setting, fmt.Errorf("%v is not between %v and %v", *given, least, most))
	}
}

// given is a setting's value, or the zero value where none was given.
func given[T any](setting *T) (value T) {
	if setting != nil {
		value = *setting
	}
	return value
}

func (c *Config) refusals() (r refusals) {
	_, _, err := net.SplitHostPort(c.Addr)
	r.add("PARTNERD_ADDR", err)
	r.want(c.Env != "" || c.DatabaseURL == "", "PARTNERD_ENV", "with PARTNERD_DATABASE_URL, say sandbox or live")
	r.add("PARTNERD_BASE_URL", c.checkBaseURL())
	within(&r, "PARTNERD_RATE_APPLICATION", &c.RateApplication, 1, maxRate)
	within(&r, "PARTNERD_RATE_CLIENT", &c.RateClient, 1, maxRate)
	within(&r, "PARTNERD_RATE_UNAUTHORIZED", &c.RateUnauthorized, 1, maxRate)
	within(&r, "PARTNERD_RATE_TOKEN_FAILURES", &c.RateTokenFailures, 1, maxRate)
	within(&r, "PARTNERD_DATABASE_CONNS", &c.DatabaseConns, 1, maxConns)
	within(&r, "PARTNERD_DRAIN_DELAY", &c.DrainDelay, 0, maxDrain)
	within(&r, "PARTNERD_WEBHOOK_RETENTION", c.WebhookRetention, minRetention, maxRetention)
	within(&r, "PARTNERD_PHONE_CODES", c.PhoneCodes, 1, maxCodes)
	if _, _, err := net.SplitHostPort(c.MetricsAddr); c.MetricsAddr != "" {
		r.add("PARTNERD_METRICS_ADDR", err)
		r.want(err != nil || c.MetricsToken != "" || deployment.IsLocal("http://"+c.MetricsAddr),
			"PARTNERD_METRICS_TOKEN", "needed where others can connect: they read the totals of the wallets")
	}
	r.add("PARTNERD_SECURITY_CONTACT", checkContact(c.SecurityContact))
	r.add("PARTNERD_CONTACT", checkContact(c.Contact))
	_, err = c.logo()
	r.add("PARTNERD_SERVICE_LOGO", err)
	if c.LegalDir != "" {
		_, err := shell.ReadLegal(os.DirFS(c.LegalDir))
		r.add("PARTNERD_LEGAL_DIR", err)
	}
	if c.WebhookProxy != "" {
		_, err := webhook.ParseProxy(c.WebhookProxy)
		r.want(err == nil, "PARTNERD_WEBHOOK_PROXY", "is not like http://host:port")
	}
	if c.ValkeyURL != "" {
		r.add("PARTNERD_VALKEY_URL", c.checkValkey())
	}
	if c.MailServer != "" {
		_, err := mail.NewSMTP(c.MailServer, c.MailFrom, nil)
		r.add("PARTNERD_MAIL_SERVER", err)
	}
	if c.SMSServer != "" {
		_, err := sms.NewHTTP(c.SMSServer, c.SMSFrom, nil)
		r.add("PARTNERD_SMS_SERVER", err)
	}
	r.add("PARTNERD_PHONE_COUNTRIES", account.CheckCountries(c.PhoneCountries))
	c.checkTelemetry(&r)
	c.checkMoney(&r)
	c.checkTelephony(&r)
	_, err = c.proxies()
	r.add("PARTNERD_TRUSTED_PROXIES", err)
	c.checkDatabase(&r)
	return r
}

const (
	maxRate      = 1_000_000 // requests a minute
	maxConns     = 1_000_000
	maxDrain     = 5 * time.Minute
	minRetention = 72 * time.Hour // exceeds the schedule of retries
	maxRetention = 10 * 365 * 24 * time.Hour
	maxCodes     = 10_000_000 // a day
)

// checkDatabase reports what is wrong with the addresses of the database, and with the keys that live wants beside it.
func (c *Config) checkDatabase(r *refusals) {
	for _, u := range []struct{ setting, address string }{
		{"PARTNERD_DATABASE_URL", c.DatabaseURL}, {"PARTNERD_DATABASE_OWNER_URL", c.DatabaseOwnerURL},
		{"PARTNERD_DATABASE_POOLER_URL", c.DatabasePoolerURL},
	} {
		if !c.Sandbox() && u.address != "" {
			r.add(u.setting, postgres.CheckPrivate(u.address))
		}
	}
	r.want(c.DatabasePoolerURL == "" || c.DatabaseURL != "", "PARTNERD_DATABASE_POOLER_URL",
		"set PARTNERD_DATABASE_URL too; what needs a session goes there")
	r.want(c.DatabaseOwnerURL == "" || c.DatabaseURL != "", "PARTNERD_DATABASE_OWNER_URL",
		"set PARTNERD_DATABASE_URL too; the private cluster has roles of its own")
	given := c.Sandbox() || c.DatabaseURL == ""
	const required = "required in live with a database of your own; make it with partnerd key generate"
	r.want(given || c.MasterKey != "", "PARTNERD_MASTER_KEY", required)
	r.want(given || c.NotePublicKey != "", "PARTNERD_NOTE_PUBLIC_KEY", required)
}

// checkContact tells what is wrong with an address that people write to; none is right.
func checkContact(contact string) error {
	if u, err := url.Parse(contact); contact != "" && (err != nil || u.Scheme != "https" && u.Scheme != "mailto" ||
		strings.ContainsAny(contact, "\n\r'\"")) {
		return fmt.Errorf("%q is not like mailto:somebody@partners.example or https://…", contact)
	}
	return nil
}

// logo reads the operator's picture; none when there is no file.
func (c *Config) logo() (shell.Logo, error) {
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

func (c *Config) checkBaseURL() error {
	if c.BaseURL == "" {
		return nil
	}
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil:
		return err
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("%q is not like https://host or http://host:port", c.BaseURL)
	case u.Scheme == "http" && !c.Sandbox() && !deployment.IsLocal(c.BaseURL):
		return errors.New("must be https in live, except on loopback")
	}
	return nil
}

func (c *Config) checkValkey() error {
	_, err := ratelimit.NewShared(c.ValkeyURL, nil, slog.New(slog.DiscardHandler), nil)
	if err == nil && !c.Sandbox() {
		err = ratelimit.CheckPrivate(c.ValkeyURL)
	}
	return err
}

// proxies are the networks of trusted proxies.
func (c *Config) proxies() ([]netip.Prefix, error) {
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

// checkServing refuses what would harm people once the base URL is known. The program itself speaks http, so behind an
// https address there is a proxy: unless it is trusted, all visitors have its address, and one who guesses passwords
// shuts out all others.
func (c *Config) checkServing() error {
	if c.Sandbox() || !strings.HasPrefix(c.BaseURL, "https:") || len(c.TrustedProxies) > 0 {
		return nil
	}
	return errors.New("PARTNERD_TRUSTED_PROXIES: name the networks of the proxy in front, like 10.0.0.0/8, whose " +
		"X-Forwarded-For tells visitors apart; " +
		"or say " + noProxies + " if they connect to this program directly")
}

// Logger makes the logger that the configuration asks for, on standard error.
func (c *Config) Logger() *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(sparing(slog.NewJSONHandler(os.Stderr, o)))
	}
	return slog.New(sparing(slog.NewTextHandler(os.Stderr, o)))
}

// keys are the secrets of a deployment.
type keys struct {
	box     *seal.Box
	drop    *seal.Drop
	master  string
	cursor  []byte // signs page cursors
	payment string // signs notices of the built-in payment provider
	buckets []byte // names the buckets of quotas where several processes count
	phone   []byte // of the digests of phone numbers that codes are sent to
}

// keys reads the keys, making those that are not configured in the data folder at the first start.
func (c *Config) keys() (k keys, err error) {
	if err := c.checkNoteKey(); err != nil {
		return k, err
	}
	master, public := c.MasterKey, c.NotePublicKey
	if master == "" || public == "" {
		if err := c.makeKeys(); err != nil {
			return k, fmt.Errorf("make keys: %w", err)
		}
	}
	if master, err = c.Master(); err != nil {
		return k, err
	}
	if public, err = orFile(public, c.path(notePublicKey)); err != nil {
		return k, c.noteKeyFault(err)
	}
	if k.box, err = seal.OpenBox(master); err != nil {
		return k, c.masterKeyFault(err)
	}
	if k.drop, err = seal.OpenDrop(public); err != nil {
		return k, c.noteKeyFault(err)
	}
	k.master = master
	return k, nil
}

// keep fills in the secrets that outlive the parts of the master key: the database has them, from the first start on.
func (k *keys) keep(ctx context.Context, tx postgres.Tx) error {
	secret := func(purpose string) ([]byte, error) {
		first, err := seal.Derive(k.master, purpose)
		if err != nil {
			return nil, err
		}
		return deployment.Secret(ctx, tx, k.box, purpose, first)
	}
	var err1, err2, err3, err4 error
	var payment []byte
	k.cursor, err1 = secret("page cursors")
	k.phone, err2 = secret("phone numbers")
	k.buckets, err3 = secret("buckets of quotas")
	payment, err4 = secret("payment notices")
	k.payment = base64.RawURLEncoding.EncodeToString(payment)
	return errors.Join(err1, err2, err3, err4)
}

// Master returns the master key: the configured one, or that of the data folder.
func (c *Config) Master() (string, error) {
	key, err := orFile(c.MasterKey, c.path(masterKey))
	if err != nil {
		return "", c.masterKeyFault(err)
	}
	return key, nil
}

// masterKeyFault says which master key cannot be used, and the way out.
func (c *Config) masterKeyFault(err error) error {
	return fmt.Errorf("master key: %s: %w; put the copy of this key back that is kept with the backups, because a "+
		"new key opens nothing of this database",
		c.keySource("PARTNERD_MASTER_KEY", c.MasterKey, masterKey), unread(err))
}

// noteKeyFault says which public key of notes cannot be used, and the way out.
func (c *Config) noteKeyFault(err error) error {
	return fmt.Errorf("note key: %s: %w; put the public half back that partnerd key generate printed, or a new one: "+
		"notes open with the private half of their day",
		c.keySource("PARTNERD_NOTE_PUBLIC_KEY", c.NotePublicKey, notePublicKey), unread(err))
}

// unread is an error of a file without its path, which is said before it.
func unread(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// keySource names where a key comes from: the file that a variable names, the variable, or the file in the data folder.
func (c *Config) keySource(setting, value, file string) string {
	if value == "" {
		return c.path(file)
	}
	if named := os.Getenv(setting + "_FILE"); named != "" && os.Getenv(setting) == "" {
		return named + " (" + setting + "_FILE)"
	}
	return setting
}

// checkNoteKey keeps the key that opens notes away from a live server: whoever reads the data folder, or a backup of
// it, would read every note.
func (c *Config) checkNoteKey() error {
	if c.Sandbox() {
		return nil
	}
	private, err := filepath.Abs(c.path(notePrivateKey))
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if _, err := os.Lstat(private); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is the key that opens notes, and a live server must not hold it: move it to where "+
			"lawyers are handed their notes, delete it from backups of this folder, and start again", private)
	}
	if _, err := os.Stat(c.path(notePublicKey)); c.NotePublicKey == "" && err != nil {
		return errors.New("PARTNERD_NOTE_PUBLIC_KEY: required in live; make a pair with partnerd key generate, and " +
			"keep the private half away from the server")
	}
	return nil
}

// In the data folder.
const masterKey, notePublicKey, notePrivateKey = "keys/master.key", "keys/note-public.key", "keys/note-private.key"

// makeKeys fills the key folder unless there is one. The folder appears whole, so of several processes that start at
// once one wins and all use its keys. A sandbox gets a pair for notes too, whose private half lies there for whoever
// tries to hand lawyers their own notes; the program never reads it.
func (c *Config) makeKeys() error {
	dir := c.path("keys")
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(c.DataDir, 0o711); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(c.DataDir, ".keys-*") // mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	master, err := seal.NewKey()
	if err != nil {
		return err
	}
	made := map[string]string{masterKey: master}
	if c.Sandbox() {
		if made[notePublicKey], made[notePrivateKey], err = seal.NewKeyPair(); err != nil {
			return err
		}
	}
	for name, key := range made {
		if err := os.WriteFile(filepath.Join(temp, filepath.Base(name)), []byte(key+"\n"), 0o600); err != nil {
			return err
		}
	}
	if err := os.Rename(temp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func orFile(value, path string) (string, error) {
	if value != "" {
		return value, nil
	}
	b, err := os.ReadFile(path)
	return string(b), err
}

func (c *Config) path(name string) string { return filepath.Join(c.DataDir, filepath.FromSlash(name)) }

// checkMoney reports what is wrong with the settings of payments.
func (c *Config) checkMoney(r *refusals) {
	const together = "does not work without "
	r.want(c.StripeSecretKey != "" || c.StripeWebhookSecret == "", "PARTNERD_STRIPE_WEBHOOK_SECRET",
		together+"PARTNERD_STRIPE_SECRET_KEY")
	r.want(c.StripeSecretKey == "" || c.StripeWebhookSecret != "", "PARTNERD_STRIPE_SECRET_KEY",
		together+"PARTNERD_STRIPE_WEBHOOK_SECRET")
	test := strings.HasPrefix(c.StripeSecretKey, "sk_test_") || strings.HasPrefix(c.StripeSecretKey, "rk_test_")
	r.want(c.StripeSecretKey == "" || test == c.Sandbox(), "PARTNERD_STRIPE_SECRET_KEY",
		"a sandbox takes a test key of Stripe, live takes none of those")
}

// MailLeaves tells whether the mail server is another machine's, and so may send into the world; one on this machine
// catches what a sandbox sends, or knows itself what it cannot deliver.
func (c *Config) MailLeaves() bool { return c.MailServer != "" && !deployment.IsLocal(c.MailServer) }

// mailKept is what the log and the doctor say where [Config.keepsMailFromPeople].
const mailKept = "no mail server is set, so no email leaves this sandbox: " +
	"people elsewhere cannot confirm an account or reset a password"

// keepsMailFromPeople tells whether a sandbox is used from elsewhere while its emails stay in its data folder.
func (c *Config) keepsMailFromPeople() bool {
	return c.Sandbox() && c.MailServer == "" && c.BaseURL != "" && !deployment.IsLocal(c.BaseURL)
}
