package bench

import (
	"testing"

	"partnerd/internal/app/config"
	"partnerd/internal/dev/dbtest"
)

// TestNoStatementReadsAGrowingTableWhole checks the plans of all recurring statements: none scans a growing table
// sequentially. The planner believes that each table has a thousand times its rows.
func TestNoStatementReadsAGrowingTableWhole(t *testing.T) {
	t.Parallel()
	r := &largeRig{url: dbtest.OwnerURL(t, dbtest.URL(t)), once: true}
	t.Cleanup(r.close)
	cfg := config.Config{Env: "sandbox", Addr: "127.0.0.1:0", DataDir: t.TempDir(), DatabaseURL: r.url,
		DatabaseConns:   4,
		RateApplication: 1_000_000, RateClient: 1_000_000, RateUnauthorized: 1, RateTokenFailures: 1}
	if err := r.open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	const rows = 4000
	if err := (past{1, rows}).fill(t.Context(), r.url); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"ANALYZE", "UPDATE pg_class SET reltuples = reltuples * 1000 WHERE relnamespace = 'public'::regnamespace " +
			"AND reltuples > 0",
	} {
		if err := r.exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	measured, err := r.measure(t.Context(), past{1, rows})
	if err != nil {
		t.Fatal(err)
	}
	scans, err := r.scans(t.Context(), measured, rows)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scans {
		t.Error(s)
	}
	if r.explained < 60 {
		t.Errorf("%d statements were explained", r.explained)
	}
}
