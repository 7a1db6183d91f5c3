package config

import (
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/seal"
)

func good() Config {
	return Config{Env: "sandbox", Addr: "127.0.0.1:8080", RateApplication: 1, RateClient: 1, RateUnauthorized: 1,
		RateTokenFailures: 1, DatabaseConns: 1}
}

func TestEveryFaultOfTheConfigurationIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	c := good()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	c.Addr, c.BaseURL, c.RateClient, c.TrustedProxies = "foo", "ftp://x", 0, []string{"nonsense"}
	err := c.Check()
	for _, name := range []string{
		"PARTNERD_ADDR", "PARTNERD_BASE_URL", "PARTNERD_RATE_CLIENT", "PARTNERD_TRUSTED_PROXIES",
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
}

// TestNumbersAreWithinTheirRange checks that a given number or duration is accepted up to both ends of its range. The
// error has the name, the value and the range. Go code may omit settings that have a default.
func TestNumbersAreWithinTheirRange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set         func(c *Config, n int)
		least, most int
		unit        time.Duration
	}{
		"PARTNERD_RATE_APPLICATION":    {func(c *Config, n int) { c.RateApplication = n }, 1, 1_000_000, 0},
		"PARTNERD_RATE_CLIENT":         {func(c *Config, n int) { c.RateClient = n }, 1, 1_000_000, 0},
		"PARTNERD_RATE_UNAUTHORIZED":   {func(c *Config, n int) { c.RateUnauthorized = n }, 1, 1_000_000, 0},
		"PARTNERD_RATE_TOKEN_FAILURES": {func(c *Config, n int) { c.RateTokenFailures = n }, 1, 1_000_000, 0},
		"PARTNERD_DATABASE_CONNS":      {func(c *Config, n int) { c.DatabaseConns = n }, 1, 1_000_000, 0},
		"PARTNERD_PHONE_CODES":         {func(c *Config, n int) { c.PhoneCodes = &n }, 1, 10_000_000, 0},
		"PARTNERD_DRAIN_DELAY": {func(c *Config, n int) { c.DrainDelay = time.Duration(n) * time.Second }, 0,
			300, time.Second},
		"PARTNERD_WEBHOOK_RETENTION": {
			func(c *Config, n int) { c.WebhookRetention = new(time.Duration(n) * time.Hour) }, 72, 87_600, time.Hour,
		},
	} {
		show := func(n int) string {
			if c.unit > 0 {
				return (time.Duration(n) * c.unit).String()
			}
			return strconv.Itoa(n)
		}
		for n, right := range map[int]bool{
			c.least: true, c.most: true, c.least - 1: false, c.most + 1: false, -1: false, 0: c.least == 0,
		} {
			cfg := good()
			c.set(&cfg, n)
			err := cfg.Check()
			if right && err != nil || !right && (err == nil ||
				err.Error() != name+": "+show(n)+" is not between "+show(c.least)+" and "+show(c.most)) {
				t.Errorf("%s=%d: %v", name, n, err)
			}
		}
	}
}

