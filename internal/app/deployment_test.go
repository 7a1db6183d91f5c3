package app

import (
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/app/config"
	"partnerd/internal/app/doctor"
	"partnerd/internal/base/seal"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/operator"
	"partnerd/internal/infra/deployment"
)

// good is a configuration with which the program starts.
func good() config.Config {
	return config.Config{Env: "sandbox", Addr: "127.0.0.1:8080", RateApplication: 1, RateClient: 1, RateUnauthorized: 1,
		RateTokenFailures: 1, DatabaseConns: 1}
}

// ofEnvironment is a configuration for the database, with its own keys.
func ofEnvironment(t *testing.T, env, database string) config.Config {
	t.Helper()
	c := good()
	c.Env, c.DatabaseURL, c.DatabaseOwnerURL, c.DataDir = env, database, dbtest.OwnerURL(t, database),
		filepath.Join(t.TempDir(), "data")
	master, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	public, _, err := seal.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	c.MasterKey, c.NotePublicKey, c.BaseURL = master, public, "http://localhost:8080"
	return c
}

// tables returns the number of rows of each table, and the version of the schema.
func tables(t *testing.T, url string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	var all string
	err = c.QueryRow(t.Context(), `SELECT string_agg(relname || ' ' || query_to_xml('SELECT count(*) FROM ' || relname, false, true, '')::text, E'\n' ORDER BY relname)
		FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`).
		Scan(&all)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestEnvironmentsNeverMeet checks that a database of one environment is not opened for the other, and nothing is
// written, neither rows nor a migration. This holds even for a database of an earlier release, which has no table that
// names its environment.
func TestEnvironmentsNeverMeet(t *testing.T) {
	t.Parallel()
	for own, other := range map[string]string{
		deployment.Live: deployment.Sandbox, deployment.Sandbox: deployment.Live,
	} {
		t.Run(own, func(t *testing.T) {
			t.Parallel()
			url := dbtest.URL(t)
			cfg := ofEnvironment(t, own, url)
			open := func(c config.Config) error {
				a, err := Open(t.Context(), c, slog.New(slog.DiscardHandler))
				if err == nil {
					defer a.Close()
					_, err = a.CreateClient(t.Context(), account.NewClient{Email: c.Env + "@client.example",
						Password: "for the tests only, please", Name: "Demo Client"}, 0)
				}
				return err
			}
			if err := open(cfg); err != nil {
				t.Fatal(err)
			}
			intruder := ofEnvironment(t, other, url)
			intruder.Serving = true
			for range 2 {
				before := tables(t, url)
				err := open(intruder)
				if err == nil || !strings.Contains(err.Error(), "belongs to a "+own+" deployment") ||
					!strings.Contains(err.Error(), "PARTNERD_ENV") {
					t.Errorf("opened for %s: %v", other, err)
				}
				if after := tables(t, url); after != before {
					t.Errorf("opening for %s wrote:\n%s\nwas:\n%s", other, after, before)
				}
				// The same for a database of the previous release.
				exec(t, intruder.DatabaseOwnerURL,
					`DROP TABLE IF EXISTS deployment; DELETE FROM goose_db_version WHERE version_id >= 11`)
			}
		})
	}
}

func exec(t *testing.T, url, statement string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// TestTheAddressMovesByItsCommand checks that a live deployment's base URL changes only by a move, with an audit entry.
// A program without a configured base URL uses it.
func TestTheAddressMovesByItsCommand(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	cfg := ofEnvironment(t, deployment.Live, dbtest.URL(t))
	cfg.BaseURL = ""
	if _, err := Open(t.Context(), cfg, log); err == nil || !strings.Contains(err.Error(), "PARTNERD_BASE_URL") {
		t.Errorf("live without an address: %v", err)
	}
	address := func(baseURL, want string) {
		t.Helper()
		cfg.BaseURL = baseURL
		a, err := Open(t.Context(), cfg, log)
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "deployment move") {
				t.Errorf("another address: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if a.Config.BaseURL != want {
			t.Errorf("given %q it has %q", baseURL, a.Config.BaseURL)
		}
	}
	const first, second = "http://localhost:8080", "http://localhost:9090"
	address(first+"/", first)
	address("", first)
	address(second, "")
	cfg.BaseURL = second
	if err := MoveDeployment(t.Context(), cfg, log, operator.Act{Actor: "cli:demo"}); err == nil {
		t.Error("moved without a reason")
	}
	address("", first)
	cfg.BaseURL = second
	if err := MoveDeployment(t.Context(), cfg, log, operator.Act{Actor: "cli:demo", Reason: "New name"}); err != nil {
		t.Fatal(err)
	}
	address("", second)
	address(first, "")
	c, err := pgx.Connect(t.Context(), cfg.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	var entry string
	err = c.QueryRow(t.Context(), `SELECT concat_ws(' ', actor, action, subject, reason, details) FROM audit_entries`).
		Scan(&entry)
	if want := `cli:demo deployment.move live New name {"after":"` + second + `","before":"` + first +
		`"}`; entry != want || err != nil {
		t.Errorf("audit %q, %v", entry, err)
	}
}

// withSession returns the URL of a database with the session settings required behind a pooler.
func withSession(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for name, value := range map[string]string{
		"idle_in_transaction_session_timeout": "30000", "jit": "off", "lock_timeout": "5000",
	} {
		q.Set(name, value)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// TestAllAddressesLeadToOneDatabase checks that the owner's URL and the pooler must lead to the program's own database.
func TestAllAddressesLeadToOneDatabase(t *testing.T) {
	t.Parallel()
	own, other := dbtest.URL(t), dbtest.URL(t)
	before := tables(t, dbtest.OwnerURL(t, other))
	for name, set := range map[string]func(c *config.Config){
		"PARTNERD_DATABASE_OWNER_URL":  func(c *config.Config) { c.DatabaseOwnerURL = dbtest.OwnerURL(t, other) },
		"PARTNERD_DATABASE_POOLER_URL": func(c *config.Config) { c.DatabasePoolerURL = withSession(t, other) },
	} {
		cfg := ofEnvironment(t, "sandbox", own)
		set(&cfg)
		a, err := Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
		if err == nil {
			a.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), name+" points to a different database") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := tables(t, dbtest.OwnerURL(t, other)); after != before {
		t.Errorf("changed: %s, was %s", after, before)
	}
}

// TestTheDoctorLooksAtThePooler checks the pooler, without which the program does not start.
func TestTheDoctorLooksAtThePooler(t *testing.T) {
	t.Parallel()
	own := dbtest.URL(t)
	cfg := ofEnvironment(t, "sandbox", own)
	a, err := Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	for address, want := range map[string]doctor.Level{
		"": "", withSession(t, own): doctor.OK, withSession(t, dbtest.URL(t)): doctor.Fail, own: doctor.Fail,
		"postgres://nobody@127.0.0.1:1/nowhere": doctor.Fail,
	} {
		c, level := cfg, doctor.Level("")
		c.DatabasePoolerURL = address
		for _, f := range doctor.Examine(t.Context(), c, SealedColumns(), slog.New(slog.DiscardHandler)) {
			if f.Check == "pooler" {
				level = f.Level
			}
		}
		if level != want {
			t.Errorf("%s: %q, want %q", address, level, want)
		}
	}
}
