package doctor

import (
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"

	"partnerd/internal/app/config"
	"partnerd/internal/base/seal"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/postgres"
)

func good() config.Config {
	return config.Config{Env: "sandbox", Addr: "127.0.0.1:8080", RateApplication: 1, RateClient: 1, RateUnauthorized: 1,
		RateTokenFailures: 1, DatabaseConns: 1}
}

// door is a listener on this machine to which nothing must connect.
type door struct{ net.Listener }

func newDoor(t *testing.T) door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return door{l}
}

// untouched connects itself, and fails unless its connection is the first.
func (d door) untouched(t *testing.T) {
	t.Helper()
	own, err := net.Dial("tcp", d.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	first, err := d.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if first.RemoteAddr().String() != own.LocalAddr().String() {
		t.Error("somebody was there before")
	}
}

// TestWhatIsRefusedIsNotActedUpon checks that the doctor does not use a setting that it has rejected. No command looks
// for an installation with one.
func TestWhatIsRefusedIsNotActedUpon(t *testing.T) {
	t.Parallel()
	master, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	public, _, err := seal.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change         func(c *config.Config, address string)
		check, setting string
	}{
		"a database in clear": {func(c *config.Config, address string) {
			c.DatabaseURL = "postgres://u:hush@" + address + ",192.0.2.1:5432/x?sslmode=disable"
		}, "database", "PARTNERD_DATABASE_URL"},
		"its owner in clear": {func(c *config.Config, address string) {
			c.DatabaseURL, c.DatabaseOwnerURL = "postgres://u@"+address+"/x", "postgres://o:hush@"+address+
				",192.0.2.1:5432/x?sslmode=disable"
		}, "database", "PARTNERD_DATABASE_OWNER_URL"},
		"an owner and no database": {
			func(c *config.Config, address string) { c.DatabaseOwnerURL = "postgres://u@" + address + "/x" },
			"database",
			"PARTNERD_DATABASE_OWNER_URL",
		},
		"no environment": {
			func(c *config.Config, address string) { c.Env, c.DatabaseURL = "", "postgres://u@"+address+"/x" },
			"database",
			"PARTNERD_ENV",
		},
		"no address": {func(c *config.Config, address string) { c.BaseURL = "http://" + address + "/path" },
			"address", "PARTNERD_BASE_URL"},
		"a collector of another protocol": {func(c *config.Config, address string) {
			c.OTLPEndpoint, c.OTLPProtocol = "http://"+address, "grpc"
		},
			"collector", "OTEL_EXPORTER_OTLP_PROTOCOL"},
		"quotas at no such server": {func(c *config.Config, address string) { c.ValkeyURL = "http://" + address },
			"quotas",
			"PARTNERD_VALKEY_URL"},
		"mail to no such server": {func(c *config.Config, address string) { c.MailServer = "http://" + address },
			"mail",
			"PARTNERD_MAIL_SERVER"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			cfg := good()
			cfg.Env, cfg.DataDir, cfg.MasterKey, cfg.NotePublicKey = "live", t.TempDir(), master, public
			c.change(&cfg, d.Addr().String())
			found := Examine(t.Context(), cfg, nil, slog.New(slog.DiscardHandler))
			said := func(check string, level Level, text string) bool {
				return slices.ContainsFunc(found, func(f Finding) bool {
					return f.Check == check && f.Level == level && strings.Contains(f.Found, text)
				})
			}
			if !said("settings", Fail, c.setting+": ") || !said(c.check, Warn, "not checked, because "+c.setting) {
				t.Errorf("%+v", found)
			}
			if err := cfg.CheckInstalled(t.Context()); err == nil || !strings.Contains(err.Error(), c.setting+": ") ||
				strings.Contains(err.Error(), "hush") {
				t.Errorf("a command: %v", err)
			}
			d.untouched(t)
		})
	}
}

// TestTheAddressOfAnotherIsNotAsked checks that a base URL is not requested if the database knows that it belongs to
// another deployment.
func TestTheAddressOfAnotherIsNotAsked(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	db, err := postgres.Open(t.Context(), url, postgres.Options{MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := deployment.Record(t.Context(), db.Read(), deployment.Claim{Environment: deployment.Sandbox,
		BaseURL: "https://api.example"}); err != nil {
		t.Fatal(err)
	}
	cfg := good()
	cfg.DatabaseURL, cfg.DataDir = url, t.TempDir()
	if _, err := cfg.Keys(); err != nil {
		t.Fatal(err)
	}
	d := newDoor(t)
	cfg.BaseURL = "https://" + d.Addr().String()
	found := Examine(t.Context(), cfg, nil, slog.New(slog.DiscardHandler))
	if !slices.ContainsFunc(found,
		func(f Finding) bool { return f.Check == "address" && strings.HasPrefix(f.Found, "not checked") }) {
		t.Errorf("%+v", found)
	}
	d.untouched(t)
}

// TestAStandInForTelephonyIsTold checks that a substitute for the telephony provider, which accepts any token, is
// reported in a live deployment.
func TestAStandInForTelephonyIsTold(t *testing.T) {
	t.Parallel()
	for address, own := range map[string]bool{
		"": true, "https://api.twilio.com": true, "http://127.0.0.1:9000": false, "https://calls.example": false,
		"https://twilio.com.evil.example": false,
	} {
		c := good()
		c.Env, c.Telephony, c.TwilioAccountSID, c.TwilioAuthToken = "live", "twilio",
			"AC0123456789abcdef0123456789abcdef", "x"
		c.TwilioCallerID, c.TwilioURL = "+33199000000", address
		if err := c.Check(); (err != nil) != own {
			t.Errorf("%q with a token of one letter: %v", address, err)
		}
		doctor := examination{Config: c}
		doctor.settings()
		told := slices.ContainsFunc(doctor.found, func(f Finding) bool {
			return f.Level == Warn && strings.Contains(f.Found, "not to Twilio")
		})
		if told == own {
			t.Errorf("%q: told %t", address, told)
		}
		c.Env = "sandbox"
		if found, _, _ := c.StandIn(); found != "" {
			t.Errorf("%q: told of a sandbox", address)
		}
	}
}