// TestTheSettingsOfTelephonyAreExamined checks that invalid telephony settings are named, and no secret is repeated.
func TestTheSettingsOfTelephonyAreExamined(t *testing.T) {
	t.Parallel()
	live := good()
	live.Env, live.Telephony, live.TwilioAccountSID, live.TwilioAuthToken = "live", "twilio",
		"AC0123456789abcdef0123456789abcdef", "feed0123456789abcdef0123456789ab"
	live.TwilioAPIKey, live.TwilioAPISecret, live.TwilioCallerID, live.TwilioRegion =
		"SK0123456789abcdef0123456789abcdef", "secret1", "+33199000000", "dublin.ie1"
	if err := live.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(c *Config){
		"PARTNERD_TELEPHONY":          func(c *Config) { c.Env = "sandbox" },
		"PARTNERD_TWILIO_ACCOUNT_SID": func(c *Config) { c.TwilioAccountSID = "SK0123456789abcdef0123456789abcdef" },
		"PARTNERD_TWILIO_AUTH_TOKEN":  func(c *Config) { c.TwilioAuthToken = "token1" },
		"PARTNERD_TWILIO_API_KEY":     func(c *Config) { c.TwilioAPIKey = "key" },
		"PARTNERD_TWILIO_API_SECRET":  func(c *Config) { c.TwilioAPISecret = "" },
		"PARTNERD_TWILIO_CALLER_ID":   func(c *Config) { c.TwilioCallerID = "0199000000" },
		"PARTNERD_TWILIO_REGION":      func(c *Config) { c.TwilioRegion = "evil.example/" },
		"PARTNERD_TWILIO_URL":         func(c *Config) { c.TwilioRegion, c.TwilioURL = "", "http://provider.example" },
	} {
		c := live
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), name+":") ||
			strings.Contains(err.Error(), "token1") || strings.Contains(err.Error(), "secret1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTelephonyProvidersAreChosenByName checks that the options are exactly the entries of [providers].
func TestTelephonyProvidersAreChosenByName(t *testing.T) {
	t.Parallel()
	field, _ := reflect.TypeFor[Config]().FieldByName("Telephony")
	names := slices.Sorted(maps.Keys(providers))
	if got := field.Tag.Get("enum"); got != ","+strings.Join(names, ",") {
		t.Errorf("the setting takes %q, and there are %q", got, names)
	}
	for name, p := range providers {
		if p.check == nil || p.standIn == nil || !strings.Contains(field.Tag.Get("help"), name) {
			t.Errorf("%s is not complete, or the help of the setting does not name it", name)
		}
	}
	c := good()
	c.Env, c.Telephony = "live", "another"
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "PARTNERD_TELEPHONY:") {
		t.Errorf("a name that no provider has: %v", err)
	}
}

// TestTheSettingsOfTelemetryAreExamined checks that OpenTelemetry's standard variables are validated once they are
// used. No secret is repeated.
func TestTheSettingsOfTelemetryAreExamined(t *testing.T) {
	t.Parallel()
	sending := good()
	sending.OTLPEndpoint, sending.OTLPHeaders, sending.TracesSampler, sending.TracesSamplerArg =
		"http://127.0.0.1:4318", "authorization=secret1", "parentbased_traceidratio", "0.1"
	if err := sending.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(c *Config){
		"OTEL_EXPORTER_OTLP_ENDPOINT":        func(c *Config) { c.OTLPEndpoint = "https://user:secret1@host" },
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": func(c *Config) { c.OTLPTracesEndpoint = "host:4317" },
		"OTEL_EXPORTER_OTLP_HEADERS":         func(c *Config) { c.OTLPHeaders = "secret1" },
		"OTEL_EXPORTER_OTLP_PROTOCOL":        func(c *Config) { c.OTLPProtocol = "grpc" },
		"OTEL_TRACES_SAMPLER":                func(c *Config) { c.TracesSampler = "jaeger_remote" },
		"OTEL_TRACES_SAMPLER_ARG":            func(c *Config) { c.TracesSamplerArg = "10" },
	} {
		c := sending
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), name+":") ||
			strings.Contains(err.Error(), "secret1") {
			t.Errorf("%s: %v", name, err)
		}
		if c.OTELDisabled = true; c.Check() != nil {
			t.Errorf("%s is examined although nothing is sent", name)
		}
	}
}

func TestBaseURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][2]bool{ // sandbox, live
		"http://localhost:8080": {true, true}, "http://127.0.0.1:1": {true, true}, "https://api.example": {true, true},
		"https://api.example/": {true, true}, "http://api.example": {true, false},
		"https://api.example/path": {false, false}, "https://u:p@api.example": {false, false},
		"api.example": {false, false},
	} {
		for i, env := range []string{"sandbox", "live"} {
			c := good()
			c.Env, c.BaseURL = env, url
			if err := c.Check(); (err == nil) != want[i] {
				t.Errorf("%s in %s: %v", url, env, err)
			}
		}
	}
}

func TestLiveWithItsOwnDatabaseNeedsConfiguredKeys(t *testing.T) {
	t.Parallel()
	c := good()
	c.Env, c.DatabaseURL = "live", "postgres://db.example/x"
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "PARTNERD_MASTER_KEY") {
		t.Errorf("accepted: %v", err)
	}
}

