package app

import (
	"log/slog"
	"os"
	"testing"

	"partnerd/internal/dbtest"
)

// The secrets of the demo are shown once: they are kept also where nothing else, neither keys nor a database, has made the data folder.
func TestTheDemoIsKeptInANewDataFolder(t *testing.T) {
	t.Parallel()
	cfg := ofEnvironment(t, "sandbox", dbtest.URL(t))
	a, err := Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	if _, err := os.Stat(cfg.DataDir); err == nil {
		t.Fatal("the data folder is there already")
	}
	made, err := a.Seed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := a.Seed(t.Context()); err != nil || again == nil || *again != *made {
		t.Errorf("%+v, then %+v: %v", made, again, err)
	}
}
