package app

import (
	"bytes"
	"errors"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/app/config"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/operator"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// TestARestoredDatabaseIsSettledByTheLostOne checks that a restored database takes over what has ended since, keeps
// partners' tokens, and reuses no number. What cannot be erased yet is reported, and erased when the command is run
// again.
func TestARestoredDatabaseIsSettledByTheLostOne(t *testing.T) {
	t.Parallel()
	ctx, by := t.Context(), operator.Act{Actor: "cli:demo", Reason: "A test"}
	lostCfg := ofEnvironment(t, "sandbox", dbtest.URL(t))
	cfg := lostCfg
	cfg.DatabaseURL = dbtest.URL(t)
	cfg.DatabaseOwnerURL, cfg.DataDir = dbtest.OwnerURL(t, cfg.DatabaseURL), filepath.Join(t.TempDir(), "data")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func(c config.Config) *App {
		a, err := Open(ctx, c, slog.New(slog.DiscardHandler))
		must(err)
		t.Cleanup(a.Close)
		return a
	}
	lost := open(lostCfg)
	open(cfg) // creates the tables
	app, err := lost.Operator.RegisterApplication(ctx, by, application.NewApplication{Name: "CRM",
		RedirectURIs: []string{"https://crm.example/cb"}, Scopes: application.AllScopes}, "")
	must(err)
	var clients [3]account.Client
	var tokens [3]oauth.TokenResponse
	for i, email := range []string{"erased@client.example", "linked@client.example", "rich@client.example"} {
		clients[i], err = lost.Operator.CreateClient(ctx, by,
			account.NewClient{Email: email, Password: "for the tests only, please", Name: "A Client"}, 0)
		must(err)
		tokens[i], err = lost.OAuth.Agreed(ctx,
			application.Application{ID: app.ClientID, RedirectURIs: []string{"https://crm.example/cb"},
				Scopes: application.AllScopes}, clients[i].ID, application.AllScopes)
		must(err)
	}
	// The point in time: the restored database contains nothing later.
	copyTables(t, dbtest.OwnerURL(t, lostCfg.DatabaseURL), cfg.DatabaseOwnerURL, "applications", "webhook_endpoints",
		"clients", "vault.client_keys", "wallets", "oauth_grants", "oauth_refresh_tokens", "signing_keys")
	restored := open(cfg)
	to := time.Now()
	refresh := func(a *App, token string) (oauth.TokenResponse, error) {
		return a.OAuth.Token(ctx, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token},
			"client_id": {app.ClientID}, "client_secret": {app.ClientSecret}}, "")
	}
	kept, err := refresh(lost, tokens[1].RefreshToken)
	must(err)
	_, err = lost.Operator.UnlinkClient(ctx, by, clients[2].ID, app.ClientID)
	must(err)
	for _, c := range []account.Client{clients[0], clients[2]} {
		must(lost.DB.InTx(ctx, func(tx postgres.Tx) error { return lost.Privacy.EraseAgain(ctx, tx, c.ID) }))
	}
	must(restored.DB.InTx(ctx, func(tx postgres.Tx) error {
		_, err := restored.Accounts.SignIn(ctx, tx, clients[1].ID)
		return errors.Join(err, restored.Wallet.Adjust(ctx, tx, clients[2].ID, 500,
			"what was paid back after the instant"))
	}))

	if _, err := restored.Restored(ctx, operator.Act{Actor: "cli:demo"}, to, ""); !errors.Is(err,
		operator.ErrNoReason) {
		t.Errorf("without a reason: %v", err)
	}
	r, err := restored.Restored(ctx, by, to, lostCfg.DatabaseURL)
	must(err)
	if len(r.Erased) != 1 || r.Erased[0] != clients[0].ID || len(r.NotErased) != 1 ||
		r.NotErased[0].ClientID != clients[2].ID || !strings.Contains(r.NotErased[0].Why, "money") {
		t.Errorf("erased: %+v %+v", r.Erased, r.NotErased)
	}
	if r.LinksEnded != 2 || r.TokensKept != 1 || r.SignedOut != 1 || r.Applications != 1 || !r.Compared {
		t.Errorf("%+v", r)
	}
	if len(r.Acts) == 0 || r.Acts[0].Action != "client.unlink" {
		t.Errorf("acts: %+v", r.Acts)
	}
	if _, err := refresh(restored, kept.RefreshToken); err != nil {
		t.Errorf("the refresh token that the partner got after the instant: %v", err)
	}
	for _, i := range []int{0, 2} {
		if _, err := refresh(restored, tokens[i].RefreshToken); err == nil {
			t.Errorf("link %d lives, which had ended", i)
		}
	}
	must(restored.DB.InTx(ctx, func(tx postgres.Tx) error {
		if c, err := restored.Accounts.Get(ctx, tx, clients[0].ID); err != nil || c.Name != account.ErasedName {
			t.Errorf("the erased client: %+v, %v", c, err)
		}
		return restored.Wallet.Adjust(ctx, tx, clients[2].ID, -500, "paid back")
	}))

	again, err := restored.Restored(ctx, by, to, lostCfg.DatabaseURL)
	must(err)
	if len(again.Erased) != 1 || again.Erased[0] != clients[2].ID || len(again.NotErased) != 0 ||
		again.LinksEnded != 0 || again.TokensKept != 0 {
		t.Errorf("again: %+v", again)
	}
	entries, err := audit.List(ctx, restored.DB.Read(), "", 0, 10)
	must(err)
	var acts []string
	for _, e := range entries {
		acts = append(acts, e.Action)
	}
	if got := strings.Join(acts,
		" "); got != "client.erase_again deployment.restored client.erase_again deployment.restored" {
		t.Errorf("the audit: %s", got)
	}
	if r, err := restored.Restored(ctx, by, to, ""); err != nil || r.Compared || r.Applications != 1 {
		t.Errorf("without the lost database: %+v, %v", r, err)
	}
}

// copyTables copies the rows of tables from one database to another.
func copyTables(t *testing.T, from, to string, tables ...string) {
	t.Helper()
	var conns [2]*pgx.Conn
	for i, address := range []string{from, to} {
		var err error
		if conns[i], err = pgx.Connect(t.Context(), address); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close(t.Context())
	}
	for _, table := range tables {
		var rows bytes.Buffer
		if _, err := conns[1].Exec(t.Context(), "DELETE FROM "+table); err != nil {
			t.Fatal(err)
		}
		if _, err := conns[0].PgConn().CopyTo(t.Context(), &rows, "COPY "+table+" TO STDOUT"); err != nil {
			t.Fatal(err)
		}
		if _, err := conns[1].PgConn().CopyFrom(t.Context(), &rows, "COPY "+table+" FROM STDIN"); err != nil {
			t.Fatal(err)
		}
	}
}