// TestALiveServerHoldsNoKeyThatOpensNotes checks that a live server creates no private note key, and does not start if
// there is one.
func TestALiveServerHoldsNoKeyThatOpensNotes(t *testing.T) {
	t.Parallel()
	public, private, err := seal.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	live := func() Config {
		c := good()
		c.Env, c.DataDir = "live", t.TempDir()
		return c
	}
	c := live()
	if _, err := c.Keys(); err == nil || !strings.Contains(err.Error(), "PARTNERD_NOTE_PUBLIC_KEY") ||
		!strings.Contains(err.Error(), "key generate") {
		t.Errorf("without a public key: %v", err)
	}
	if left, err := os.ReadDir(c.DataDir); err != nil || len(left) > 0 {
		t.Errorf("a refused start left %v %v", left, err)
	}
	c.NotePublicKey = public
	if _, err := c.Keys(); err != nil {
		t.Fatal(err)
	}
	if made, err := os.ReadDir(c.Path("keys")); err != nil || len(made) != 1 || made[0].Name() != "master.key" {
		t.Errorf("made in live: %v %v", made, err)
	}
	// A folder of the previous release has both keys: it is rejected until the private key is moved away; then the
	// public key is used.
	old := live()
	sandbox := old
	sandbox.Env = "sandbox"
	if _, err := sandbox.Keys(); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", public} {
		old.NotePublicKey = key
		if _, err := old.Keys(); err == nil || !strings.Contains(err.Error(), "note-private.key") ||
			!strings.Contains(err.Error(), "move it") {
			t.Errorf("beside the private half: %v", err)
		}
	}
	if err := os.Remove(old.Path(NotePrivateKeyFile)); err != nil {
		t.Fatal(err)
	}
	old.NotePublicKey = ""
	if _, err := old.Keys(); err != nil {
		t.Errorf("with the private half elsewhere: %v", err)
	}
	old.NotePublicKey = private
	if _, err := old.Keys(); err == nil {
		t.Error("the private half was accepted as the public one")
	}
}

func TestProcessesThatStartAtOnceShareTheirKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var wg sync.WaitGroup
	secrets := make([]string, 8)
	for i := range secrets {
		wg.Go(func() {
			c := good()
			c.DataDir = dir
			k, err := c.Keys()
			if err != nil {
				t.Error(err)
				return
			}
			secrets[i] = k.master
		})
	}
	wg.Wait()
	for _, s := range secrets {
		if s == "" || s != secrets[0] {
			t.Fatal("two processes have different keys")
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	if info, err := os.Stat(dir + "/keys/master.key"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("master key: %v %v", info, err)
	}
}

// TestTheEnvironmentOfADatabaseIsSaid checks that a configured database requires an explicit environment. The private
// cluster is a sandbox's by default.
func TestTheEnvironmentOfADatabaseIsSaid(t *testing.T) {
	t.Parallel()
	c := good()
	c.Env = ""
	if err := c.Check(); err != nil || !c.Sandbox() {
		t.Errorf("a private database: %v", err)
	}
	c.DatabaseURL = "postgres://localhost/x"
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "PARTNERD_ENV") {
		t.Errorf("a database of somebody's own: %v", err)
	}
}

