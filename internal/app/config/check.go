package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"partnerd/internal/domain/account"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/infra/sms"
	"partnerd/internal/server/manual"
	"partnerd/internal/server/web/shell"
)

// Check reports all invalid settings at the same time.
func (c *Config) Check() error {
	var errs []error
	for _, r := range c.Refusals() {
		errs = append(errs, r)
	}
	return errors.Join(errs...)
}

// Refusal is an invalid setting, which the program neither starts with nor acts on.
type Refusal struct {
	Setting string // name of the environment variable
	Err     error
}

// Error implements error.
func (r Refusal) Error() string { return r.Setting + ": " + r.Err.Error() }

// Unwrap returns the cause, for [errors.Is].
func (r Refusal) Unwrap() error { return r.Err }

// refusals collects invalid settings.
type refusals []Refusal

// add records an error of a setting; nil is ignored.
func (r *refusals) add(setting string, err error) {
	if err != nil {
		*r = append(*r, Refusal{setting, err})
	}
}

// want records the error wrong for a setting unless right is true.
func (r *refusals) want(right bool, setting, wrong string) {
	if !right {
		r.add(setting, errors.New(wrong))
	}
}

// within checks the range of a number or a duration. It applies to every value that was given; nil means that none was,
// and the default is used. Flags and environment set all values; a [Config] created in Go may omit some.
func within[T int | time.Duration](r *refusals, setting string, given *T, least, most T) {
	if given != nil && (*given < least || *given > most) {
		r.add(setting, fmt.Errorf("%v is not between %v and %v", *given, least, most))
	}
}

// Refusals returns all invalid settings.
func (c *Config) Refusals() []Refusal {
	var r refusals
	_, _, err := net.SplitHostPort(c.Addr)
	r.add("PARTNERD_ADDR", err)
	r.want(c.Env != "" || c.DatabaseURL == "", "PARTNERD_ENV",
		"set it to sandbox or live when PARTNERD_DATABASE_URL is set")
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
			"PARTNERD_METRICS_TOKEN", "required unless the metrics address is local: the metrics show wallet totals")
	}
	r.add("PARTNERD_SECURITY_CONTACT", checkContact(c.SecurityContact))
	r.add("PARTNERD_CONTACT", checkContact(c.Contact))
	_, err = c.Logo()
	r.add("PARTNERD_SERVICE_LOGO", err)
	if c.LegalDir != "" {
		_, err := shell.ReadLegal(os.DirFS(c.LegalDir))
		r.add("PARTNERD_LEGAL_DIR", err)
	}
	if c.DownloadsDir != "" {
		_, err := manual.ReadDownloads(os.DirFS(c.DownloadsDir))
		r.add("PARTNERD_DOWNLOADS_DIR", err)
	}
	if c.WebhookProxy != "" {
		_, err := webhook.ParseProxy(c.WebhookProxy)
		r.want(err == nil, "PARTNERD_WEBHOOK_PROXY", "must be like http://host:port")
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
	_, err = c.Proxies()
	r.add("PARTNERD_TRUSTED_PROXIES", err)
	c.checkDatabase(&r)
	return r
}

const (
	maxRate      = 1_000_000 // requests per minute
	maxConns     = 1_000_000
	maxDrain     = 5 * time.Minute
	minRetention = 72 * time.Hour // exceeds the schedule of retries
	maxRetention = 10 * 365 * 24 * time.Hour
	maxCodes     = 10_000_000 // per day
)

// checkDatabase reports invalid database URLs, and missing keys that live requires.
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
		"set PARTNERD_DATABASE_URL too: some connections need a session and bypass the pooler")
	r.want(c.DatabaseOwnerURL == "" || c.DatabaseURL != "", "PARTNERD_DATABASE_OWNER_URL",
		"set PARTNERD_DATABASE_URL too: the private cluster has its own roles")
	given := c.Sandbox() || c.DatabaseURL == ""
	const required = "required in live with your own database; generate it with partnerd key generate"
	r.want(given || c.MasterKey != "", "PARTNERD_MASTER_KEY", required)
	r.want(given || c.NotePublicKey != "", "PARTNERD_NOTE_PUBLIC_KEY", required)
}

// checkContact returns what is wrong with a contact address. An empty address is valid.
func checkContact(contact string) error {
	if u, err := url.Parse(contact); contact != "" && (err != nil || u.Scheme != "https" && u.Scheme != "mailto" ||
		strings.ContainsAny(contact, "\n\r'\"")) {
		return fmt.Errorf("%q must be like mailto:help@partners.example or https://…", contact)
	}
	return nil
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
		return fmt.Errorf("%q must be like https://host or http://host:port", c.BaseURL)
	case u.Scheme == "http" && !c.Sandbox() && !deployment.IsLocal(c.BaseURL):
		return errors.New("must be https in live, except on this machine")
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

// checkMoney reports invalid payment settings.
func (c *Config) checkMoney(r *refusals) {
	const together = "requires "
	r.want(c.StripeSecretKey != "" || c.StripeWebhookSecret == "", "PARTNERD_STRIPE_WEBHOOK_SECRET",
		together+"PARTNERD_STRIPE_SECRET_KEY")
	r.want(c.StripeSecretKey == "" || c.StripeWebhookSecret != "", "PARTNERD_STRIPE_SECRET_KEY",
		together+"PARTNERD_STRIPE_WEBHOOK_SECRET")
	test := strings.HasPrefix(c.StripeSecretKey, "sk_test_") || strings.HasPrefix(c.StripeSecretKey, "rk_test_")
	r.want(c.StripeSecretKey == "" || test == c.Sandbox(), "PARTNERD_STRIPE_SECRET_KEY",
		"use a Stripe test key in a sandbox and a live key in live")
}

// CheckServing rejects settings that would harm people once the base URL is known. The program itself speaks HTTP, so
// an https base URL implies a proxy. Unless the proxy is trusted, all visitors share its address, and one who guesses
// passwords locks out all others.
func (c *Config) CheckServing() error {
	if c.Sandbox() || !strings.HasPrefix(c.BaseURL, "https:") || len(c.TrustedProxies) > 0 {
		return nil
	}
	return errors.New("PARTNERD_TRUSTED_PROXIES: set the networks of the proxy in front, like 10.0.0.0/8; its " +
		"X-Forwarded-For identifies visitors. " +
		"Set " + noProxies + " if visitors connect to this program directly")
}
