package app

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"partnerd/internal/dev/dbtest"
)

// TestTheDemoIsKeptInANewDataFolder exists because the demo's secrets are shown once. They must be stored even if
// neither keys nor a database have created the data folder.
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

// TestASandboxAtAPublicAddressStarts checks that it starts without the demo application, whose CRM would be on the
// visitor's machine.
func TestASandboxAtAPublicAddressStarts(t *testing.T) {
	t.Parallel()
	cfg := ofEnvironment(t, "sandbox", dbtest.URL(t))
	cfg.BaseURL, cfg.TrustedProxies = "https://sandbox.example", []string{"127.0.0.1/32"}
	a, err := Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	made, err := a.Seed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if made.WebhookURL != "" || made.RedirectURI != "" || made.ClientID != "" || made.ClientPassword == "" {
		t.Errorf("%+v", made)
	}
	if _, err := a.SeedStaff(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTheDemoIsWrittenWhole checks that readers find a complete file that only this account can read, whatever was
// there before.
func TestTheDemoIsWrittenWhole(t *testing.T) {
	t.Parallel()
	cfg := ofEnvironment(t, "sandbox", dbtest.URL(t))
	a, err := Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	path, reader := cfg.Path("demo.json"), cfg.Path("of a reader")
	if err := errors.Join(os.MkdirAll(cfg.DataDir, 0o700), os.WriteFile(path, []byte("before"), 0o644),
		os.Link(path, reader)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Seed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(reader); err != nil || string(kept) != "before" {
		t.Errorf("written in place: %q, %v", kept, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if left, err := filepath.Glob(cfg.Path(".demo*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestARestartInvitesNobodyAnew checks that a start invites the sandbox's people once, and again only if the invitation
// expired before they accepted.
func TestARestartInvitesNobodyAnew(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	a, err := Open(t.Context(), ofEnvironment(t, "sandbox", url), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	count := func(statement string) (n int) {
		t.Helper()
		if err := a.DB.Pool().QueryRow(t.Context(), statement).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	start := func() (list []Invitation, mails int) {
		t.Helper()
		list, err := a.SeedStaff(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list, count(`SELECT count(*) FROM river.river_job WHERE args->>'name' = 'mail'`)
	}
	first, mails := start()
	if len(first) != 2 || mails != 2 || first[0].Link == "" || first[1].Link == "" {
		t.Fatalf("%d mails, %+v", mails, first)
	}
	acts := count(`SELECT count(*) FROM audit_entries`)
	for range 2 {
		again, mails := start()
		if len(again) != 2 || mails != 2 || again[0].Link != "" || again[1].Link != "" ||
			again[0].Person.ID != first[0].Person.ID {
			t.Errorf("%d mails, %+v", mails, again)
		}
	}
	if n := count(`SELECT count(*) FROM audit_entries`); n != acts {
		t.Errorf("%d acts, were %d", n, acts)
	}
	exec(t, url, `UPDATE staff_links SET expires_at = now() WHERE staff_id = '`+first[0].Person.ID+`'`)
	exec(t, url, `UPDATE staff SET password_hash = 'chosen' WHERE id = '`+first[1].Person.ID+`'`)
	if late, mails := start(); len(late) != 1 || mails != 3 || late[0].Link == "" ||
		late[0].Person.ID != first[0].Person.ID {
		t.Errorf("%d mails, %+v", mails, late)
	}
}
