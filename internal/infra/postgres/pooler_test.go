package postgres_test

import (
	"strings"
	"testing"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

// TestAPoolerIsForStatementsOnly checks that statements use the pooler and session work does not. A pooler that does
// not apply the session settings is rejected. A second URL of the same server stands in for the pooler; statements
// prepared in its sessions are counted.
func TestAPoolerIsForStatementsOnly(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	_, err := postgres.Open(t.Context(), url, postgres.Options{MaxConns: 2, Pooler: url})
	if err == nil || !strings.Contains(err.Error(), postgres.SessionQuery()) {
		t.Errorf("without settings: %v", err)
	}
	pooler := url + "&lock_timeout=5000&idle_in_transaction_session_timeout=30000&jit=off&partnerd.pooler=yes"
	db, err := postgres.Open(t.Context(), url, postgres.Options{MaxConns: 2, Pooler: pooler})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const through = "SELECT coalesce(current_setting('partnerd.pooler', true), '')"
	const prepared = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%partnerd.pooler%'"
	for range 3 {
		if err := db.InTx(t.Context(), func(tx postgres.Tx) error {
			var way string
			var n int
			if err := tx.Gorm(t.Context()).Raw(through).Scan(&way).Error; err != nil {
				return err
			}
			if err := tx.Gorm(t.Context()).Raw(prepared).Scan(&n).Error; err != nil {
				return err
			}
			if way != "yes" || n != 0 {
				t.Errorf("a transaction goes through %q and prepares %d statements", way, n)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	var way string
	if err := db.Pool().QueryRow(t.Context(), through).Scan(&way); err != nil || way != "" {
		t.Errorf("a session goes through %q: %v", way, err)
	}
	few, err := db.ByIndex(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer few.Close()
	if err := few.Pool().QueryRow(t.Context(), through).Scan(&way); err != nil || way != "" {
		t.Errorf("the few statements of a queue go through %q: %v", way, err)
	}
}