// TestLiveIsCareful checks that a live deployment's unsafe settings are reported at startup.
func TestLiveIsCareful(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Config)
		fault  string
	}{
		"all is said": {func(*Config) {}, ""},
		"no proxy":    {func(c *Config) { c.TrustedProxies = nil }, "PARTNERD_TRUSTED_PROXIES"},
		"none, said":  {func(c *Config) { c.TrustedProxies = []string{"none"} }, ""},
		"none and one": {func(c *Config) { c.TrustedProxies = []string{"none", "10.0.0.0/8"} },
			"PARTNERD_TRUSTED_PROXIES"},
		"no proxy in front": {func(c *Config) { c.TrustedProxies, c.BaseURL = nil, "http://localhost:1" }, ""},
		"a sandbox":         {func(c *Config) { c.TrustedProxies, c.Env = nil, "sandbox" }, ""},
		"a database in clear": {func(c *Config) { c.DatabaseURL = "postgres://u:hush@db.example/x" },
			"sslmode=require"},
		"perhaps in clear": {func(c *Config) { c.DatabaseURL = "postgres://db.example/x?sslmode=allow" },
			"sslmode=require"},
		"one of two in clear": {
			func(c *Config) { c.DatabaseURL = "postgres://localhost,db.example/x?sslmode=disable" }, "sslmode=require",
		},
		"in clear, in words": {func(c *Config) { c.DatabaseURL = "host=10.0.0.1 dbname=x sslmode=disable" },
			"sslmode=require"},
		"encrypted":            {func(c *Config) { c.DatabaseURL = "postgres://db.example/x?sslmode=require" }, ""},
		"on this machine":      {func(c *Config) { c.DatabaseURL = "postgres://[::1]/x?sslmode=disable" }, ""},
		"by a socket":          {func(c *Config) { c.DatabaseURL = "host=/run/postgresql dbname=x" }, ""},
		"a sandbox's in clear": {func(c *Config) { c.Env, c.DatabaseURL = "sandbox", "postgres://db.example/x" }, ""},
	} {
		cfg := good()
		cfg.Env, cfg.BaseURL, cfg.TrustedProxies = "live", "https://api.example", []string{"10.0.0.0/8", "fd00::/8"}
		cfg.MasterKey, cfg.NotePublicKey = "unused", "unused"
		c.change(&cfg)
		err := errors.Join(cfg.Check(), cfg.CheckServing())
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) ||
			err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMailLeavesByAnotherMachine checks that a sandbox keeps email to the domain example from a server that may send it
// to the outside. A server on this machine receives it.
func TestMailLeavesByAnotherMachine(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]bool{
		"": false, "smtp://localhost:1025": false, "smtp://127.0.0.1:25": false, "smtp://[::1]:25": false,
		"smtp://u:p@mail.example:587": true, "smtps://10.0.0.1": true,
	} {
		if cfg := (Config{MailServer: server}); cfg.MailLeaves() != want {
			t.Errorf("%s: %t", server, !want)
		}
	}
}

// TestWebhooksToThisMachine checks that by default webhooks may go to this machine if it is the visitor's. A live
// deployment never sends them there.
func TestWebhooksToThisMachine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env, baseURL string
		said         *bool
		want         bool
	}{
		{"sandbox", "http://localhost:8080", nil, true}, {"sandbox", "https://api.example", nil, false},
		{"sandbox", "http://localhost:8080", new(false), false}, {"sandbox", "https://api.example", new(true), true},
		{"live", "http://localhost:8080", nil, false}, {"live", "https://api.example", new(true), false},
	} {
		cfg := Config{Env: c.env, BaseURL: c.baseURL, WebhookLoopback: c.said}
		allow, hide := cfg.Loopback()
		if allow != c.want || hide == strings.HasPrefix(c.baseURL, "http:") {
			t.Errorf("%+v: allowed %t, hidden %t", c, allow, hide)
		}
	}
}

func TestStripeKeysFitTheDeployment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env, key, secret string
		ok               bool
	}{
		"none":              {"sandbox", "", "", true},
		"none in live":      {"live", "", "", true},
		"test in sandbox":   {"sandbox", "sk_test_1", "whsec_1", true},
		"restricted":        {"sandbox", "rk_test_1", "whsec_1", true},
		"live in live":      {"live", "sk_live_1", "whsec_1", true},
		"live in a sandbox": {"sandbox", "sk_live_1", "whsec_1", false},
		"test in live":      {"live", "sk_test_1", "whsec_1", false},
		"no webhook secret": {"live", "sk_live_1", "", false},
		"no key":            {"live", "", "whsec_1", false},
	} {
		cfg := good()
		cfg.Env, cfg.StripeSecretKey, cfg.StripeWebhookSecret = c.env, c.key, c.secret
		err := cfg.Check()
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && c.key != "" && strings.Contains(err.Error(), c.key) {
			t.Errorf("%s: the message holds the key: %v", name, err)
		}
	}
}
