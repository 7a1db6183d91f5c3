package deployment_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/postgres"
)

// record returns the result for a program with this claim.
func record(t *testing.T, db *postgres.DB, c deployment.Claim) error {
	return db.InTx(t.Context(), func(tx postgres.Tx) error {
		_, err := deployment.Record(t.Context(), tx, c)
		return err
	})
}

// TestOneEnvironmentWins opens an empty database with several programs at the same time. Those of one environment
// continue and the others are rejected.
func TestOneEnvironmentWins(t *testing.T) {
	t.Parallel()
	for range 5 {
		db := dbtest.New(t)
		var all sync.WaitGroup
		var went [2]atomic.Int32
		for i := range 8 {
			all.Go(func() {
				c := deployment.Claim{Environment: []string{deployment.Sandbox, deployment.Live}[i%2],
					BaseURL: "https://api.example"}
				err := record(t, db, c)
				if err == nil {
					went[i%2].Add(1)
				} else if !strings.Contains(err.Error(), "belongs to a") {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if s, l := went[0].Load(), went[1].Load(); s+l != 4 || s*l != 0 {
			t.Errorf("%d of the sandbox and %d of live went on", s, l)
		}
	}
}

// TestAnEarlierReleaseIsRecognised checks that the rows of an earlier release reveal its environment, even before the
// table exists.
func TestAnEarlierReleaseIsRecognised(t *testing.T) {
	t.Parallel()
	const (
		client = `INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ('$', '$', 'Demo Client', '', now(), now())`
		lawyer = `INSERT INTO lawyers (id, email, name, password_hash, state, simulated, created_at, updated_at) VALUES ('$', '$', 'Demo Lawyer', '', 'OFFLINE', %, now(), now())`
		app    = `INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at) VALUES ('$', 'Demo CRM', '{}', '{}', '', now(), now())`
	)
	of := func(statement, id string) string { return strings.ReplaceAll(statement, "$", id) }
	simulated := func(s string, yes string) string { return strings.ReplaceAll(s, "%", yes) }
	for name, c := range map[string]struct {
		rows []string
		want deployment.Known
	}{
		"nothing":              {nil, deployment.Known{}},
		"client of a sandbox":  {[]string{of(client, "cli_test_1")}, deployment.Known{Environment: deployment.Sandbox}},
		"client":               {[]string{of(client, "cli_1")}, deployment.Known{Environment: deployment.Live}},
		"application, sandbox": {[]string{of(app, "app_test_1")}, deployment.Known{Environment: deployment.Sandbox}},
		"application":          {[]string{of(app, "app_1")}, deployment.Known{Environment: deployment.Live}},
		"lawyer": {[]string{simulated(of(lawyer, "law_1"), "false")},
			deployment.Known{Environment: deployment.Live}},
		"simulated lawyer": {[]string{simulated(of(lawyer, "law_test_1"), "true")},
			deployment.Known{Environment: deployment.Sandbox}},
		"both": {[]string{of(client, "cli_1"), simulated(of(lawyer, "law_test_1"), "true")},
			deployment.Known{Mixed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dbtest.Owner(t, dbtest.New(t))
			for _, row := range append(c.rows, `DROP TABLE deployment`) {
				if _, err := db.Pool().Exec(t.Context(), row); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := deployment.Get(t.Context(), db.Read()); got != c.want || err != nil {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestTheAddressIsKept checks that the base URL is stored the first time that one is given.
func TestTheAddressIsKept(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	for _, c := range []struct {
		claim deployment.Claim
		want  string
	}{
		{deployment.Claim{Environment: deployment.Sandbox, Local: "http://localhost:1"}, ""},
		{deployment.Claim{Environment: deployment.Sandbox, Local: "http://localhost:1", Serve: true},
			"http://localhost:1"},
		{deployment.Claim{Environment: deployment.Sandbox, Local: "http://localhost:2"}, "http://localhost:1"},
		{deployment.Claim{Environment: deployment.Sandbox, BaseURL: "https://api.example", Move: true},
			"https://api.example"},
		{deployment.Claim{Environment: deployment.Sandbox, Local: "http://localhost:2", Serve: true},
			"https://api.example"},
	} {
		if err := record(t, db, c.claim); err != nil {
			t.Fatalf("%+v: %v", c.claim, err)
		}
		if k, err := deployment.Get(t.Context(), db.Read()); err != nil || k.BaseURL != c.want || !k.Recorded ||
			k.Environment != deployment.Sandbox {
			t.Errorf("after %+v: %+v, %v", c.claim, k, err)
		}
	}
	// An empty schema, as before the first migration.
	if _, err := dbtest.Owner(t, db).Pool().Exec(t.Context(),
		`DROP SCHEMA public CASCADE; CREATE SCHEMA public`); err != nil {
		t.Fatal(err)
	}
	use, err := deployment.Check(t.Context(), db.Read(), deployment.Claim{Environment: deployment.Live,
		BaseURL: "https://api.example"})
	if err != nil || use != "https://api.example" {
		t.Errorf("no schema: %q, %v", use, err)
	}
}
