package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"partnerd/internal/base/seal"
	"partnerd/internal/dev/dbtest"
)

// TestTheMasterKeyOfAnotherIsNamed checks that a valid key of another database is named in the error as well.
func TestTheMasterKeyOfAnotherIsNamed(t *testing.T) {
	t.Parallel()
	cfg := ofEnvironment(t, "sandbox", dbtest.URL(t))
	a, err := Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	if cfg.MasterKey, err = seal.NewKey(); err != nil {
		t.Fatal(err)
	}
	if _, err = Open(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "PARTNERD_MASTER_KEY") && !strings.Contains(err.Error(), "master key") {
		t.Errorf("it starts with %v", err)
	}
}

// TestAProcessThatOnlyWorksIsProbed checks that a process without a serving address responds to its orchestrator's
// probes. They do not need the metrics token.
func TestAProcessThatOnlyWorksIsProbed(t *testing.T) {
	t.Parallel()
	a, err := Open(t.Context(), ofEnvironment(t, "sandbox", dbtest.URL(t)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	status := func(ready bool) int {
		w := httptest.NewRecorder()
		a.probe(ready)(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Code
	}
	if lives, ready := status(false), status(true); lives != http.StatusOK || ready != http.StatusOK {
		t.Errorf("while it works: %d %d", lives, ready)
	}
	a.ending.Store(true)
	if lives, ready := status(false), status(true); lives != http.StatusOK || ready != http.StatusServiceUnavailable {
		t.Errorf("while it ends: %d %d", lives, ready)
	}
	a.ending.Store(false)
	a.DB.Close()
	if lives, ready := status(false), status(true); lives != http.StatusOK || ready != http.StatusServiceUnavailable {
		t.Errorf("without a database: %d %d", lives, ready)
	}
}
